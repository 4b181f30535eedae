"""Build a Hugging Face model from its configuration, without weights and without network."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch

from steptime.errors import InputError, UnknownNameError
from steptime.workload.capture.huggingface_masks import masks_as_on_a_gpu
from steptime.workload.capture.request import CaptureRequest
from steptime.workload.capture.sources import Built, Inputs, default_loss, load_json
from steptime.workload.capture.torchvision_schemas import declare_missing_operators

DEFAULT_SEQ_LEN = 512


def read_config(name: str) -> dict[str, Any]:
    """Return a configuration by path, by folder, or by the name of a bundled one."""
    path = Path(name)
    if path.is_dir():
        path = path / "config.json"
    if path.suffix == ".json":
        return load_json(path)
    from steptime.workload.transformer import find_config, known_configs

    found = find_config(name)
    if found is None:
        raise UnknownNameError("configuration", name, known_configs())
    return dict(found[0])


def _model_class(transformers: Any, config: Any, architectures: list[str]) -> Any:
    for name in architectures:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    for auto in ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModel"):
        mapping = getattr(transformers, auto)._model_mapping
        if type(config) in mapping:
            return mapping[type(config)]
    raise InputError(f"transformers has no model for the configuration {type(config).__name__}.")


def _config_of(transformers: Any, content: dict[str, Any]) -> Any:
    kind = content.get("model_type")
    if kind not in transformers.models.auto.configuration_auto.CONFIG_MAPPING:
        raise InputError(
            f"transformers {transformers.__version__} does not know the architecture '{kind}': "
            "give a factory of your own instead (file.py:factory)."
        )
    fields = {k: v for k, v in content.items() if k != "model_type"}
    config = transformers.AutoConfig.for_model(kind, **fields)
    if (
        getattr(config, "is_encoder_decoder", False)
        and getattr(config, "decoder_start_token_id", None) is None
    ):
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0
    return config


def build_from_config(content: dict[str, Any], request: CaptureRequest) -> Built:
    """Build the module that a config.json describes, with labels when it trains."""
    declare_missing_operators()
    transformers = importlib.import_module("transformers")
    config = _config_of(transformers, content)
    chosen = _model_class(transformers, config, list(content.get("architectures") or []))
    module, notes = _module(chosen, config, request.attention)
    if request.checkpointing == "full":
        module.gradient_checkpointing_enable()
    if hasattr(config, "use_cache"):
        config.use_cache = False
    text = getattr(config, "text_config", config)
    seq_len = request.seq_len or min(
        DEFAULT_SEQ_LEN, getattr(text, "max_position_embeddings", None) or DEFAULT_SEQ_LEN
    )
    return Built(
        module=module, make_inputs=_inputs(module, config, request.task, seq_len), loss_of=default_loss,
        tokens_per_sample=0 if _takes_images(module) else seq_len,
        image_size=getattr(config, "image_size", 0) if _takes_images(module) else 0,
        causal_mask=not getattr(config, "is_encoder_decoder", False) and _is_causal(chosen.__name__),
        around=masks_as_on_a_gpu, notes=notes,
        origin={"library": f"transformers {transformers.__version__}", "class": chosen.__name__},
    )  # fmt: skip


def _module(chosen: Any, config: Any, attention: str) -> tuple[Any, tuple[str, ...]]:
    """Build on the meta device; a model without fused attention runs its own, as transformers does by default."""

    def build(implementation: str) -> Any:
        config._attn_implementation = implementation
        with torch.device("meta"):
            return chosen._from_config(config) if hasattr(chosen, "_from_config") else chosen(config)

    try:
        return build(attention), ()
    except ValueError as error:
        if attention != "sdpa" or "scaled_dot_product_attention" not in str(error):
            raise
        return build("eager"), (f"{chosen.__name__} has no fused attention: its eager attention is captured",)


def _is_causal(class_name: str) -> bool:
    return "CausalLM" in class_name or "LMHead" in class_name


def _takes_images(module: Any) -> bool:
    return getattr(module, "main_input_name", "") == "pixel_values"


def _inputs(module: Any, config: Any, task: str, seq_len: int) -> Any:
    def make(batch: int) -> Inputs:
        tokens = torch.empty(batch, seq_len, dtype=torch.long)
        trains = task == "train"
        if _takes_images(module):
            size = config.image_size
            given: dict[str, Any] = {"pixel_values": torch.empty(batch, config.num_channels, size, size)}
            return (), {**given, **({"labels": torch.empty(batch, dtype=torch.long)} if trains else {})}
        if getattr(module, "main_input_name", "") == "input_features":
            given = {
                "input_features": torch.empty(batch, config.num_mel_bins, 2 * config.max_source_positions)
            }
            target = torch.empty(batch, config.max_target_positions, dtype=torch.long)
            return (), {**given, **({"labels": target} if trains else {"decoder_input_ids": target})}
        given = {"input_ids": tokens}
        if trains:
            given["labels"] = (
                tokens if "Sequence" not in type(module).__name__ else torch.empty(batch, dtype=torch.long)
            )
        elif getattr(config, "is_encoder_decoder", False):
            given["decoder_input_ids"] = tokens
        return (), given

    return make
