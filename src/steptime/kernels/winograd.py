"""Convolution with 3 × 3 kernels by Winograd's short filters: fewer products, more additions.

F(2×2, 3×3) needs 16 products where 36 are due (2.25 times fewer), F(4×4, 3×3) 36 where 144 are (4 times).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.kernels.implicit_gemm import floats, tile_time_s, waves

FloatArray = NDArray[np.float64]

TAPS = 3
# One thread block of the fused kernel computes 32 tiles of 2 × 2 points for 32 channels.
# Source: names of cuDNN's kernels (scudnn_winograd_128x128_..._tile148n); 32 fitted best among 32, 64, 128.
FUSED_BLOCK = 32
# How those 32 tiles lie: images × rows × columns.
# Source: names of cuDNN's kernels (tile148n), the flatter ones an assumption that small images confirm.
FUSED_REGIONS = ((1, 4, 8), (2, 4, 4), (8, 2, 2))
# Tiles of the products between the transforms of the kernel that is not fused.
# Assumption: those of a general single-precision matrix product.
PRODUCT_TILES = ((128, 128), (128, 64), (128, 32), (64, 64))


def winograd_fused_time_s(
    batch: ArrayLike,
    height: ArrayLike,
    width: ArrayLike,
    channels_summed: ArrayLike,
    channels_out: ArrayLike,
    *,
    memory_s: ArrayLike,
    filter_bytes_per_s: ArrayLike,
    element_bytes: ArrayLike,
    vector_peak_flops_per_s: ArrayLike,
    num_units: ArrayLike,
    winograd_fused_peak_fraction: ArrayLike,
    winograd_channel_overhead: ArrayLike,
    wave_quantisation: ArrayLike,
) -> FloatArray:
    """Time of F(2×2, 3×3) in one kernel, after one that transforms the filters.

        t = max(waves(regions ⌈c_out/32⌉) · 2 · 16 · 32 · 32 (c + c₀) / (e V / units), memory) + filters

    Parameters
    ----------
    batch, height, width : array_like
        Images, and their size as written. [1]
    channels_summed, channels_out : array_like
        Channels that are summed over, and that are written. [1]
    memory_s : array_like
        Time to move the operands and the result. [s]
    filter_bytes_per_s : array_like
        Bandwidth that the transform of the filters reaches. [byte/s]
    element_bytes : array_like
        Size of one element. [byte]
    vector_peak_flops_per_s : array_like
        V, peak fp32 rate outside tensor cores. [flop/s]
    num_units : array_like
        Multiprocessors (compute units). [1]
    winograd_fused_peak_fraction : array_like
        e, part of the peak that the products reach; 0 where the library has no such kernel. [1]
    winograd_channel_overhead : array_like
        c₀, start-up and output transform, in channels. [1]
    wave_quantisation : array_like
        1 counts whole rounds of blocks, 0 shares the last one. [1]

    Returns
    -------
    array
        Time, infinite where the library has no such kernel. [s]

    Notes
    -----
    Valid: 3 × 3 kernels, stride 1, one group; forward and data gradient.
    Source: [lavin2016], section 4; fitted: data/fitted/convolution

    Examples
    --------
    >>> t = winograd_fused_time_s(
    ...     32, 16, 16, 64, 32, memory_s=0.0, filter_bytes_per_s=1e30, element_bytes=4,
    ...     vector_peak_flops_per_s=64e12, num_units=64, winograd_fused_peak_fraction=1.0,
    ...     winograd_channel_overhead=0, wave_quantisation=1.0)
    >>> round(float(t) * 1e6, 3)
    2.097
    """
    summed, written, images = floats(channels_summed, channels_out, batch)
    rows, columns = np.ceil(np.asarray(height) / 2), np.ceil(np.asarray(width) / 2)
    regions: FloatArray = np.asarray(np.inf)
    for i, r, c in FUSED_REGIONS:
        regions = np.minimum(regions, np.ceil(images / i) * np.ceil(rows / r) * np.ceil(columns / c))
    products = (2 + TAPS - 1) ** 2
    rounds = waves(regions * np.ceil(written / FUSED_BLOCK), num_units, wave_quantisation)
    vector, units, e, start = floats(
        vector_peak_flops_per_s, num_units, winograd_fused_peak_fraction, winograd_channel_overhead
    )
    work = rounds * 2 * products * FUSED_BLOCK**2 * (summed + start)
    filters_s = _filter_bytes(summed, written, products, element_bytes) / np.asarray(filter_bytes_per_s)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(work / (vector / units * e), np.asarray(memory_s)) + filters_s)


def winograd_time_s(
    batch: ArrayLike,
    height: ArrayLike,
    width: ArrayLike,
    channels_summed: ArrayLike,
    channels_out: ArrayLike,
    *,
    is_weight_gradient: ArrayLike,
    filter_bytes_per_s: ArrayLike,
    element_bytes: ArrayLike,
    vector_peak_flops_per_s: ArrayLike,
    num_units: ArrayLike,
    winograd_peak_fraction: ArrayLike,
    small_tile_penalty: ArrayLike,
    k_overhead: ArrayLike,
    wave_quantisation: ArrayLike,
) -> FloatArray:
    """Time of the 36 products of F(4×4, 3×3) and of its filter transform; the image transforms come on top.

        t = min over tiles of waves(36 ⌈m/a⌉ ⌈n/b⌉) · tile time(k) + filters,   (m, n, k) = (tiles, c_out, c)

    Parameters
    ----------
    batch, height, width : array_like
        Images, and their size as written; for the weight gradient as the gradient arrives. [1]
    channels_summed, channels_out : array_like
        Channels that are summed over, and that are written; input and output for the weight gradient. [1]
    is_weight_gradient : array_like of bool
        Whether the products sum over tiles and not over channels.
    filter_bytes_per_s : array_like
        Bandwidth that the transform of the filters reaches. [byte/s]
    element_bytes : array_like
        Size of one element. [byte]
    vector_peak_flops_per_s : array_like
        Peak fp32 rate outside tensor cores. [flop/s]
    num_units : array_like
        Multiprocessors (compute units). [1]
    winograd_peak_fraction : array_like
        Part of the peak that an endless tile would reach; 0 where the library has no such kernel. [1]
    small_tile_penalty : array_like
        Thousands (1024) of outputs at which a tile runs at half of that. [1]
    k_overhead : array_like
        Filling and draining of the pipeline, in steps of the inner loop. [1]
    wave_quantisation : array_like
        1 counts whole rounds of tiles, 0 shares the last one. [1]

    Returns
    -------
    array
        Time, infinite where the library has no such kernel. [s]

    Notes
    -----
    Valid: 3 × 3 kernels, stride 1, one group.
    Source: [lavin2016], section 4.2; fitted: data/fitted/convolution

    Examples
    --------
    >>> t = winograd_time_s(
    ...     32, 32, 32, 64, 64, is_weight_gradient=False, filter_bytes_per_s=1e30, element_bytes=4,
    ...     vector_peak_flops_per_s=64e12, num_units=64, winograd_peak_fraction=1.0, small_tile_penalty=0.0,
    ...     k_overhead=0, wave_quantisation=0.0)
    >>> round(float(t) * 1e6, 3)
    9.437
    """
    summed, written, vector, units = floats(channels_summed, channels_out, vector_peak_flops_per_s, num_units)
    tiles = winograd_tiles(batch, height, width)
    weight = np.asarray(is_weight_gradient, dtype=bool)
    m, n = np.where(weight, written, tiles), np.where(weight, summed, written)
    k = np.where(weight, tiles, summed)
    products = (4 + TAPS - 1) ** 2
    best: FloatArray = np.asarray(np.inf)
    with np.errstate(divide="ignore"):
        for a, b in PRODUCT_TILES:
            rounds = waves(products * np.ceil(m / a) * np.ceil(n / b), units, wave_quantisation)
            one = tile_time_s(
                a, b, k, unit_flops_per_s=vector / units, gemm_peak_fraction=winograd_peak_fraction,
                small_tile_penalty=small_tile_penalty, k_overhead=k_overhead,
            )  # fmt: skip
            best = np.minimum(best, rounds * one)
    filters_s = _filter_bytes(summed, written, products, element_bytes) / np.asarray(filter_bytes_per_s)
    return np.asarray(best + filters_s)


def _filter_bytes(
    summed: FloatArray, written: FloatArray, products: int, element_bytes: ArrayLike
) -> FloatArray:
    """Return what the transform of the filters reads and writes."""
    return np.asarray(element_bytes, dtype=float) * (TAPS**2 + products) * summed * written


def winograd_tiles(batch: ArrayLike, height: ArrayLike, width: ArrayLike) -> FloatArray:
    """Return how many tiles of 4 × 4 points cover the images."""
    images, rows, columns = floats(batch, height, width)
    return np.asarray(images * np.ceil(rows / 4) * np.ceil(columns / 4))


def winograd_image_bytes(
    batch: ArrayLike, height: ArrayLike, width: ArrayLike, channels: ArrayLike, element_bytes: ArrayLike
) -> FloatArray:
    """Bytes of images transformed for F(4×4, 3×3): 6 × 6 values for each tile of 4 × 4 points.

        B = 36 b ⌈h/4⌉ ⌈w/4⌉ c · element

    Parameters
    ----------
    batch, height, width, channels : array_like
        Images, their size and their channels. [1]
    element_bytes : array_like
        Size of one element. [byte]

    Returns
    -------
    array
        Bytes written by the transform, or read by its inverse. [byte]

    Notes
    -----
    Valid: 3 × 3 kernels, stride 1.
    Source: [lavin2016], section 4.2

    Examples
    --------
    >>> float(winograd_image_bytes(1, 8, 8, 2, 4))
    1152.0
    """
    products = (4 + TAPS - 1) ** 2
    planes, size = floats(channels, element_bytes)
    return np.asarray(products * winograd_tiles(batch, height, width) * planes * size)
