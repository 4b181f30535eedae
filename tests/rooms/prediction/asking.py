"""One line to ask for a prediction."""

from __future__ import annotations

from typing import Any

from steptime.prediction import Prediction, predict
from steptime.workload.models import ModelRequest
from steptime.workload.recipe import Recipe

_OF_RECIPE = {
    "batch", "optimizer", "implementation", "mode", "channels_last", "accumulation", "task", "precision", "checkpointing",
}  # fmt: skip


def ask(model: str, on: str, **options: Any) -> Prediction:
    """Predict ``model`` on one accelerator; options as Recipe and ModelRequest name them."""
    settings = {"task": "train", "batch": 32, "precision": "fp32"} | options
    recipe = Recipe(**{k: v for k, v in settings.items() if k in _OF_RECIPE})
    shapes = {k: v for k, v in settings.items() if k not in _OF_RECIPE}
    request = ModelRequest(
        name=model, task=recipe.task, precision=recipe.precision, checkpointing=recipe.checkpointing, **shapes
    )
    return predict(request, recipe, [on])[0]
