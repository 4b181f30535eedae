"""How long fused (flash-style) attention takes, forward and backward; eager attention is products and softmax."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

# Rows and columns of the score matrix that one block works on at a time. Source: [dao2023], section 3.3.
TILE = 128


def attention_time_s(
    batch: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    seq_q: ArrayLike,
    seq_kv: ArrayLike,
    head_dim: ArrayLike,
    head_dim_v: ArrayLike,
    *,
    causal_fraction: ArrayLike,
    backward: ArrayLike,
    element_bytes: ArrayLike,
    peak_flops_per_s: ArrayLike,
    bandwidth_bytes_per_s: ArrayLike,
    num_units: ArrayLike,
    peak_fraction: ArrayLike,
    narrow_exponent: ArrayLike,
    wide_exponent: ArrayLike,
    prologue_tiles: ArrayLike,
    small_tile: ArrayLike,
    tile_latency_s: ArrayLike,
    idle_exponent: ArrayLike,
    bandwidth_fraction: ArrayLike,
    floor_s: ArrayLike,
    backward_ratio: ArrayLike,
) -> FloatArray:
    """Time of one fused attention kernel, without the host.

        t = t₀ + max(B / (f W),  ((N i / U)^p + i_max^p)^(1/p))

    N blocks of 128 queries walk over i tiles of 128 keys (the causal part of them) and take a prologue; U units
    share them; the longest block's walk i_max is the least that the kernel can take. A tile takes its products
    at the rate that the head's width allows, or its latency.

    Parameters
    ----------
    batch, heads, kv_heads : array_like
        Sequences, query heads, and the heads of keys and values that they share. [1]
    seq_q, seq_kv : array_like
        Queries and keys. [1]
    head_dim, head_dim_v : array_like
        Width of a head in queries and keys, and in values. [1]
    causal_fraction : array_like
        Part of the score matrix that is computed. [1]
    backward : array_like of bool
        The gradient instead of the forward pass: five products instead of two.
    element_bytes : array_like
        Size of one element. [byte]
    peak_flops_per_s : array_like
        Dense peak rate of the dtype. [flop/s]
    bandwidth_bytes_per_s : array_like
        Peak bandwidth of the device memory. [byte/s]
    num_units : array_like
        Multiprocessors (compute units). [1]
    peak_fraction : array_like
        Part of the peak that an endless walk reaches with heads of 128. [1]
    narrow_exponent, wide_exponent : array_like
        How that part falls for narrower and for wider heads. [1]
    prologue_tiles : array_like
        Start and end of a block, in tiles. [1]
    small_tile : array_like
        Rows of the smallest tile, for sequences shorter than a full one. [1]
    tile_latency_s : array_like
        Least time of one tile. [s]
    idle_exponent : array_like
        p, how sharply the longest block takes over. [1]
    bandwidth_fraction : array_like
        f, part of the peak bandwidth that reading keys and values reaches. [1]
    floor_s : array_like
        t₀, start and end of the kernel. [s]
    backward_ratio : array_like
        Rate of the backward kernel over that of the forward one. [1]

    Returns
    -------
    array
        Time of the kernel. [s]

    Notes
    -----
    Valid: FlashAttention-2 and its kin; few queries against many keys are split along the keys.
    Source: [dao2023]; fitted: data/fitted/attention

    Examples
    --------
    >>> t = attention_time_s(
    ...     8, 32, 8, 4096, 4096, 128, 128, causal_fraction=0.5, backward=False, element_bytes=2,
    ...     peak_flops_per_s=1e15, bandwidth_bytes_per_s=3e12, num_units=132, peak_fraction=0.6,
    ...     narrow_exponent=0.3, wide_exponent=0.2, prologue_tiles=1, small_tile=64, tile_latency_s=1e-7, idle_exponent=2,
    ...     bandwidth_fraction=0.8, floor_s=3e-6, backward_ratio=0.8)
    >>> f"{float(t):.2e}"
    '2.04e-03'
    """
    b, h, g, sq, skv = _floats(batch, heads, kv_heads, seq_q, seq_kv)
    d, dv, part, back = _floats(head_dim, head_dim_v, causal_fraction, backward)
    units, element = _floats(num_units, element_bytes)
    products = np.where(back > 0, 3 * d + 2 * dv, d + dv)
    width = (d + dv) / 2
    narrow = np.minimum(width / TILE, 1.0) ** np.asarray(narrow_exponent)
    wide = np.minimum(TILE / width, 1.0) ** np.asarray(wide_exponent)
    rate = np.asarray(peak_flops_per_s) * np.asarray(peak_fraction) * narrow * wide
    rate = rate * np.where(back > 0, backward_ratio, 1.0)
    rows, columns = _tile(sq, small_tile), _tile(skv, small_tile)
    tile_s = np.maximum(2.0 * rows * columns * products * units / rate, tile_latency_s)
    blocks = b * h * np.ceil(sq / rows)
    tiles = np.ceil(skv / columns)
    spare = np.where(sq < TILE, np.clip(units / blocks, 1.0, tiles), 1.0)  # split along the keys
    # tiles on the diagonal are computed whole: half a tile more for each block of a causal matrix
    walked = np.where(part < 1, np.minimum(tiles * part + 0.5, tiles), tiles)
    work = blocks * (walked + np.asarray(prologue_tiles) * spare) / units
    longest = tiles / spare + np.asarray(prologue_tiles)
    p = np.asarray(idle_exponent, dtype=float)
    compute_s = tile_s * (work**p + longest**p) ** (1 / p)
    passes = np.where(back > 0, 2.0, 1.0)
    traffic = element * passes * b * (h * sq * (d + dv) + g * skv * (d + dv))
    memory_s = traffic / (np.asarray(bandwidth_bytes_per_s) * np.asarray(bandwidth_fraction))
    return np.asarray(np.asarray(floor_s) + np.maximum(compute_s, memory_s))


def _tile(sequence: FloatArray, small_tile: ArrayLike) -> FloatArray:
    """Return a tile's side: kernels have a smaller one for short sequences."""
    return np.clip(np.ceil(sequence / np.asarray(small_tile)) * np.asarray(small_tile), small_tile, TILE)


def _floats(*values: ArrayLike) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(v, dtype=float) for v in values)
