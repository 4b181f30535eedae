"""A prediction in one call: a model and accelerators as people type them, everything else by keyword."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, overload

from steptime.errors import InputError, UnknownNameError
from steptime.hardware import load_catalogue
from steptime.prediction.prediction import Prediction
from steptime.prediction.predictor import largest_batch_of, predict_request, predict_workload
from steptime.workload.models import ModelRequest
from steptime.workload.recipe import TRAINING_BATCH, Recipe, parse_precision
from steptime.workload.table import Workload

_OF_RECIPE = tuple(f.name for f in fields(Recipe))
_OF_SHAPES = tuple(f.name for f in fields(ModelRequest) if f.name not in {"name", *_OF_RECIPE})


@overload
def predict(model: str | Workload, on: str, **options: Any) -> Prediction: ...
@overload
def predict(model: str | Workload, on: Sequence[str], **options: Any) -> list[Prediction]: ...
def predict(model: str | Workload, on: str | Sequence[str], **options: Any) -> Prediction | list[Prediction]:
    """Predict one training step or inference of a model.

    Parameters
    ----------
    model : str or Workload
        A bundled model (``resnet50``, ``llama-3-8b``), ``timm/NAME``, ``torchvision/NAME``, the path of a
        ``config.json`` or of a captured workload, ``file.py:factory``; or a workload that was loaded before.
    on : str or sequence of str
        Accelerators as people type them; several give a list.
    **options
        The fields of ``Recipe`` (``batch``, ``precision``, ``task``, ``optimizer``, ``mode``, ...) and of
        ``ModelRequest`` (``seq_len``, ``image_size``, ``lora_rank``, ...). Without them: a training step in
        amp-bf16 at batch 32, inference at batch 1.

    Raises
    ------
    StepTimeError
        Whatever names, captures or precisions cannot do, in one sentence.

    Examples
    --------
    >>> p = predict("resnet50", on="a100", batch=64, precision="amp-fp16")
    >>> p.fits, p.step_time_low_s < p.step_time_s < p.step_time_high_s
    (True, True)
    >>> [q.accelerator.name for q in predict("bert-large", on=["t4", "l4"], task="infer", precision="fp16")]
    ['T4', 'L4']
    """
    names = [on] if isinstance(on, str) else list(on)
    request, recipe = _asked(model, options)
    if isinstance(model, Workload):
        matches = [load_catalogue().find(name) for name in names]
        found = predict_workload(model, recipe, [m.accelerator for m in matches], matches)
    else:
        found = predict_request(request, recipe, names)
    return found[0] if isinstance(on, str) else found


def largest_batch(model: str, on: str, **options: Any) -> int:
    """Return the largest batch that fits, 0 when not even one sample does; options as ``predict`` takes them."""
    request, recipe = _asked(model, options)
    return largest_batch_of(request, recipe, load_catalogue().find(on).accelerator)


def _asked(model: str | Workload, options: dict[str, Any]) -> tuple[ModelRequest, Recipe]:
    for name in options:
        if name not in {*_OF_RECIPE, *_OF_SHAPES}:
            raise UnknownNameError("option", name, (*_OF_RECIPE, *_OF_SHAPES))
    shapes = {k: v for k, v in options.items() if k in _OF_SHAPES}
    if isinstance(model, Workload) and shapes:
        raise InputError(f"A workload has its shapes: {', '.join(shapes)} cannot be given with one.")
    settings = {k: v for k, v in options.items() if k in _OF_RECIPE}
    trains = settings.setdefault("task", "train") == "train"
    settings.setdefault("batch", TRAINING_BATCH if trains else 1)
    settings["precision"] = parse_precision(settings.get("precision", "amp-bf16"))
    recipe = Recipe(**settings)
    request = ModelRequest(
        name=model if isinstance(model, str) else model.model, task=recipe.task, precision=recipe.precision,
        checkpointing=recipe.checkpointing, **shapes,
    )  # fmt: skip
    return request, recipe
