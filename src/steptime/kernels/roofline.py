"""The plain roofline: what the peak rate or the peak bandwidth allows, whichever is later."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def roofline_time_s(
    flops: ArrayLike,
    traffic_bytes: ArrayLike,
    *,
    peak_flops_per_s: ArrayLike,
    bandwidth_bytes_per_s: ArrayLike,
) -> NDArray[np.float64]:
    """Least time that an accelerator's peak figures allow for some work.

        t = max(F / P,  Q / W)

    Parameters
    ----------
    flops : array_like
        F, floating-point operations. [flop]
    traffic_bytes : array_like
        Q, bytes that must cross the device memory's interface. [byte]
    peak_flops_per_s : array_like
        P, dense peak rate of the dtype. [flop/s]
    bandwidth_bytes_per_s : array_like
        W, peak bandwidth of the device memory. [byte/s]

    Returns
    -------
    array
        Least time. [s]

    Notes
    -----
    Valid: always, as a lower bound; as a prediction only for large, regular work.
    Source: [williams2009], eq. 1

    Examples
    --------
    >>> float(roofline_time_s(4e12, 1e9, peak_flops_per_s=1e12, bandwidth_bytes_per_s=1e12))
    4.0
    """
    compute = np.asarray(flops, dtype=float) / np.asarray(peak_flops_per_s, dtype=float)
    memory = np.asarray(traffic_bytes, dtype=float) / np.asarray(bandwidth_bytes_per_s, dtype=float)
    return np.asarray(np.maximum(compute, memory))
