"""What a measuring loop adds to the kernel that it times; a judge of such tables adds it too."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def loop_time_s(
    kernel_s: ArrayLike,
    rows: ArrayLike,
    cast_bytes: ArrayLike,
    *,
    timing_s: ArrayLike,
    cast_s: ArrayLike,
    cast_row_s: ArrayLike,
    cast_bytes_per_s: ArrayLike,
) -> NDArray[np.float64]:
    """Time that a loop reports for one call: the kernel, the call, and a cast of its input where it makes one.

        t = k + t_c + t_0 + √((r · t_r)² + (B / W)²)

    Parameters
    ----------
    kernel_s : array_like
        k, the kernel alone. [s]
    rows : array_like
        r, rows of the input. [1]
    cast_bytes : array_like
        B, what the cast reads and writes; 0 without a cast. [byte]
    timing_s : array_like
        t_c, timing one call. [s]
    cast_s, cast_row_s : array_like
        t_0 and t_r, the cast's fixed cost, and that of a row. [s]
    cast_bytes_per_s : array_like
        W, rate of the cast. [byte/s]

    Returns
    -------
    array
        Reported time. [s]

    Notes
    -----
    Valid: the tables that it was fitted on.
    Source: derived here; fitted: data/fitted/harness

    Examples
    --------
    >>> float(loop_time_s(1.0, 1, 0.0, timing_s=0.5, cast_s=0, cast_row_s=0, cast_bytes_per_s=1.0))
    1.5
    """
    moved = np.asarray(cast_bytes, dtype=float) / np.asarray(cast_bytes_per_s, dtype=float)
    cast = np.where(
        moved > 0,
        np.asarray(cast_s) + np.hypot(np.asarray(cast_row_s) * np.asarray(rows, dtype=float), moved),
        0.0,
    )
    return np.asarray(np.asarray(kernel_s, dtype=float) + np.asarray(timing_s) + cast)
