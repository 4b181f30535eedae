"""Sizes that libraries and drivers take, read from the published shelf."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFacts:
    """Bytes that are not tensors."""

    contexts_bytes: Mapping[str, float]
    devices_reserved_bytes: Mapping[str, float]
    matrix_workspaces_bytes: Mapping[str, float]
    convolution_workspace_limit_bytes: float
    page_bytes: float

    def context_bytes(self, compute_capability: str) -> float:
        """Driver context, loaded kernels and what the driver keeps: no allocator counts them, device tools do."""
        kept = _by_major(self.devices_reserved_bytes, compute_capability)
        return kept + _by_major(self.contexts_bytes, compute_capability)

    def matrix_workspace_bytes(self, compute_capability: str) -> float:
        """The matrix library's workspace of one stream, taken from the allocator."""
        return _by_major(self.matrix_workspaces_bytes, compute_capability)


def _by_major(table: Mapping[str, float], compute_capability: str) -> float:
    return table.get(compute_capability.split(".", maxsplit=1)[0], table["default"])


_MIB = 2.0**20  # definition of the unit


@lru_cache(maxsize=1)
def load_memory_facts() -> MemoryFacts:
    """Return the facts of ``data/published/memory.toml``."""
    text = (
        resources.files("steptime").joinpath("data", "published", "memory.toml").read_text(encoding="utf-8")
    )
    t = tomllib.loads(text)
    mib = _MIB
    return MemoryFacts(
        contexts_bytes={k: v * mib for k, v in t["context_mib"].items()},
        devices_reserved_bytes={k: v * mib for k, v in t["device_reserved_mib"].items()},
        matrix_workspaces_bytes={k: v * mib for k, v in t["matrix_workspace_mib"].items()},
        convolution_workspace_limit_bytes=t["convolution"]["workspace_limit_mib"] * mib,
        page_bytes=t["allocator"]["page_mib"] * mib,
    )
