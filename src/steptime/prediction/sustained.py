"""The energy of an operation, by which a power limit lowers the clock of a long run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import median

import numpy as np
from numpy.typing import NDArray

from steptime.hardware import Accelerator, load_catalogue
from steptime.prediction.fits import Choice, choose

_SCALED = "fp32"  # energies of tensor cores do not follow those of the vector units


def flop_energy_j(
    accelerators: Sequence[Accelerator], dtypes: Sequence[str], by_name: Mapping[str, Accelerator]
) -> NDArray[np.float64]:
    """Return the energy of one operation on each accelerator, shape (accelerators,).

    Measured on a few; elsewhere that of the nearest relative. In fp32 it is scaled by what the chips of both
    generations draw for one operation of their peak (median of power limit over peak): cards that were cut down
    to a low limit, such as T4 and P4, have the energy of their chip, not of their limit.
    """
    fit: Choice = choose("sustained", accelerators, dtypes, by_name)
    energy = np.array(fit.values["flop_energy_j"], dtype=float)
    for i, (accelerator, dtype) in enumerate(zip(accelerators, dtypes, strict=True)):
        energy[i] *= _work_per_operation(accelerator, fit.dtype[i], dtype)
        origin = by_name.get(fit.origin[i])
        drawn = None if origin is None else (_drawn(*_chip(accelerator)), _drawn(*_chip(origin)))
        if dtype == _SCALED and drawn and all(drawn):
            energy[i] *= drawn[0] / drawn[1]
    return energy


def _work_per_operation(accelerator: Accelerator, fitted: str, dtype: str) -> float:
    """Units draw about the same at full rate in every dtype, so that an operation at half the rate costs twice."""
    peaks = accelerator.peak_flops_per_s
    if fitted in (dtype, _SCALED) or fitted not in peaks or dtype not in peaks:
        return 1.0
    return peaks[fitted] / peaks[dtype]


def _chip(accelerator: Accelerator) -> tuple[str, str]:
    """Name a kind of chip: by its maker and compute capability, or its architecture where it has no such number."""
    return accelerator.vendor, accelerator.compute_capability or accelerator.architecture


@lru_cache(maxsize=64)
def _drawn(vendor: str, chip: str) -> float:
    """Median of power limit over fp32 peak of all boards with one kind of chip, in J; 0 where nothing is known."""
    boards = [
        a.power_limit_w / a.peak_flops_per_s[_SCALED]
        for a in load_catalogue().accelerators
        if _chip(a) == (vendor, chip) and a.power_limit_w and _SCALED in a.peak_flops_per_s
    ]
    return median(boards) if boards else 0.0
