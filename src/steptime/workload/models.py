"""From a model's name, as a person types it, to its workload.

resnet50, bert-large            the bundled zoo and configurations; no torch needed
path/to/config.json             a Hugging Face configuration
path/to/NAME.workload.json.gz   a workload that was captured before
PREFIX/NAME                     from a plug-in that has this prefix
timm/NAME torchvision/NAME hf/NAME file.py:factory package.module:factory   captured through torch
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from steptime.errors import InputError, PluginError, UnknownNameError
from steptime.plugins import model_source
from steptime.workload.capture import CaptureRequest, capture, check_choices
from steptime.workload.file import SUFFIX, load
from steptime.workload.operator import Kind
from steptime.workload.precision import source_precision, to_precision
from steptime.workload.table import Workload

_CAPTURED_PREFIXES = ("timm/", "torchvision/", "hf/")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelRequest:
    """A model on the shapes and under the recipe that shape its operators."""

    name: str
    task: str = "train"
    precision: str = "fp32"
    image_size: int = 0
    seq_len: int = 0
    context_len: int = 0
    attention: str = "sdpa"
    checkpointing: str = "none"
    lora_rank: int = 0
    freeze: str = ""
    input_shape: tuple[int, ...] = ()
    input_dtype: str = "float32"
    fixed_batch: int = 0

    def __post_init__(self) -> None:
        """Refuse what no model can be asked for.

        Raises
        ------
        InputError
            When a size is negative, an option unknown, or the name empty.
        """
        if not self.name.strip(":/. "):
            raise InputError(
                f"'{self.name}' names no model: give one like resnet50, timm/NAME or file.py:factory."
            )
        for what in ("image_size", "seq_len", "context_len", "lora_rank", "fixed_batch"):
            value = getattr(self, what)
            if not isinstance(value, int) or value < 0:
                raise InputError(
                    f"The {what.replace('_', ' ')} must be a whole number and cannot be negative, not {value!r}."
                )
        check_choices(attention=self.attention, input_dtype=self.input_dtype, freeze=self.freeze)
        if self.context_len and self.task != "decode":
            raise InputError(f"A context length is for --task decode, not for {self.task}.")


@lru_cache(maxsize=1)
def zoo() -> Mapping[str, str]:
    """Return the bundled captures: what a person may type -> the file's stem."""
    names: dict[str, str] = {}
    for path in _zoo_folder().iterdir():
        if path.name.endswith(SUFFIX):
            stem = path.name.removesuffix(SUFFIX).split(".")[0]
            for spelling in (stem, f"timm/{stem}", f"torchvision/{stem}"):
                names[_plain(spelling)] = stem
    return names


def _zoo_folder() -> Any:
    return resources.files("steptime").joinpath("data", "captured", "zoo")


def _plain(name: str) -> str:
    """Drop what people write differently: case, dashes, underscores, dots."""
    return re.sub(r"[-_. ]", "", name.lower())


def known_models() -> list[str]:
    """List what can be predicted without torch."""
    from steptime.workload.transformer import known_configs

    return sorted({*zoo().values(), *known_configs()})


def load_workload(request: ModelRequest) -> Workload:
    """Find or make the workload of a model.

    Raises
    ------
    UnknownNameError
        When the name resolves to nothing.
    CaptureError, MissingExtraError, WorkloadError
        As the way that was taken raises them.
    """
    if request.name.endswith(SUFFIX):
        return _as_asked(load(Path(request.name)), request)
    brought = _from_plugin(request)
    if brought is not None:
        return brought
    bundled = _from_zoo(request) or _from_config(request)
    if bundled is not None:
        return _without_idle_sizes(bundled, request)
    name = _name_to_capture(request)
    if name:
        return _captured(replace(request, name=name))
    if _plain(request.name) in zoo():
        raise InputError(
            f"{request.name} is bundled as it is: another size, frozen parameters, adapters or checkpointing need "
            f"a capture through torch. Give timm/{request.name} or torchvision/{request.name}, or file.py:factory."
        )
    raise UnknownNameError(
        "model", request.name, known_models(),
        "Give timm/NAME, torchvision/NAME, a config.json or file.py:factory for a model that is not bundled.",
    )  # fmt: skip


def _from_plugin(request: ModelRequest) -> Workload | None:
    prefix, slash, _ = request.name.partition("/")
    source = model_source(prefix) if slash else None
    if source is None:
        return None
    workload = source(request)
    if not isinstance(workload, Workload):
        raise PluginError(
            f"The plug-in for {prefix}/ gave a {type(workload).__name__}; a Workload is needed."
        )
    return _as_asked(workload, request)


def _name_to_capture(request: ModelRequest) -> str:
    """Return what the capture calls a model; nothing when it does not know it."""
    from steptime.workload.transformer import find_config

    if request.name.startswith(_CAPTURED_PREFIXES) or ":" in request.name:
        return request.name
    return "" if find_config(request.name) is None else f"hf/{request.name}"


def _as_asked(workload: Workload, request: ModelRequest) -> Workload:
    """Check that a workload from a file answers the request, and put it into its precision."""
    if workload.task != request.task:
        raise InputError(
            f"{request.name} was captured for {workload.task}, not for {request.task}; capture it again."
        )
    for what in ("image_size", "seq_len"):
        wanted = getattr(request, what)
        have = workload.image_size if what == "image_size" else workload.tokens_per_sample
        if wanted and have and wanted != have:
            raise InputError(
                f"{request.name} was captured at {what.replace('_', ' ')} {have}, not {wanted}; capture it again."
            )
    return to_precision(workload, request.precision)


def _without_idle_sizes(workload: Workload, request: ModelRequest) -> Workload:
    """Refuse a size that would change nothing."""
    images, tokens = workload.image_size, workload.tokens_per_sample
    sizes = (("image_size", images, tokens), ("seq_len", tokens, images))
    for what, have, other in sizes:
        wanted = getattr(request, what)
        if wanted and wanted != have and (have or other) and request.task != "decode":
            told = f"has {have} and no other when it is bundled" if have else "has none"
            raise InputError(
                f"{request.name} cannot be given the {what.replace('_', ' ')} {wanted}: it {told}; leave it away, or "
                "give file.py:factory."
            )
    return workload


def _changes_operators(request: ModelRequest) -> bool:
    return bool(request.checkpointing != "none" or request.lora_rank or request.freeze)


def _from_zoo(request: ModelRequest) -> Workload | None:
    stem = zoo().get(_plain(request.name))
    if stem is None or _changes_operators(request):
        return None
    task = "train" if request.task == "train" else "infer"
    path = _zoo_folder().joinpath(f"{stem}.{task}.{source_precision(request.precision)}{SUFFIX}")
    if not path.is_file():
        return None
    workload = load(Path(str(path)))
    if workload.image_size and request.image_size not in (0, workload.image_size):
        return None
    if request.attention != "sdpa" and (workload.operators.kind == Kind.ATTENTION).any():
        return None
    return replace(to_precision(workload, request.precision), model=stem)


def _from_config(request: ModelRequest) -> Workload | None:
    from steptime.workload.transformer import build_transformer, can_build, find_config

    if request.freeze or request.checkpointing != "none":  # both are done by torch
        return None
    found = find_config(request.name)
    if found is None:
        return None
    config, name = found
    if not can_build(config):
        return None
    workload = build_transformer(
        config, task=request.task, precision=_built_precision(request.precision), seq_len=request.seq_len,
        attention=request.attention, lora_rank=request.lora_rank, context_len=request.context_len,
    )  # fmt: skip
    return replace(to_precision(workload, request.precision), model=name)


def _built_precision(precision: str) -> str:
    return {"fp8": "amp-bf16", "tf32": "fp32"}.get(precision, precision)


def needs_capture(request: ModelRequest) -> bool:
    """Tell whether a model can only be had by capturing it through torch."""
    return (
        not request.name.endswith(SUFFIX)
        and _from_zoo(request) is None
        and not _is_built(request)
        and bool(_name_to_capture(request))
    )


def _is_built(request: ModelRequest) -> bool:
    from steptime.workload.transformer import can_build, find_config

    found = find_config(request.name) if not request.freeze and request.checkpointing == "none" else None
    return found is not None and can_build(found[0])


def capture_request(request: ModelRequest) -> CaptureRequest:
    """Return the capture that answers a request, in the precision whose operators it shares."""
    wanted = {"fp8": "amp-bf16", "tf32": "fp32"}.get(request.precision, request.precision)
    return CaptureRequest(
        model=request.name, task="train" if request.task == "train" else "infer", precision=wanted,
        batches=(request.fixed_batch,) if request.fixed_batch else (2, 3), image_size=request.image_size,
        seq_len=request.seq_len, input_shape=request.input_shape, input_dtype=request.input_dtype,
        checkpointing=request.checkpointing, freeze=request.freeze, lora_rank=request.lora_rank,
        attention=request.attention,
    )  # fmt: skip


def _captured(request: ModelRequest) -> Workload:
    return to_precision(capture(capture_request(request)), request.precision)
