"""Kernels that give every row a block of threads: how they load, wait, and read the row again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def _array(value: ArrayLike) -> FloatArray:
    return np.asarray(value, dtype=float)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelShape:
    """How the code of one class of kernels goes over its operands: facts of the code, not of a machine.

    A class without rows (``has_rows`` false) gives each element or vector a thread of its own.
    """

    has_rows: bool = True
    vector_bytes: int = 0  # what a thread loads at once, at most `most_vector_elements`
    most_vector_elements: int = 1
    least_threads: int = 0
    most_threads: int = 0
    scalar_tail: bool = False
    register_columns: int = 0
    memory_passes: int = 1
    cache_passes: int = 0
    num_kernels: int = 1
    overlaps: bool = True  # false where each thread waits for its one load before it computes

    def vector_elements(self, element_bytes: ArrayLike) -> FloatArray:
        """Return how many elements a thread loads at once."""
        return np.asarray(np.clip(self.vector_bytes / _array(element_bytes), 1, self.most_vector_elements))


def _one_scalar_per_thread(*, cache_passes: int = 0) -> KernelShape:
    return KernelShape(
        most_vector_elements=1,
        least_threads=1024,
        most_threads=1024,
        cache_passes=cache_passes,
        overlaps=False,
    )


# Source: [pytorch2024] aten/src/ATen/native/cuda: SoftMax.cu, PersistentSoftmax.cuh, layer_norm_kernel.cu
# (normalisation backward reads its inputs once for the data's and once for the weights' gradient);
# [vllm2023] csrc: layernorm_kernels.cu, activation_kernels.cu, pos_encoding_kernels.cu, one scalar per load;
# compiled kernels and those of libraries keep a row in registers.
KERNEL_SHAPES: Mapping[str, KernelShape] = MappingProxyType(
    {
        "elementwise": KernelShape(has_rows=False),
        "gather": KernelShape(has_rows=False, overlaps=False),
        "normalisation": KernelShape(
            vector_bytes=16, most_vector_elements=4, least_threads=128, most_threads=128, cache_passes=1,
        ),
        "normalisation_backward": KernelShape(
            vector_bytes=16, most_vector_elements=4, least_threads=128, most_threads=128, memory_passes=2,
            cache_passes=1, num_kernels=3,
        ),
        "softmax": KernelShape(
            vector_bytes=16, most_vector_elements=8, least_threads=32, most_threads=512, scalar_tail=True,
            register_columns=1024, cache_passes=2,
        ),
        "compiled_normalisation": KernelShape(has_rows=False),
        "compiled_normalisation_backward": KernelShape(has_rows=False, memory_passes=2, num_kernels=3),
        "library_normalisation": KernelShape(has_rows=False),
        "library_normalisation_backward": KernelShape(has_rows=False, num_kernels=3),
        "serving_normalisation": _one_scalar_per_thread(cache_passes=1),
        "serving_activation": _one_scalar_per_thread(),
        "serving_gated_activation": _one_scalar_per_thread(),
        "serving_rotary": KernelShape(
            vector_bytes=4, most_vector_elements=2, least_threads=512, most_threads=512, overlaps=False
        ),
    }
)  # fmt: skip


def block_threads(
    columns: ArrayLike, *, vector_elements: ArrayLike, least_threads: ArrayLike, most_threads: ArrayLike
) -> FloatArray:
    """Return the threads of the block that reduces one row: about half of its vectors, a power of two.

        b = min(b_most, max(b_least, 2^⌈log₂ (c / 2v)⌉))

    Parameters
    ----------
    columns : array_like
        c, length of a row. [1]
    vector_elements : array_like
        v, elements that a thread loads at once. [1]
    least_threads, most_threads : array_like
        Bounds of the block; equal where a kernel has one size of block. [1]

    Returns
    -------
    array
        Threads of a block. [1]

    Notes
    -----
    Valid: PyTorch's softmax and layer normalisation along the last dimension.
    Source: [pytorch2024], ATen/native/cuda: SoftMax.cu (SoftMax_getBlockSize), layer_norm_kernel.cu

    Examples
    --------
    >>> block_threads([1280, 2560, 50000], vector_elements=4, least_threads=32, most_threads=512).tolist()
    [256.0, 512.0, 512.0]
    """
    half = np.maximum(_array(columns) / (2.0 * _array(vector_elements)), 1.0)
    return np.asarray(np.clip(2.0 ** np.ceil(np.log2(half)), least_threads, most_threads))


def row_passes(
    columns: ArrayLike,
    *,
    threads: ArrayLike,
    element_bytes: ArrayLike,
    num_units: ArrayLike,
    l1_bytes: ArrayLike,
    l2_bytes: ArrayLike,
    unit_threads: ArrayLike,
    l1_row_fraction: ArrayLike,
    l2_row_fraction: ArrayLike,
    miss_sharpness: ArrayLike,
    memory_passes: ArrayLike,
    cache_passes: ArrayLike,
    register_columns: ArrayLike,
) -> FloatArray:
    """Return how often a row's inputs come from device memory when a kernel goes over them several times.

        n = n_m + n_c w^q / (1 + w^q),   w = (T / b) c e / max(a₁ L₁, a₂ L₂ / U)

    A unit works on T / b rows at once. While they fit into its share of the caches, only the first pass comes
    from memory; rows that fit into registers need no second pass.

    Parameters
    ----------
    columns : array_like
        c, length of a row. [1]
    threads : array_like
        b, threads of the block that works on a row. [1]
    element_bytes : array_like
        e, bytes of one element. [byte]
    num_units : array_like
        U, units of the accelerator. [1]
    l1_bytes : array_like
        L₁, fast memory of one unit. [byte]
    l2_bytes : array_like
        L₂, size of the last-level cache. [byte]
    unit_threads : array_like
        T, threads that one unit keeps in flight. [1]
    l1_row_fraction : array_like
        a₁, part of the unit's fast memory that holds rows. [1]
    l2_row_fraction : array_like
        a₂, part of the last-level cache that holds rows. [1]
    miss_sharpness : array_like
        q, how suddenly the cache stops to hold them. [1]
    memory_passes : array_like
        n_m, passes that always come from memory. [1]
    cache_passes : array_like
        n_c, further passes over the same row. [1]
    register_columns : array_like
        Longest row that a warp keeps in registers; it needs one pass. [1]

    Returns
    -------
    array
        Passes over the inputs that reach device memory. [1]

    Notes
    -----
    Valid: one block per row, all rows of one length.
    Source: derived here; fitted: data/fitted/memory_bound

    Examples
    --------
    >>> facts = dict(threads=512, element_bytes=4, num_units=100, l1_bytes=1e5, l2_bytes=4e6)
    >>> code = dict(memory_passes=1, cache_passes=2, register_columns=1024, unit_threads=2048)
    >>> fitted = dict(l1_row_fraction=1, l2_row_fraction=0.5, miss_sharpness=6)
    >>> row_passes([1000, 2000, 6250, 60000], **facts, **code, **fitted).round(2).tolist()
    [1.0, 1.0, 2.0, 3.0]
    """
    rows_bytes = _array(unit_threads) / _array(threads) * _array(columns) * _array(element_bytes)
    near = _array(l1_bytes) * _array(l1_row_fraction)
    share = _array(l2_bytes) * _array(l2_row_fraction) / _array(num_units)
    full = (np.maximum(np.maximum(near, share), 1.0) / np.maximum(rows_bytes, 1e-30)) ** _array(
        miss_sharpness
    )
    again = np.where(_array(columns) <= _array(register_columns), 0.0, _array(cache_passes) / (1.0 + full))
    return np.asarray(_array(memory_passes) + again)


def row_units_time_s(
    rows: ArrayLike,
    columns: ArrayLike,
    *,
    threads: ArrayLike,
    num_units: ArrayLike,
    clock_hz: ArrayLike,
    vector_elements: ArrayLike,
    unit_threads: ArrayLike,
    block_cycles: ArrayLike,
    round_cycles: ArrayLike,
    scalar_tail: ArrayLike,
    lone_block_fraction: ArrayLike,
    register_columns: ArrayLike,
) -> FloatArray:
    """Time that the units need when each row has a block that loads, synchronises and reduces.

        T_u = max(r b / (T U), ℓ) (k_b + k_r m) / C,   m = ⌊c / v b⌋ + tail

    Bytes in flight are bounded by threads and latency (Little's law): a round of loads lasts k_r cycles while
    all blocks of a unit wait together, and a lone block takes the part ℓ of that.

    Parameters
    ----------
    rows, columns : array_like
        r and c, number and length of the rows. [1]
    threads : array_like
        b, threads of the block that works on a row. [1]
    num_units : array_like
        U, units of the accelerator. [1]
    clock_hz : array_like
        C, clock of the units. [Hz]
    vector_elements : array_like
        v, elements that a thread loads at once. [1]
    unit_threads : array_like
        T, threads that one unit keeps in flight. [1]
    block_cycles : array_like
        k_b, cycles of a block's start and its synchronisations. [1]
    round_cycles : array_like
        k_r, cycles of one round of loads in all passes. [1]
    scalar_tail : array_like
        1 where what is left after whole rounds is loaded by single elements, else 0. [1]
    lone_block_fraction : array_like
        ℓ, duration of a block alone on its unit over that among others. [1]
    register_columns : array_like
        Longest row that a warp keeps in registers; it waits for memory only. [1]

    Returns
    -------
    array
        Time of the units. [s]

    Notes
    -----
    Valid: one block per row, not split over blocks: very few and very long rows leave units idle.
    Source: derived here from the loops of [pytorch2024], SoftMax.cu (ilpReduce) and layer_norm_kernel.cu;
    fitted: data/fitted/memory_bound

    Examples
    --------
    >>> facts = dict(threads=256, num_units=100, clock_hz=1e9, vector_elements=4, unit_threads=2048)
    >>> fitted = dict(block_cycles=4000, round_cycles=2000, scalar_tail=1, lone_block_fraction=0.5)
    >>> t = row_units_time_s([1, 80000], [2048, 1600], register_columns=1024, **facts, **fitted)
    >>> (1e6 * t).round(1).tolist()
    [4.0, 1200.0]
    """
    c, b, v = _array(columns), _array(threads), _array(vector_elements)
    rest = np.mod(c, v * b)
    tail = np.where(_array(scalar_tail) > 0, np.ceil(rest / b), np.ceil(rest / (v * b)))
    block_s = (_array(block_cycles) + _array(round_cycles) * (np.floor(c / (v * b)) + tail)) / _array(
        clock_hz
    )
    waves = np.maximum(
        _array(rows) * b / (_array(unit_threads) * _array(num_units)), _array(lone_block_fraction)
    )
    return np.asarray(np.where(c <= _array(register_columns), 0.0, waves * block_s))
