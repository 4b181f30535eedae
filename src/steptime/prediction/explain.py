"""Why a step takes as long as it does: what bounds it, and which operators and modules cost most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.prediction.prediction import Prediction

TOP = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Device time of a group of operators in one step."""

    name: str
    time_s: float
    share_ratio: float
    count: int
    bound: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Shares of the step's time by limit, the costliest operators and modules, and what is left to gain."""

    bound_by: str
    shares: dict[str, float]
    operators: tuple[Cost, ...]
    modules: tuple[Cost, ...]
    phases: dict[str, float]
    roofline_ratio: float

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        return asdict(self)


def limits(prediction: Prediction) -> NDArray[np.str_]:
    """Name each row's limit: launch (the host issues slower than the device works), compute or memory."""
    t = prediction.times
    by_roof = np.where(t.compute_floor_s >= t.memory_floor_s, "compute", "memory")
    return np.where(t.host_s > t.device_s, "launch", by_roof)


def explain(prediction: Prediction, top: int = TOP) -> Explanation:
    """Break a prediction down.

    Parameters
    ----------
    prediction : Prediction
    top : int
        How many operators and modules to name.
    """
    t = prediction.times
    ops, limit = t.operators, limits(prediction)
    # what a row holds the step up for: the later of its two clocks
    cost = np.maximum(t.device_s, t.host_s) * ops.count
    total = float(cost.sum()) or 1.0
    labels = np.char.add(np.char.add(ops.name, " "), ops.dtype)
    phases = {str(p): float(cost[ops.phase == p].sum()) for p in dict.fromkeys(ops.phase)}
    return Explanation(
        bound_by=prediction.bound_by,
        shares={k: float(cost[limit == k].sum()) / total for k in ("compute", "memory", "launch")},
        operators=_costliest(labels, cost, ops.count, limit, top),
        modules=_costliest(ops.module, cost, ops.count, limit, top),
        phases=phases,
        roofline_ratio=prediction.step_time_s / prediction.roofline_s if prediction.roofline_s else 1.0,
    )


def _costliest(labels: Any, cost: Any, count: Any, limit: Any, top: int) -> tuple[Cost, ...]:
    names, inverse = np.unique(labels, return_inverse=True)
    sums = np.bincount(inverse, weights=cost)
    counts = np.bincount(inverse, weights=count)
    largest = np.zeros(len(names), dtype=np.int64)
    order = np.argsort(cost)
    largest[inverse[order]] = order  # the costliest row of each group speaks for its limit
    return tuple(
        Cost(
            name=str(names[i]) or "(root)", time_s=float(sums[i]),
            share_ratio=float(sums[i]) / (float(cost.sum()) or 1.0), count=int(counts[i]), bound=str(limit[largest[i]]),
        )
        for i in np.argsort(-sums)[:top]
    )  # fmt: skip
