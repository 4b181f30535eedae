"""Convolution as a matrix product whose left operand is never written: implicit GEMM.

Symbols of this file: m rows (output points), n columns (channels), k inner length (channels × taps); for the
gradient of the weights m and n are channels and k counts the points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

# Output tiles of one thread block, points × channels.
# Assumption: the sizes that names of cuDNN's and CUTLASS's convolution kernels show.
TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (64, 32))
# Output tiles of the weight gradient, output channels × (input channels · taps).
# Assumption: no narrow ones; DeepBench's 64 × 64 and 256 × 64 products run as if padded to 128 columns.
WEIGHT_GRADIENT_TILES = ((128, 256), (256, 128), (128, 128), (64, 128), (32, 128))
# Partial sums of a split product are kept in fp32 and read once more.
# Assumption: written and read by a kernel of its own, not by atomics.
PARTIAL_SUM_BYTES = 8


def floats(*quantities: ArrayLike) -> tuple[FloatArray, ...]:
    """Return each quantity as an array of floats."""
    return tuple(np.asarray(q, dtype=float) for q in quantities)


def traffic_time_s(
    traffic_bytes: ArrayLike,
    *,
    bandwidth_bytes_per_s: ArrayLike,
    l2_bytes: ArrayLike,
    bandwidth_fraction: ArrayLike,
    l2_usable_fraction: ArrayLike,
    l2_bandwidth_ratio: ArrayLike,
) -> FloatArray:
    """Time to move what a kernel touches, the part that the L2 cache still holds at the cache's speed.

        t = B / (f W) · (1 − c (1 − 1/r)),   c = min(1, u C / B)

    Parameters
    ----------
    traffic_bytes : array_like
        B, everything read and written. [byte]
    bandwidth_bytes_per_s : array_like
        W, peak bandwidth of device memory. [byte/s]
    l2_bytes : array_like
        C, size of the last-level cache. [byte]
    bandwidth_fraction : array_like
        f, part of the peak bandwidth that a long transfer reaches. [1]
    l2_usable_fraction : array_like
        u, part of the cache that still holds data of the kernel before. [1]
    l2_bandwidth_ratio : array_like
        r, bandwidth of the cache over that of device memory. [1]

    Returns
    -------
    array
        Time. [s]

    Notes
    -----
    Valid: r ≥ 1; operators that follow one another, so that some of the input is in the cache.
    Source: derived here

    Examples
    --------
    >>> float(traffic_time_s(2e9, bandwidth_bytes_per_s=1e12, l2_bytes=0, bandwidth_fraction=0.5,
    ...                      l2_usable_fraction=0.3, l2_bandwidth_ratio=3))
    0.004
    """
    moved, w, capacity = floats(traffic_bytes, bandwidth_bytes_per_s, l2_bytes)
    f, u, r = floats(bandwidth_fraction, l2_usable_fraction, l2_bandwidth_ratio)
    cached = np.minimum(1.0, u * capacity / np.maximum(moved, 1))
    return np.asarray(moved / (f * w) * (1.0 - cached * (1.0 - 1.0 / r)))


def waves(num_tiles: ArrayLike, num_units: ArrayLike, wave_quantisation: ArrayLike) -> FloatArray:
    """Return how many rounds the units need for ``num_tiles`` equal tiles, at least one.

    ``wave_quantisation`` 1 counts whole rounds; 0 lets the last round be as short as its share of tiles.
    """
    tiles, units, whole = floats(num_tiles, num_units, wave_quantisation)
    rounds = tiles / units
    return np.asarray(np.maximum(1.0, whole * np.ceil(rounds) + (1.0 - whole) * rounds))


def tile_time_s(
    tile_m: int,
    tile_n: int,
    k: ArrayLike,
    *,
    unit_flops_per_s: ArrayLike,
    gemm_peak_fraction: ArrayLike,
    small_tile_penalty: ArrayLike,
    k_overhead: ArrayLike,
) -> FloatArray:
    """Time of one output tile on one unit.

        t = 2 a b (k + k₀) / (e a b / (a b + 1024 α) · P / units)

    Parameters
    ----------
    tile_m, tile_n : int
        a and b, rows and columns of the tile. [1]
    k : array_like
        Inner length. [1]
    unit_flops_per_s : array_like
        P / units, peak rate of one unit. [flop/s]
    gemm_peak_fraction : array_like
        e, part of the peak that an endless tile would reach. [1]
    small_tile_penalty : array_like
        α, thousands (1024) of outputs at which a tile runs at half of that. [1]
    k_overhead : array_like
        k₀, filling and draining of the pipeline, in steps of the inner loop. [1]

    Returns
    -------
    array
        Time. [s]

    Notes
    -----
    Valid: operands arrive as fast as the unit multiplies.
    Source: derived here

    Examples
    --------
    >>> float(tile_time_s(32, 32, 900, unit_flops_per_s=1e12, gemm_peak_fraction=0.5, small_tile_penalty=1.0,
    ...                   k_overhead=100)) * 1e6
    8.192
    """
    steps, filling, penalty = floats(k, k_overhead, small_tile_penalty)
    e, rate = floats(gemm_peak_fraction, unit_flops_per_s)
    slowed = tile_m * tile_n + 1024 * penalty
    return np.asarray(2 * slowed * (steps + filling) / (e * rate))


def implicit_gemm_time_s(
    m: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    groups: ArrayLike,
    *,
    is_weight_gradient: ArrayLike,
    memory_s: ArrayLike,
    peak_flops_per_s: ArrayLike,
    partial_sum_bytes_per_s: ArrayLike,
    num_units: ArrayLike,
    gemm_peak_fraction: ArrayLike,
    small_tile_penalty: ArrayLike,
    k_overhead: ArrayLike,
    wave_quantisation: ArrayLike,
    k_split_least: ArrayLike,
) -> FloatArray:
    """Time of a convolution's product at its best tile; the weight gradient may split its inner length.

        t = min over tiles of max(waves(⌈m/a⌉ ⌈n/b⌉ g s) · tile time(k/s), memory + partial sums)

    Parameters
    ----------
    m, n, k : array_like
        Rows, columns and inner length of one group's product. [1]
    groups : array_like
        g, independent products. [1]
    is_weight_gradient : array_like of bool
        Whether the inner length runs over points, and may be split over s units.
    memory_s : array_like
        Time to move the operands and the result. [s]
    peak_flops_per_s : array_like
        Peak rate of the units that multiply. [flop/s]
    partial_sum_bytes_per_s : array_like
        Bandwidth that partial sums of a split product meet. [byte/s]
    num_units : array_like
        Multiprocessors (compute units). [1]
    gemm_peak_fraction : array_like
        Part of the peak that an endless tile would reach. [1]
    small_tile_penalty : array_like
        Thousands (1024) of outputs at which a tile runs at half of that. [1]
    k_overhead : array_like
        Filling and draining of the pipeline, in steps of the inner loop. [1]
    wave_quantisation : array_like
        1 counts whole rounds of tiles, 0 shares the last one. [1]
    k_split_least : array_like
        Shortest inner length that is worth a split of its own. [1]

    Returns
    -------
    array
        Time of the kernel without its start-up. [s]

    Notes
    -----
    Valid: kernels with the tiles listed in ``TILES``.
    Source: derived here; fitted: data/fitted/convolution

    Examples
    --------
    >>> t = implicit_gemm_time_s(
    ...     1024, 128, 900, 1, is_weight_gradient=False, memory_s=0.0, peak_flops_per_s=8e12,
    ...     partial_sum_bytes_per_s=1e12, num_units=8, gemm_peak_fraction=1.0, small_tile_penalty=0.0,
    ...     k_overhead=100, wave_quantisation=1.0, k_split_least=256)
    >>> round(float(t) * 1e6, 3)
    32.768
    """
    m, n, k, groups, units, peak = floats(m, n, k, groups, num_units, peak_flops_per_s)
    moving, sums_rate, least = floats(memory_s, partial_sum_bytes_per_s, k_split_least)
    shape = {
        "unit_flops_per_s": peak / units,
        "gemm_peak_fraction": gemm_peak_fraction,
        "small_tile_penalty": small_tile_penalty,
        "k_overhead": k_overhead,
    }
    split = np.asarray(is_weight_gradient, dtype=bool)
    whole: FloatArray = np.asarray(np.inf)
    for a, b in TILES:
        rounds = waves(np.ceil(m / a) * np.ceil(n / b) * groups, units, wave_quantisation)
        whole = np.minimum(whole, rounds * tile_time_s(a, b, k, **shape))
    whole = np.maximum(whole, moving)
    if not split.any():
        return whole
    parted: FloatArray = np.asarray(np.inf)
    for a, b in WEIGHT_GRADIENT_TILES:
        tiles = np.ceil(m / a) * np.ceil(n / b) * groups
        parts = np.clip(units / tiles, 1, np.maximum(k / least, 1))
        rounds = waves(tiles * parts, units, wave_quantisation)
        sums = np.where(parts > 1, parts * m * n * groups * PARTIAL_SUM_BYTES, 0) / sums_rate
        busy = rounds * tile_time_s(a, b, k / parts, **shape)
        parted = np.minimum(parted, np.maximum(busy, moving + sums))
    return np.asarray(np.where(split, parted, whole))
