"""How well founded a prediction is: measured here, on a relative, or nowhere near."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from steptime.hardware import Accelerator, load_catalogue
from steptime.prediction.fits import Choice
from steptime.workload.operator import Kind
from steptime.workload.table import Operators

MAJORITY = 0.5


def _folder_shares(operators: Operators, device_s: NDArray[np.float64]) -> dict[str, float]:
    """Return each formula's share of the device's time, by the key of its fit."""
    from steptime.prediction.rows import FOLDERS

    cost = device_s * operators.count
    total = float(cost.sum()) or 1.0
    keys = np.array(
        [
            f"{FOLDERS.get(str(k), 'memory_bound')}/{d}"
            for k, d in zip(operators.kind, operators.dtype, strict=True)
        ]
    )
    return {str(k): float(cost[keys == k].sum()) / total for k in np.unique(keys)}


def provenance_of(
    accelerator: Accelerator,
    operators: Operators,
    device_s: NDArray[np.float64],
    origins: Mapping[str, Choice],
    i: int,
) -> str:
    """Return calibrated, transferred or extrapolated: where most of the time's parameters were fitted."""
    by_name = load_catalogue().by_name
    own = relative = 0.0
    for key, share in _folder_shares(operators, device_s).items():
        origin = by_name.get(origins[key].origin[i])
        own += share * (origin is not None and origin.name == accelerator.name)
        relative += share * (origin is not None and origin.architecture == accelerator.architecture)
    if own > MAJORITY:
        return "calibrated"
    return "transferred" if relative > MAJORITY else "extrapolated"


def family_of(operators: Operators, device_s: NDArray[np.float64]) -> str:
    """Name what a step spends its product time on: convolution, transformer or other."""
    cost = device_s * operators.count
    convolution = float(cost[operators.kind == Kind.CONVOLUTION].sum())
    matrix = float(cost[np.isin(operators.kind, (Kind.GEMM, Kind.ATTENTION))].sum())
    if convolution == matrix == 0:
        return "other"
    return "convolution" if convolution > matrix else "transformer"


def sources_of(accelerator: Accelerator, origins: Mapping[str, Choice], i: int) -> tuple[str, ...]:
    """List the facts and fits that a prediction rests on."""
    fits = dict.fromkeys(f"data/fitted/{key.partition('/')[0]}/{c.origin[i].lower()}.{c.dtype[i]}.json ({c.date[i]})"
                         for key, c in origins.items())  # fmt: skip
    return (f"{accelerator.name}: {accelerator.source}", *fits)
