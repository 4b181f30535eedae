"""The 80 % interval of a prediction, from the residuals of the judged rows most like it."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

COVERAGE = 0.8


@lru_cache(maxsize=1)
def load_residuals() -> dict[str, Any]:
    """Return the quantiles of measured/predicted by class, as the scoreboard left them."""
    path = resources.files("steptime").joinpath("data", "fitted", "residuals.json")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def step_time_interval(
    step_time_s: float, *, task: str, family: str, provenance: str, dtype: str
) -> tuple[float, float]:
    """Return the bounds between which four in five measurements are expected.

    Parameters
    ----------
    step_time_s : float
    task : str
        train or infer.
    family : str
        What the time is spent on: convolution, transformer, other.
    provenance : str
        calibrated, transferred or extrapolated.
    dtype : str
        What products are multiplied in.

    Notes
    -----
    The most specific class with enough rows answers; each wider one stands in for it in turn.
    A biased class has both of its quantiles on one side; its interval is drawn out to the
    prediction, since a point outside its own interval would tell a reader nothing.
    """
    classes = load_residuals()["step_time"]
    for key in widening(task, family, provenance, dtype):
        if key in classes:
            low, high = classes[key]["low_ratio"], classes[key]["high_ratio"]
            return step_time_s * min(low, 1.0), step_time_s * max(high, 1.0)
    raise KeyError(
        "residuals.json has no class for everything; renew it with 'steptime validate --write-residuals'"
    )


def widening(task: str, family: str, provenance: str, dtype: str) -> tuple[str, ...]:
    """Name the classes that may answer, the most particular first; all inference is one task."""
    kind = "train" if task == "train" else "infer"
    return (
        f"{kind}/{family}/{provenance}/{dtype}",
        f"{kind}/{family}/{provenance}/*",
        f"*/{family}/{provenance}/*",
        f"*/*/{provenance}/*",
        "*/*/*/*",
    )
