"""Transformer workloads from Hugging Face configurations, without torch."""

from steptime.workload.transformer.builder import build_transformer, can_build, kv_cache_bytes
from steptime.workload.transformer.config import find_config, known_configs

__all__ = ["build_transformer", "can_build", "find_config", "known_configs", "kv_cache_bytes"]
