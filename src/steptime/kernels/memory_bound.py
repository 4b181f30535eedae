"""How long a kernel takes that only moves memory: element-wise work, normalisation, softmax, gather, copies."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def memory_bound_time_s(
    bytes_read: ArrayLike,
    bytes_written: ArrayLike,
    *,
    bandwidth_bytes_per_s: ArrayLike,
    l2_bytes: ArrayLike,
    bandwidth_fraction: ArrayLike,
    floor_s: ArrayLike,
    l2_usable_fraction: ArrayLike,
    l2_bandwidth_ratio: ArrayLike,
) -> FloatArray:
    """Time of a kernel that streams its operands once.

        t = t₀ + B (1 − h + h / r) / (f W),   h = min(1, (u L / B)²)

    Parameters
    ----------
    bytes_read, bytes_written : array_like
        Bytes that go in and out; B is their sum. [byte]
    bandwidth_bytes_per_s : array_like
        W, peak bandwidth of the device memory. [byte/s]
    l2_bytes : array_like
        L, size of the last-level cache. [byte]
    bandwidth_fraction : array_like
        f, part of the peak bandwidth that a long stream reaches. [1]
    floor_s : array_like
        t₀, start and end of the kernel and the ramp to full bandwidth. [s]
    l2_usable_fraction : array_like
        u, part of the cache in which the kernel before left what this one reads. [1]
    l2_bandwidth_ratio : array_like
        r, bandwidth of the cache over that of the device memory. [1]

    Returns
    -------
    array
        Time of the kernel. [s]

    Notes
    -----
    Valid: contiguous operands that are touched once. h is the share that is found in the cache.
    Source: derived here, after the roofline of [williams2009]; fitted: data/fitted/memory_bound

    Examples
    --------
    >>> t = memory_bound_time_s(
    ...     4e8, 4e8, bandwidth_bytes_per_s=2e12, l2_bytes=4e7, bandwidth_fraction=0.8, floor_s=0,
    ...     l2_usable_fraction=0.5, l2_bandwidth_ratio=2)
    >>> round(1e6 * float(t))
    500
    """
    moved = np.asarray(bytes_read, dtype=float) + np.asarray(bytes_written, dtype=float)
    cached = np.asarray(l2_bytes, dtype=float) * np.asarray(l2_usable_fraction, dtype=float)
    hit = np.minimum(1.0, np.divide(cached, np.maximum(moved, 1.0)) ** 2)
    left = 1.0 - hit + hit / np.asarray(l2_bandwidth_ratio, dtype=float)
    rate = np.asarray(bandwidth_bytes_per_s, dtype=float) * np.asarray(bandwidth_fraction, dtype=float)
    return np.asarray(np.asarray(floor_s, dtype=float) + moved * left / rate)


def softmax_traffic_ratio(
    columns: ArrayLike,
    *,
    warp_columns: ArrayLike,
    block_columns: ArrayLike,
    shared_columns: ArrayLike,
    extra_pass_ratio: ArrayLike,
) -> FloatArray:
    """Traffic of a softmax over that of one pass, by the length of its rows.

        q = 1 for c ≤ c_w;   (1 + c_b / c) (1 + x [c > c_s]) above

    Short rows stay in the registers of a warp; longer ones take a block each, whose start-up counts for c_b
    elements; rows that do not fit into shared memory are read again.

    Parameters
    ----------
    columns : array_like
        c, length of a row. [1]
    warp_columns : array_like
        c_w, longest row that one warp holds. [1]
    block_columns : array_like
        c_b, elements that one block's start-up costs. [1]
    shared_columns : array_like
        c_s, longest row that shared memory holds. [1]
    extra_pass_ratio : array_like
        x, traffic of reading the row again over that of one pass. [1]

    Returns
    -------
    array
        Ratio to one pass over input and output. [1]

    Notes
    -----
    Valid: PyTorch's softmax along the last dimension.
    Source: derived here; fitted: data/fitted/memory_bound

    Examples
    --------
    >>> softmax_traffic_ratio(
    ...     [512, 20000], warp_columns=1024, block_columns=400, shared_columns=12000, extra_pass_ratio=0.5).tolist()
    [1.0, 1.53]
    """
    c = np.asarray(columns, dtype=float)
    block = 1.0 + np.asarray(block_columns, dtype=float) / np.maximum(c, 1.0)
    again = 1.0 + np.where(c > np.asarray(shared_columns), extra_pass_ratio, 0.0)
    return np.asarray(np.where(c <= np.asarray(warp_columns), 1.0, block * again))
