"""The host's clock: when it hands operators over, and when the device is done with them.

A step is the running maximum of two clocks. The host issues operators one after another; the device starts
each when it has been issued and the one before is finished.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def issue_time_s(
    launches: ArrayLike,
    *,
    is_backward: ArrayLike,
    forward_dispatch_s: ArrayLike,
    backward_dispatch_s: ArrayLike,
    launch_s: ArrayLike,
) -> FloatArray:
    """Time that the host needs to hand one operator to the device.

        t = d + l · launches,   d = backward or forward dispatch; nothing at all without a launch

    Parameters
    ----------
    launches : array_like
        Kernels that the operator starts; 0 for one that a compiler merged into another. [1]
    is_backward : array_like of bool
        Whether the autograd engine (C++) rather than Python issues it. [1]
    forward_dispatch_s, backward_dispatch_s : array_like
        Framework's work for one operator. [s]
    launch_s : array_like
        Work of the driver for one kernel. [s]

    Returns
    -------
    array
        Time of each operator on the host. [s]

    Notes
    -----
    Valid: one process per accelerator, an idle host core for it.
    Source: derived here

    Examples
    --------
    >>> float(issue_time_s(1, is_backward=False, forward_dispatch_s=6.0, backward_dispatch_s=4.0, launch_s=4.0))
    10.0
    """
    launches = np.asarray(launches, dtype=float)
    dispatch = np.where(np.asarray(is_backward, dtype=bool), backward_dispatch_s, forward_dispatch_s)
    return np.asarray((launches > 0) * dispatch + launches * np.asarray(launch_s, dtype=float))


def finish_time_s(issue_s: ArrayLike, device_s: ArrayLike, *, start_s: ArrayLike = 0.0) -> FloatArray:
    """Moment at which the device finishes each operator of a sequence.

        f_i = max(f_(i-1), h_i) + d_i = D_i + max_(j ≤ i) (h_j − D_(j-1)),   h = cumulative issue, D = cumulative device

    Parameters
    ----------
    issue_s : array_like, shape (n, ...)
        Time on the host of each operator. [s]
    device_s : array_like, shape (n, ...)
        Time on the device of each operator. [s]
    start_s : array_like
        When the host begins to issue. [s]

    Returns
    -------
    array, shape (n, ...)
        Finish of each operator, the host's start at 0. [s]

    Notes
    -----
    Valid: one stream, a launch queue that never fills (1,024 launches on CUDA).
    Source: derived here

    Examples
    --------
    >>> finish_time_s([1.0, 1.0], [5.0, 1.0]).tolist()
    [6.0, 7.0]
    """
    issued = np.cumsum(np.asarray(issue_s, dtype=float), axis=0) + start_s
    device = np.asarray(device_s, dtype=float)
    done = np.cumsum(device, axis=0)
    return np.asarray(done + np.maximum.accumulate(issued - (done - device), axis=0))
