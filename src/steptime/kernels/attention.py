"""How long fused (flash-style) attention takes, forward and backward; eager attention is other kernels.

Symbols: b sequences, h query heads, g heads of keys and values, sq queries, skv keys, d and dv head widths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

# The width at which peak_fraction is stated; narrower and wider heads have ratios to it. Definition.
WIDTH = 128
# Keys (backward: queries) that a block walks over in one step. Source: [dao2023], section 3.3.
STEP = 64


def attention_flops(
    batch: ArrayLike, heads: ArrayLike, seq_q: ArrayLike, seq_kv: ArrayLike, head_dim: ArrayLike,
    head_dim_v: ArrayLike, *, causal_fraction: ArrayLike, backward: ArrayLike,
) -> FloatArray:  # fmt: skip
    """Floating-point operations of one attention: two products forward, five backward (one is recomputed).

        forward 2 b h sq skv (d + dv) c          backward 2 b h sq skv (3 d + 2 dv) c

    Parameters
    ----------
    batch, heads : array_like
        Sequences and query heads. [1]
    seq_q, seq_kv : array_like
        Queries and keys. [1]
    head_dim, head_dim_v : array_like
        Width of a head in queries and keys, and in values. [1]
    causal_fraction : array_like
        c, part of the score matrix that is computed. [1]
    backward : array_like of bool
        The gradients instead of the forward pass. [1]

    Returns
    -------
    array
        Operations, a multiply-add counting two. [flop]

    Notes
    -----
    Valid: any attention; the softmax is not counted.
    Source: [dao2023], section 4.1

    Examples
    --------
    >>> float(attention_flops(1, 1, 1024, 1024, 128, 128, causal_fraction=1, backward=False)) / 2**20
    512.0
    """
    b, h, sq, skv = _floats(batch, heads, seq_q, seq_kv)
    d, dv, part = _floats(head_dim, head_dim_v, causal_fraction)
    return np.asarray(2 * b * h * sq * skv * part * np.where(backward, 3 * d + 2 * dv, d + dv))


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
    width_64_ratio: ArrayLike,
    width_256_ratio: ArrayLike,
    width_512_ratio: ArrayLike,
    width_step: ArrayLike,
    block_rows: ArrayLike,
    small_block_rows: ArrayLike,
    block_start_s: ArrayLike,
    block_start_exponent: ArrayLike,
    block_move_s: ArrayLike,
    tail_fraction: ArrayLike,
    bandwidth_fraction: ArrayLike,
    l2_bandwidth_ratio: ArrayLike,
    l2_usable_fraction: ArrayLike,
    floor_s: ArrayLike,
    packed_width: ArrayLike,
    training_ratio: ArrayLike,
    backward_ratio: ArrayLike,
    l2_bytes: ArrayLike = 0.0,
    serving: ArrayLike = False,
) -> FloatArray:
    """Time of one fused attention on the device, without the host.

        t = n t₀ + max(N (i τ + p) / U + φ (i_max τ + p),  B / W)  +  B_cache / W

    N blocks of queries (backward: of keys) share U units. A block starts in p and walks over i steps of 64
    keys, half of them when causal, in τ each; the longest walk i_max ends last, and φ of it finds the other
    units idle. W is the bandwidth of memory, or of the cache while everything fits there. A serving engine
    runs a kernel before this one that lays out the queries and writes keys and values to its cache.

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
        The gradients instead of the forward pass. [1]
    element_bytes : array_like
        Size of one element. [byte]
    peak_flops_per_s : array_like
        Dense peak rate of the dtype. [flop/s]
    bandwidth_bytes_per_s : array_like
        Peak bandwidth of the device memory. [byte/s]
    num_units : array_like
        U, multiprocessors (compute units). [1]
    peak_fraction : array_like
        Part of the peak that a serving engine's kernel reaches on an endless walk with heads of 128. [1]
    width_64_ratio, width_256_ratio, width_512_ratio : array_like
        The same for other heads, over that for 128. [1]
    width_step : array_like
        Heads wider than 128 are padded to multiples of this. [1]
    block_rows, small_block_rows : array_like
        Rows of a block with heads of 128 or less, and the granule in which a short sequence fills it. [1]
    block_start_s : array_like
        Start of a block with heads of 128. [s]
    block_start_exponent : array_like
        How it grows with the width of a head. [1]
    block_move_s : array_like
        Fetching and storing 128 rows of 128 elements. [s]
    tail_fraction : array_like
        φ, part of the longest block that nothing else hides. [1]
    bandwidth_fraction : array_like
        Part of the peak bandwidth that is reached. [1]
    l2_bandwidth_ratio : array_like
        Bandwidth of the cache over that of memory. [1]
    l2_usable_fraction : array_like
        Part of the cache at which half of the traffic misses it. [1]
    floor_s : array_like
        t₀, start and end of one kernel. [s]
    packed_width : array_like
        Width of heads for which one-token prompts share a block per group; 0 for none. [1]
    training_ratio : array_like
        Rate of the training libraries' forward kernel over the serving engine's. [1]
    backward_ratio : array_like
        Rate of the backward kernel over the serving engine's forward one. [1]
    l2_bytes : array_like
        Size of the last-level cache; 0 when unknown. [byte]
    serving : array_like of bool
        A serving engine's attention with the kernel that fills its cache, not a training library's. [1]

    Returns
    -------
    array
        Time of the kernels. [s]

    Notes
    -----
    Valid: FlashAttention-2 and 3, cuDNN and their kin; few queries against many keys are split along the keys
    and grouped heads then read theirs once. Cards that these do not support take their sets by assumption.
    Source: [dao2023], [shah2024]; tail: [graham1969]; fitted: data/fitted/attention

    Examples
    --------
    >>> t = attention_time_s(
    ...     8, 32, 8, 4096, 4096, 128, 128, causal_fraction=0.5, backward=False, element_bytes=2,
    ...     peak_flops_per_s=1e15, bandwidth_bytes_per_s=3e12, l2_bytes=5e7, num_units=132, peak_fraction=0.6,
    ...     width_64_ratio=0.7, width_256_ratio=1, width_512_ratio=0.7, width_step=64, block_rows=128,
    ...     small_block_rows=16, block_start_s=2e-6, block_start_exponent=0.5, block_move_s=1e-6,
    ...     tail_fraction=0.5, bandwidth_fraction=0.8, l2_bandwidth_ratio=2,
    ...     l2_usable_fraction=0.7, floor_s=5e-6,
    ...     packed_width=0, training_ratio=1, backward_ratio=0.8)
    >>> f"{float(t):.2e}"
    '2.11e-03'
    """
    b, h, g, sq, skv = _floats(batch, heads, kv_heads, seq_q, seq_kv)
    d, dv = _padded(head_dim, width_step), _padded(head_dim_v, width_step)
    back, engine, part, width = *_floats(backward, serving, causal_fraction), (d + dv) / 2
    fraction = np.asarray(peak_fraction) * _width_ratio(
        width, width_64_ratio, width_256_ratio, width_512_ratio
    )
    speed = np.where(back > 0, backward_ratio, np.where(engine > 0, 1.0, training_ratio))
    fraction = fraction * speed
    unit_flops_per_s = np.asarray(peak_flops_per_s) * np.minimum(fraction, 1.0) / np.asarray(num_units)
    work = _work(
        b, h, g, sq, skv, width, back=back, part=part, num_units=num_units, block_rows=block_rows,
        small_block_rows=small_block_rows, packs=np.equal(head_dim, packed_width),
    )  # fmt: skip
    step_s = 2.0 * work.rows * STEP * np.where(back > 0, 3 * d + 2 * dv, d + dv) / unit_flops_per_s
    start_s = np.asarray(block_start_s) * (width / WIDTH) ** np.asarray(block_start_exponent)
    start_s = (start_s + np.asarray(block_move_s) * work.filled) / speed
    shared_s = work.blocks * (work.steps * step_s + start_s * work.split) / np.asarray(num_units)
    compute_s = shared_s + np.asarray(tail_fraction) * (work.longest * step_s + start_s)
    moved, cached = _traffic_bytes(b, h, g, sq, skv, *_floats(head_dim, head_dim_v, element_bytes), back=back)
    cached = cached * np.where(back > 0, 0.0, engine)
    usable = np.asarray(l2_bytes) * np.asarray(l2_usable_fraction)
    hit = usable**4 / np.maximum(usable**4 + (moved + cached / 2) ** 4, 1.0)
    byte_s = (1 - hit + hit / np.asarray(l2_bandwidth_ratio)) / (
        np.asarray(bandwidth_bytes_per_s) * np.asarray(bandwidth_fraction)
    )
    # backward: row sums, gradients, conversion; forward: filling the cache, joining what was split
    kernels = np.where(back > 0, 3.0, 1.0 + engine + (work.split > 1))
    return np.asarray(kernels * np.asarray(floor_s) + np.maximum(compute_s, moved * byte_s) + cached * byte_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    """How attention is cut into blocks; every array broadcasts to (operators, accelerators)."""

    rows: FloatArray  # of the score matrix in one block
    filled: FloatArray  # what a block fetches, in tiles of 128 × 128
    blocks: FloatArray
    steps: FloatArray  # mean walk of a block
    longest: FloatArray  # walk of the longest one
    split: FloatArray  # blocks into which one walk is cut


def _work(
    b: FloatArray, h: FloatArray, g: FloatArray, sq: FloatArray, skv: FloatArray, width: FloatArray, *,
    back: FloatArray, part: FloatArray, num_units: ArrayLike, block_rows: ArrayLike,
    small_block_rows: ArrayLike, packs: ArrayLike,
) -> _Work:  # fmt: skip
    """Cut attention into blocks of queries; the backward pass into blocks of keys."""
    units, granule = _floats(num_units, small_block_rows)
    packed = (back == 0) & ((sq < skv) | ((sq == 1) & np.asarray(packs)))
    packed = packed & (sq * h / g <= np.asarray(block_rows))
    across = np.where(back > 0, skv, np.where(packed, sq * h / g, sq))
    along = np.where(back > 0, sq, skv)
    most = np.asarray(block_rows) * np.minimum(1.0, WIDTH / width)  # registers hold rows × width
    rows = np.minimum(np.ceil(across / granule) * granule, most)
    blocks = b * np.where(packed, g, h) * np.ceil(across / rows)
    steps = np.ceil(along / granule) * granule / STEP
    # steps on the diagonal are computed whole, at least a half of one for each block
    walked = np.where(part < 1, steps * part + np.maximum(rows / STEP, 1.0) / 2, steps)
    walked = np.minimum(walked, steps)
    splits, longest = (back == 0) & (skv > sq), np.minimum(steps, 2 * walked)
    split = np.where(splits, np.clip(units / blocks, 1.0, np.maximum(longest, 1.0)), 1.0)
    return _Work(
        rows=rows, filled=np.minimum(across, rows) * width / (WIDTH * WIDTH), blocks=blocks, steps=walked,
        longest=longest / split, split=split,
    )  # fmt: skip


def _traffic_bytes(
    b: FloatArray, h: FloatArray, g: FloatArray, sq: FloatArray, skv: FloatArray, d: FloatArray,
    dv: FloatArray, element: FloatArray, *, back: FloatArray,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Return what attention reads and writes, and what the kernel that fills a cache before it does."""
    queries, keys = element * b * h * sq, element * b * skv
    forward = queries * (d + dv) + keys * g * (d + dv)
    # queries, outputs, gradients; sums of query gradients in fp32; gradients of keys for each query head
    grouped = np.where(h > g, 2 * h, 0) * (d + dv)
    backward = queries * 2 * (d + dv) + b * h * sq * 4 * 3 * d + keys * (2 * g * (d + dv) + grouped)
    return np.where(back > 0, backward, forward), 2 * (queries * d + keys * g * (d + dv))


def _padded(width: ArrayLike, step: ArrayLike) -> FloatArray:
    """Return a head's width as kernels compute it."""
    w = np.asarray(width, dtype=float)
    return np.where(w > WIDTH, np.ceil(w / np.asarray(step)) * np.asarray(step), w)


def _width_ratio(width: FloatArray, narrow: ArrayLike, wide: ArrayLike, widest: ArrayLike) -> FloatArray:
    """Interpolate between the widths; below 64 the softmax keeps its time, so the rate falls."""
    doublings = np.log2(width / WIDTH)
    log = np.clip(-doublings, 0.0, 1.0) * np.log(narrow) + np.clip(doublings, 0.0, 1.0) * np.log(wide)
    log = log + np.clip(doublings - 1, 0.0, 1.0) * (np.log(widest) - np.log(wide))
    return np.asarray(np.exp(log) * np.minimum(2 * width / WIDTH, 1.0))


def _floats(*values: ArrayLike) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(v, dtype=float) for v in values)
