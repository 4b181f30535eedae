"""One line to ask for a prediction."""

from __future__ import annotations

from typing import Any

import steptime


def ask(model: str, on: str, **options: Any) -> steptime.Prediction:
    """Predict ``model`` on one accelerator; options as Recipe and ModelRequest name them, in fp32 unless they say."""
    return steptime.predict(model, on, **{"precision": "fp32", **options})
