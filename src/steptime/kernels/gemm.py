"""Matrix products: the time of one library kernel, from tiles, waves, caches and a few fitted numbers.

Legend: a batch of products of A (m × k) with B (k × n) into C (m × n). A library covers C with tiles (one per
thread block), walks along k in steps, and may split k over several blocks that are summed afterwards. A
*unit* is a streaming multiprocessor or compute unit. The library is taken to choose the fastest tile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

# Tiles that libraries offer, rows × columns of C. Assumption: cuBLAS and CUTLASS name such tiles in their
# kernels; twice as many candidates, or one less, moves the fits by less than 0.2 points.
TILES = ((256, 128), (128, 256), (128, 128), (64, 128), (64, 64), (32, 64), (16, 64))
# In how many parts k may be split. Assumption: powers of two, as in the libraries' heuristics.
SPLITS = (1, 2, 4, 8, 16, 32)
# Shortest part of k that a split may leave. Assumption: two or more steps of the inner loop.
SHORTEST_SPLIT = 64
# Width of one step along k, in bytes of an operand's row. Assumption: half a cache line, as in CUTLASS.
STEP_BYTES = 64
# Accumulators of the blocks that share a unit: half of its 64 Ki registers of 32 bits.
# Source: [nvidia2025cuda], compute capabilities; the half is an assumption, operands take the rest.
ACCUMULATORS = 32768
MOST_BLOCKS = 8
ACCUMULATOR_BYTES = 4  # definition: sums are fp32, also in a tile on its way out and in the parts of a split
ALIGNMENT_BYTES = 16  # definition: widest load of one thread, and what the asynchronous copy engines demand


class _Unit(NamedTuple):
    """Rates of one unit and the fixed costs, each of shape (accelerators,) or scalar."""

    number: FloatArray
    flops_per_s: FloatArray
    tile_overhead: FloatArray
    narrowest_tile: FloatArray
    load_bytes_per_s: FloatArray
    store_bytes_per_s: FloatArray
    latency_per_k_s: FloatArray
    prologue_k: FloatArray
    tail_fraction: FloatArray
    wave_s: FloatArray
    split_s: FloatArray


class _Work(NamedTuple):
    """The shapes, and what the device memory has to deliver before the last block can finish."""

    batch: FloatArray
    m: FloatArray
    n: FloatArray
    k: FloatArray
    element_bytes: FloatArray
    slowdown: FloatArray
    load_fourth: FloatArray  # time to load A and B, to the fourth power


def gemm_flops(batch: ArrayLike, m: ArrayLike, n: ArrayLike, k: ArrayLike) -> FloatArray:
    """Operations of a batch of matrix products.

        F = 2 · batch · m · n · k

    Parameters
    ----------
    batch, m, n, k : array_like
        Number of products, rows, columns and inner length. [1]

    Returns
    -------
    array
        Operations, a multiply-add counting two. [flop]

    Notes
    -----
    Valid: always.
    Source: derived here

    Examples
    --------
    >>> float(gemm_flops(1, 2, 3, 4))
    48.0
    """
    b, m, n, k = (np.asarray(x, dtype=float) for x in (batch, m, n, k))
    return np.asarray(2 * b * m * n * k)


def gemm_time_s(
    batch: ArrayLike,
    m: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    *,
    element_bytes: ArrayLike,
    output_bytes: ArrayLike,
    peak_flops_per_s: ArrayLike,
    bandwidth_bytes_per_s: ArrayLike,
    l2_bytes: ArrayLike,
    num_units: ArrayLike,
    clock_hz: ArrayLike,
    compute_efficiency_ratio: ArrayLike,
    tile_overhead: ArrayLike,
    narrowest_tile: ArrayLike,
    unit_load_bytes_per_s: ArrayLike,
    store_scale: ArrayLike,
    latency_per_k_s: ArrayLike,
    prologue_k: ArrayLike,
    tail_fraction: ArrayLike,
    launch_cycles: ArrayLike,
    wave_cycles: ArrayLike,
    split_s: ArrayLike,
    load_efficiency_ratio: ArrayLike,
    store_efficiency_ratio: ArrayLike,
    l2_usable_fraction: ArrayLike,
    misaligned_ratio: ArrayLike,
    far_pitch_bytes: ArrayLike,
    far_pitch_slowdown_ratio: ArrayLike,
    num_operand_copies: ArrayLike = np.inf,
    clock_ratio: ArrayLike = 1.0,
) -> FloatArray:
    """Time of one matrix-product kernel in steady state, without the host's launch cost.

        t = t₀ + max(Q/W,  min over tiles and splits of  [ (c⁴ + l⁴ + d⁴ + q⁴)^¼ + p + e + s ])

    c: arithmetic of all waves; l: operands into the units; d: latency of the steps along k; q: operands out
    of device memory; p: prologue of each wave of blocks; e: writing tiles; s: summing the parts of a split.
    With T tiles, s parts and U units, T·s/U blocks per unit are rounded up to whole ones by the part
    `tail_fraction` (1: a plain grid, 0: perfectly balanced). docs/physics/gemm.md explains each term.

    Parameters
    ----------
    batch, m, n, k : array_like
        Number of products, rows, columns and inner length. [1]
    element_bytes : array_like
        Size of an element of A and B. [byte]
    output_bytes : array_like
        What device memory takes per element of C; twice its size if C is added to. [byte]
    peak_flops_per_s : array_like
        Dense peak rate of the dtype. [flop/s]
    bandwidth_bytes_per_s : array_like
        Peak bandwidth of the device memory. [byte/s]
    l2_bytes : array_like
        Size of the L2 cache. [byte]
    num_units : array_like
        Streaming multiprocessors or compute units. [1]
    clock_hz : array_like
        Clock that the catalogue's peak is stated for. [Hz]
    compute_efficiency_ratio : array_like
        Part of the peak that an endless stream of the largest tile reaches. [1]
    tile_overhead : array_like
        α of a tile's overhead 1 + α (rows + columns) / (rows · columns). [1]
    narrowest_tile : array_like
        A narrower tile costs the arithmetic of one this wide: 1 where the library has them all. [1]
    unit_load_bytes_per_s : array_like
        What one unit takes in from L2. [byte/s]
    store_scale : array_like
        What one unit writes per second, over the root of its peak rate: byte/s per sqrt(flop/s). [1]
    latency_per_k_s : array_like
        Latency that cannot be hidden, per element along k, of one block. [s]
    prologue_k : array_like
        Length along k that fills the pipeline of a block. [1]
    tail_fraction : array_like
        Part of the last, incomplete wave that is paid as if complete. [1]
    launch_cycles, wave_cycles : array_like
        Cycles from one kernel to the next, and for each wave of blocks. [1]
    split_s : array_like
        Fixed cost of splitting k. [s]
    load_efficiency_ratio, store_efficiency_ratio : array_like
        Part of the peak bandwidth that reads and writes reach. [1]
    l2_usable_fraction : array_like
        Part of L2 in which operands survive until they are used again. [1]
    misaligned_ratio : array_like
        Arithmetic rate left when a row of n or k elements is no multiple of 16 bytes. [1]
    far_pitch_bytes : array_like
        Row length along k from which rows lie too far apart for the address translation. [byte]
    far_pitch_slowdown_ratio : array_like
        Extra time of arithmetic for rows far beyond that length. [1]
    num_operand_copies : array_like
        Distinct B that take turns: 1 for a loop over one product, inf where each weight is used once. [1]
    clock_ratio : array_like
        Part of the arithmetic rate that the power limit leaves, see `sustained_clock_ratio`. [1]

    Returns
    -------
    array
        Time of the kernel. [s]

    Notes
    -----
    Valid: one kernel of a tuned library (cuBLAS, CUTLASS and their kin), k contiguous, m, n from 1 to 65,536.
    Source: derived here, after the waves of [neusight2025]; fitted: data/fitted/gemm/

    Examples
    --------
    >>> facts = dict(
    ...     peak_flops_per_s=1e15, bandwidth_bytes_per_s=3e12, l2_bytes=5e7, num_units=132, clock_hz=2e9)
    >>> fitted = dict(
    ...     compute_efficiency_ratio=0.9, tile_overhead=2, narrowest_tile=1, unit_load_bytes_per_s=3e11,
    ...     store_scale=12e3, latency_per_k_s=1.5e-9, prologue_k=32, tail_fraction=0.5, launch_cycles=4000,
    ...     wave_cycles=400, split_s=3e-6, load_efficiency_ratio=0.9, store_efficiency_ratio=0.8,
    ...     l2_usable_fraction=0.4, misaligned_ratio=0.5, far_pitch_bytes=1e9, far_pitch_slowdown_ratio=0)
    >>> t = gemm_time_s(1, [64, 4096], 4096, 4096, element_bytes=2, output_bytes=2, **facts, **fitted)
    >>> [round(1e6 * float(x)) for x in t]
    [15, 177]
    """
    b, m, n, k, element, output = _floats(batch, m, n, k, element_bytes, output_bytes)
    bandwidth, clock, count, cache = _floats(bandwidth_bytes_per_s, clock_hz, num_units, l2_bytes)
    read, write, usable, copies = _floats(
        load_efficiency_ratio, store_efficiency_ratio, l2_usable_fraction, num_operand_copies
    )
    load_s, store_s = _memory_times(
        (b * m * k * element, b * n * k * element, b * m * n * output),
        copies=copies,
        cache=cache * usable,
        read=bandwidth * read,
        write=bandwidth * write,
    )
    (peak,) = _floats(np.divide(peak_flops_per_s, count))
    launch, wave, split, efficiency, ratio, scale = _floats(
        launch_cycles, wave_cycles, split_s, compute_efficiency_ratio, clock_ratio, store_scale
    )
    overhead, narrowest, unit_load, latency, prologue, tail = _floats(
        tile_overhead, narrowest_tile, unit_load_bytes_per_s, latency_per_k_s, prologue_k, tail_fraction
    )
    unit = _Unit(
        number=count,
        flops_per_s=peak * efficiency * ratio,
        tile_overhead=overhead,
        narrowest_tile=narrowest,
        load_bytes_per_s=unit_load,
        store_bytes_per_s=np.sqrt(peak) * scale,
        latency_per_k_s=latency,
        prologue_k=prologue,
        tail_fraction=tail,
        wave_s=wave / clock,
        split_s=split,
    )
    far = _far(k * element, far_pitch_bytes, far_pitch_slowdown_ratio)
    slowdown = far * _misaligned(n, k, element, misaligned_ratio)
    work = _Work(b, m, n, k, element, slowdown, _fourth(load_s))
    return np.asarray(launch / clock + np.maximum(_fastest_s(work, unit), load_s + store_s))


def _floats(*values: ArrayLike) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(v, dtype=float) for v in values)


def _memory_times(
    sizes: tuple[FloatArray, FloatArray, FloatArray],
    *,
    copies: FloatArray,
    cache: FloatArray,
    read: FloatArray,
    write: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the times that device memory needs to deliver A and B and to take C.

    What was used since an operand's last use decides whether L2 still holds it: A, B and C of one product for
    A and C, all copies of B for B.
    """
    a, b, c = sizes
    product_misses = _miss_fraction(a + b + c, cache)
    weight_misses = _miss_fraction(a + b * copies + c, cache)
    return (a * product_misses + b * weight_misses) / read, c * product_misses / write


def _miss_fraction(used: FloatArray, cache: FloatArray) -> FloatArray:
    """Part of accesses that miss: a smooth step where ``used`` bytes pass ``cache`` bytes."""
    return np.asarray(1.0 / (1.0 + np.square(_fourth(cache / used))))


def _misaligned(n: FloatArray, k: FloatArray, element: FloatArray, ratio: ArrayLike) -> FloatArray:
    off = ((n * element) % ALIGNMENT_BYTES != 0) | ((k * element) % ALIGNMENT_BYTES != 0)
    return np.where(off, 1.0 / np.asarray(ratio, dtype=float), 1.0)


def _far(pitch: FloatArray, limit: ArrayLike, extra: ArrayLike) -> FloatArray:
    beyond = _miss_fraction(pitch, np.asarray(limit, dtype=float))
    return np.asarray(1.0 + np.asarray(extra, dtype=float) * beyond)


def _fastest_s(work: _Work, unit: _Unit) -> FloatArray:
    """Return the time of the best tile and split; the loop is over the fixed candidates, never over rows."""
    best: FloatArray = np.asarray(np.inf)
    for rows, columns in TILES:
        per_unit = work.batch * np.ceil(work.m / rows) * np.ceil(work.n / columns) / unit.number
        sharing = min(MOST_BLOCKS, max(1, ACCUMULATORS // (rows * columns)))
        for split in SPLITS:
            allowed = _may_split(split, per_unit, sharing, work.k)
            if np.any(allowed):
                time = _candidate_s((rows, columns), split, per_unit * split, sharing, work, unit)
                best = np.minimum(best, time if split == 1 else np.where(allowed, time, np.inf))
    return best


def _may_split(split: int, per_unit: FloatArray, sharing: int, k: FloatArray) -> NDArray[np.bool_]:
    """Tell where the parts of k stay long enough and there are units to spare for this split."""
    return np.asarray((split == 1) | ((k >= split * SHORTEST_SPLIT) & (per_unit * split <= 4 * sharing)))


def _candidate_s(
    tile: tuple[int, int], split: int, blocks: FloatArray, sharing: int, work: _Work, unit: _Unit
) -> FloatArray:
    """Time of one tile shape and split: main loop, prologues, epilogue and the sum over the parts of k."""
    area, edge = tile[0] * tile[1], tile[0] + tile[1]
    padded = np.maximum(tile[0], unit.narrowest_tile) * np.maximum(tile[1], unit.narrowest_tile)
    step = STEP_BYTES / work.element_bytes
    length = np.ceil(work.k / (split * step)) * step
    filled = length + unit.prologue_k
    flop_s = 2 * padded / unit.flops_per_s * (1.0 + unit.tile_overhead * (edge / area))
    byte_s = edge * work.element_bytes / unit.load_bytes_per_s
    queue = _waves(blocks, unit.tail_fraction)
    rounds = _waves(blocks / sharing, unit.tail_fraction)
    time = _fourth(queue) * (_fourth(length * work.slowdown * flop_s) + _fourth(filled * byte_s))
    time = time + _fourth(rounds * (filled * unit.latency_per_k_s)) + work.load_fourth
    time = np.sqrt(np.sqrt(time)) + rounds * unit.wave_s
    time = time + queue * (area * ACCUMULATOR_BYTES / unit.store_bytes_per_s)
    if split > 1:
        partial = split * ACCUMULATOR_BYTES * work.batch * work.m * work.n
        time = time + unit.split_s + partial / (unit.number * unit.store_bytes_per_s)
    return np.asarray(time)


def _fourth(x: FloatArray) -> FloatArray:
    return np.square(np.square(x))


def _waves(blocks: FloatArray, tail: FloatArray) -> FloatArray:
    """Blocks in a row: never less than one; of an incomplete last one the part ``tail`` is paid."""
    return np.maximum(blocks + tail * (np.ceil(blocks) - blocks), 1.0)
