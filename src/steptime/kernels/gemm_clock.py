"""What the power limit leaves of the arithmetic rate: bursts run at the full clock, training loops do not."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def sustained_clock_ratio(
    peak_flops_per_s: ArrayLike,
    *,
    power_limit_w: ArrayLike,
    flop_energy_j: ArrayLike,
    compute_efficiency_ratio: ArrayLike = 1.0,
    busy_fraction: ArrayLike = 1.0,
) -> NDArray[np.float64]:
    """Part of the arithmetic rate that is left when the power limit holds for long.

        r = min(1, sqrt(L / (u · ε · e · P)))

    At the catalogue's clock the work would draw u·ε·e·P watts. The limit lowers the clock by r; voltage
    falls with the clock, so that energy per operation falls about as r and power as r².

    Parameters
    ----------
    peak_flops_per_s : array_like
        P, dense peak rate of the dtype, at the clock that the catalogue's peak is stated for. [flop/s]
    power_limit_w : array_like
        L, power limit of the board. [W]
    flop_energy_j : array_like
        ε, energy of one operation at that clock, the whole board's share included. [J]
    compute_efficiency_ratio : array_like
        e, part of the peak that the kernel reaches at the full clock. [1]
    busy_fraction : array_like
        u, part of the time in which such kernels run, over the tens of milliseconds that the control of
        the power looks back. [1]

    Returns
    -------
    array
        Sustained rate over the rate at the full clock. [1]

    Notes
    -----
    Valid: ratios above about 0.4 (below, the voltage is at its floor); matrix products on random data. Data
    of zeros draw far less.
    Source: derived here (square law); fitted: data/fitted/sustained/ (ε, one number per kind of unit)

    Examples
    --------
    >>> round(float(sustained_clock_ratio(312e12, power_limit_w=300, flop_energy_j=1.6e-12)), 2)
    0.78
    """
    draw_w = (
        np.asarray(busy_fraction, dtype=float)
        * np.asarray(flop_energy_j, dtype=float)
        * np.asarray(compute_efficiency_ratio, dtype=float)
        * np.asarray(peak_flops_per_s, dtype=float)
    )
    return np.asarray(np.minimum(1.0, np.sqrt(np.asarray(power_limit_w, dtype=float) / draw_w)))


def burst_clock_ratio(
    duration_s: ArrayLike, *, sustained_ratio: ArrayLike, settle_s: ArrayLike
) -> NDArray[np.float64]:
    """Part of the arithmetic rate that a burst ends with, while the clock is still on its way down.

        r(T) = r + (1 − r) · exp(−T / τ)

    Parameters
    ----------
    duration_s : array_like
        T, how long the load has lasted. [s]
    sustained_ratio : array_like
        r, what is left in the long run. [1]
    settle_s : array_like
        τ, how fast the control of the power acts. [s]

    Returns
    -------
    array
        Rate over the rate at the full clock. [1]

    Notes
    -----
    Valid: a load that begins on a cool, idle accelerator.
    Source: derived here; fitted: data/fitted/burst/ (τ)

    Examples
    --------
    >>> round(float(burst_clock_ratio(0.005, sustained_ratio=0.8, settle_s=0.005)), 3)
    0.874
    """
    low = np.asarray(sustained_ratio, dtype=float)
    left = np.exp(-np.asarray(duration_s, dtype=float) / np.asarray(settle_s, dtype=float))
    return np.asarray(low + (1.0 - low) * left)
