"""Read published whole-model measurements: what was run, on what, and which of our predictions answers it.

Understands the columns of the tables that ``data/measured`` documents: accelerator, model, task, precision,
batch, and whatever of image_size, seq_len, memory_format, compiled, optimizer, framework_version, torch,
measured_what, step_ms / step_time_ms / latency_ms / measured_ms, peak_memory_gb, memory_kind is there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

from steptime.errors import StepTimeError
from steptime.hardware import Accelerator, load_catalogue
from steptime.workload.models import ModelRequest
from steptime.workload.recipe import Recipe, parse_precision

FIRST_FUSED_IN_TRANSFORMERS = (2, 2)  # its models took it up at the time of torch 2.2
FIRST_FUSED_ATTENTION = (
    2,
    0,
)  # torch 2.0 brought scaled_dot_product_attention; models before it ran bmm and softmax


@dataclass(frozen=True, kw_only=True)
class Case:
    """One measured row and the prediction that it judges. ``metric`` is step_time_s or a memory figure."""

    row: int
    dataset: str
    accelerator: Accelerator
    request: ModelRequest
    recipe: Recipe
    metric: str
    measured: float
    rivals: Mapping[str, float] = field(default_factory=dict)


class NotMappedError(StepTimeError):
    """A row that we cannot answer, with the reason."""


@lru_cache(maxsize=1)
def _names() -> dict[str, dict[str, str]]:
    import tomllib

    text = resources.files("steptime").joinpath("data", "measured", "names.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _rename(kind: str, name: str) -> str | None:
    for pattern, ours in _names()[kind].items():
        found = re.fullmatch(pattern, name)
        if found:
            return found.expand(ours)
    return None


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _number(row: Mapping[str, Any], key: str) -> float | None:
    text = _text(row, key)
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _model(row: Mapping[str, Any]) -> str:
    name = _text(row, "model")
    ours = _rename("models", name)
    if ours is None:
        raise NotMappedError(f"model '{name}' is none that we know by this name")
    # 384 tokens are SQuAD's: question answering has no vocabulary to score
    return f"{ours}-squad" if ours.startswith("bert-") and _number(row, "seq_len") == _SQUAD_TOKENS else ours


def _precision(row: Mapping[str, Any]) -> str:
    name = _text(row, "precision")
    if "apex O2" in _text(row, "notes"):  # 16-bit weights with a master copy: no casts inside the model
        return "fp16"
    try:
        return parse_precision(_rename("precisions", name) or name)
    except StepTimeError:
        raise NotMappedError(f"precision '{name}' is none that we predict") from None


def _version(row: Mapping[str, Any]) -> tuple[int, int] | None:
    found = re.match(r"(?:PyTorch )?(\d+)\.(\d+)", _text(row, "torch") or _text(row, "framework_version"))
    return (int(found[1]), int(found[2])) if found else None


def _attention(row: Mapping[str, Any], dataset: str) -> str:
    """Return eager for frameworks from before fused attention, and for tables that say so."""
    if dataset == "transformers_fp32":
        return "eager"
    version = _version(row)
    ngc = re.search(r"NGC (\d+)", _text(row, "framework_version"))
    first = FIRST_FUSED_IN_TRANSFORMERS if _text(row, "model").startswith("hf:") else FIRST_FUSED_ATTENTION
    old = (version is not None and version < first) or (ngc is not None and int(ngc[1]) < 23)
    return "eager" if old else "sdpa"


def _optimizer(row: Mapping[str, Any], dataset: str) -> str:
    if "no optimizer" in _text(row, "measured_what") or dataset == "transformers_fp32":
        return "none"
    name = _text(row, "optimizer")
    return (_rename("optimizers", name) if name else None) or "sgd-momentum"


def _measured(row: Mapping[str, Any]) -> tuple[str, float]:
    for key in ("step_ms", "step_time_ms", "latency_ms", "measured_ms"):
        value = _number(row, key)
        if value and value > 0:
            return "step_time_s", value / 1e3
    throughput, batch = _number(row, "throughput_samples_per_s"), _number(row, "batch")
    if throughput and batch and throughput > 0:
        return "step_time_s", batch / throughput
    raise NotMappedError("the row has no step time, latency or throughput")


def _memory(row: Mapping[str, Any]) -> tuple[str, float]:
    size, kind = _number(row, "peak_memory_gb"), _text(row, "memory_kind")
    if not size or size < 0:
        raise NotMappedError("the row has no peak memory")
    return ("peak_allocated_bytes" if "max_memory_allocated" in kind else "device_bytes"), size * 1e9


def _batch(row: Mapping[str, Any]) -> int:
    batch = _number(row, "batch")
    if not batch or batch < 1:
        raise NotMappedError("the row does not state its batch")
    return int(batch)


_SQUAD_TOKENS = 384
_REFUSED = (
    ("competition-tuned", "kernels and padding tuned for a competition"),
    ("generate()", "generation end to end is not one step"),
    ("real data", "includes a real data loader"),
    ("data loader", "includes a real data loader"),
    ("DALI", "includes a real data loader"),
    ("start-up", "includes start-up and checkpoints"),
    ("evaluation", "includes evaluation"),
    ("training epoch", "includes a real data loader"),
    ("COCO", "includes a real data loader"),
)


def _refuse(row: Mapping[str, Any]) -> None:
    """Refuse rows that time more than a step, or more than one accelerator, or another framework."""
    what = _text(row, "measured_what")
    for part, reason in _REFUSED:
        if part in what and "without data-loading" not in what:
            raise NotMappedError(reason)
    if (_number(row, "n_gpus") or 1) > 1:
        raise NotMappedError("several accelerators")
    framework = _text(row, "framework").lower()
    if framework and "torch" not in framework:
        raise NotMappedError(f"framework {framework}")


def read_case(row: Mapping[str, Any], index: int, dataset: str) -> Case:
    """Read one row of a table.

    Raises
    ------
    NotMappedError
        With the reason, when no prediction of ours answers the row.
    """
    _refuse(row)
    task = "train" if _text(row, "task") == "train" else "infer"
    precision = _precision(row)
    metric, value = _memory(row) if dataset == "peak_memory" else _measured(row)
    request = ModelRequest(
        name=_model(row), task=task, precision=precision, image_size=_image_size(row),
        seq_len=int(_number(row, "seq_len") or 0), attention=_attention(row, dataset),
    )  # fmt: skip
    recipe = Recipe(
        task=task, precision=precision, batch=_batch(row), optimizer=_optimizer(row, dataset),
        mode="compiled" if _text(row, "compiled").lower() in {"true", "yes"} else "eager",
        channels_last=_text(row, "memory_format") == "channels_last",
        implementation="for-loop" if (_version(row) or (2, 0)) < FIRST_FUSED_ATTENTION else "foreach",
    )  # fmt: skip
    try:
        accelerator = load_catalogue().find(_text(row, "accelerator")).accelerator
    except StepTimeError as error:
        raise NotMappedError(str(error)) from None
    rivals = {n: v / 1e3 for n in ("neusight", "habitat", "roofline") if (v := _number(row, f"{n}_ms"))}
    return Case(
        row=index, dataset=dataset, accelerator=accelerator, request=request, recipe=recipe, metric=metric,
        measured=value, rivals=rivals,
    )  # fmt: skip


def _image_size(row: Mapping[str, Any]) -> int:
    text = _text(row, "image_size")
    try:
        return int(float(text)) if text else 0
    except (ValueError, OverflowError):
        raise NotMappedError(f"image size '{text}' is not one size") from None
