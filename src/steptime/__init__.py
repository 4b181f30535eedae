"""A performance model of deep learning on GPU servers.

    >>> import steptime
    >>> p = steptime.predict("resnet50", on="a100", batch=64, precision="amp-fp16")
    >>> p.fits
    True

predict              a model on accelerators -> Prediction: step time with its interval, memory, throughput, MFU
largest_batch        the largest batch that fits
explain              what bounds a prediction, by operator and by module -> Explanation
write_trace          a prediction as a Chrome/Perfetto trace
load_workload        the operators of one step, from a ModelRequest -> Workload
save_workload        a Workload into a file that predicts without torch
known_models         names that predict without torch
load_catalogue       every accelerator that is known -> Catalogue of Accelerator
Recipe, ModelRequest the options of a run and of a model, as ``predict`` takes them by keyword
StepTimeError        anything that a user can mend; its text is one sentence

Names load what they need when they are first used: neither torch nor pandas comes with ``import steptime``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steptime.errors import StepTimeError
    from steptime.hardware import Accelerator, Catalogue, load_catalogue
    from steptime.prediction import Prediction, largest_batch, predict, write_trace
    from steptime.prediction.explain import Explanation, explain
    from steptime.workload.file import save as save_workload
    from steptime.workload.models import ModelRequest, known_models, load_workload
    from steptime.workload.recipe import Recipe
    from steptime.workload.table import Workload

__all__ = [
    "Accelerator",
    "Catalogue",
    "Explanation",
    "ModelRequest",
    "Prediction",
    "Recipe",
    "StepTimeError",
    "Workload",
    "explain",
    "known_models",
    "largest_batch",
    "load_catalogue",
    "load_workload",
    "predict",
    "save_workload",
    "write_trace",
]

_HOMES = {
    "errors": ("StepTimeError",),
    "hardware": ("Accelerator", "Catalogue", "load_catalogue"),
    "prediction": ("Explanation", "Prediction", "explain", "largest_batch", "predict", "write_trace"),
    "workload.file": ("save_workload",),
    "workload.models": ("ModelRequest", "known_models", "load_workload"),
    "workload.recipe": ("Recipe",),
    "workload.table": ("Workload",),
}
_RENAMED = {"save_workload": "save"}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            found = getattr(importlib.import_module(f"steptime.{home}"), _RENAMED.get(name, name))
            globals()[name] = found
            return found
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("steptime")
    raise AttributeError(f"module 'steptime' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
