"""How far predictions lie from measurements: the figures of the scoreboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NOT_MAPPED = "not mapped"


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """Errors of one data set on one accelerator; all are fractions, ``bias`` is positive when too slow."""

    dataset: str
    accelerator: str
    rows: int
    not_mapped: int
    mean_error: float
    median_error: float
    p90_error: float
    bias: float
    coverage: float | None
    baseline_roofline_error: float | None
    rivals: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the score as plain data."""
        return asdict(self)


def relative_error(predicted: ArrayLike, measured: ArrayLike) -> NDArray[np.float64]:
    """Return predicted / measured − 1."""
    return np.asarray(np.asarray(predicted, dtype=float) / np.asarray(measured, dtype=float) - 1.0)


def mean_error(predicted: ArrayLike, measured: ArrayLike) -> float | None:
    """Return the mean absolute relative error of the rows that have a prediction, or None without any."""
    error = np.abs(relative_error(predicted, measured))
    return float(np.nanmean(error)) if np.isfinite(error).any() else None


def coverage(low: ArrayLike, high: ArrayLike, measured: ArrayLike) -> float:
    """Return the share of measurements inside their interval."""
    value = np.asarray(measured, dtype=float)
    return float(np.mean((np.asarray(low) <= value) & (value <= np.asarray(high))))


def _coverage(
    low: ArrayLike | None, high: ArrayLike | None, measured: ArrayLike, rows: ArrayLike | None
) -> float | None:
    if low is None or high is None or rows is None:
        return None
    chosen = np.asarray(rows, dtype=bool)
    return coverage(*(np.asarray(values, dtype=float)[chosen] for values in (low, high, measured)))


def score(
    dataset: str, accelerator: str, measured: ArrayLike, predicted: ArrayLike, *, low: ArrayLike | None = None,
    high: ArrayLike | None = None, interval_rows: ArrayLike | None = None, roofline: ArrayLike | None = None, rivals: Mapping[str, ArrayLike] | None = None,
    not_mapped: int = 0,
) -> Score:  # fmt: skip
    """Score the rows of one data set on one accelerator; arrays of shape (rows,) in one unit.

    ``interval_rows`` marks the rows that judge the interval: those that did not set its width.
    """
    error = relative_error(predicted, measured)
    size = np.abs(error)
    others = {name: mean_error(values, measured) for name, values in (rivals or {}).items()}
    return Score(
        dataset=dataset, accelerator=accelerator, rows=int(error.size), not_mapped=not_mapped,
        mean_error=float(size.mean()), median_error=float(np.median(size)), p90_error=float(np.quantile(size, 0.9)),
        bias=float(error.mean()),
        coverage=_coverage(low, high, measured, interval_rows),
        baseline_roofline_error=None if roofline is None else mean_error(roofline, measured),
        rivals={name: value for name, value in others.items() if value is not None},
    )  # fmt: skip
