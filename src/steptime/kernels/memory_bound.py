"""How long a kernel takes that only moves memory: element-wise work, norms, softmax, gather, copies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.kernels.row_blocks import (
    KERNEL_SHAPES,
    KernelShape,
    block_threads,
    row_passes,
    row_units_time_s,
)

FloatArray = NDArray[np.float64]


def _array(value: ArrayLike) -> FloatArray:
    return np.asarray(value, dtype=float)


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
    cached_fraction: ArrayLike = 1.0,
    num_passes: ArrayLike = 1.0,
    units_s: ArrayLike = 0.0,
    overlap_exponent: ArrayLike = 1.0,
) -> FloatArray:
    """Time of one kernel that streams its operands, without what the host adds.

        t = t₀ + (T_m^p + T_u^p)^(1/p),   T_m = B (1 − h + h / r) / (f W),   B = n B_r + B_w
        h = s min(1, u L / B)

    Parameters
    ----------
    bytes_read, bytes_written : array_like
        B_r and B_w, bytes that go in and out when each operand is touched once. [byte]
    bandwidth_bytes_per_s : array_like
        W, peak bandwidth of the device memory. [byte/s]
    l2_bytes : array_like
        L, size of the last-level cache. [byte]
    bandwidth_fraction : array_like
        f, part of the peak bandwidth that a long stream reaches. [1]
    floor_s : array_like
        t₀, start and end of the kernel: the latency that no other bytes in flight can hide. [s]
    l2_usable_fraction : array_like
        u, part of the cache in which the kernel before left what this one touches. [1]
    l2_bandwidth_ratio : array_like
        r, bandwidth of the cache over that of the device memory. [1]
    cached_fraction : array_like
        s, share of the bytes that the kernel before touched: 1 for what it has just written, 0 after
        a flush or in a long sweep. [1]
    num_passes : array_like
        n, how often the inputs come from memory, as `row_passes` says. [1]
    units_s : array_like
        T_u, time that the units need, as `row_units_time_s` and `element_units_time_s` say. [s]
    overlap_exponent : array_like
        p, how well memory and units overlap: 1 not at all, many fully. [1]

    Returns
    -------
    array
        Time of the kernel. [s]

    Notes
    -----
    Valid: contiguous operands in device memory. h is the share that is found in the cache.
    Source: derived here, after the roofline of [williams2009]; fitted: data/fitted/memory_bound

    Examples
    --------
    >>> t = memory_bound_time_s(
    ...     4e8, 4e8, bandwidth_bytes_per_s=2e12, l2_bytes=4e7, bandwidth_fraction=0.8, floor_s=0,
    ...     l2_usable_fraction=0.5, l2_bandwidth_ratio=2)
    >>> round(1e6 * float(t))
    494
    """
    moved = _array(bytes_read) * _array(num_passes) + _array(bytes_written)
    cached = _array(l2_bytes) * _array(l2_usable_fraction)
    hit = _array(cached_fraction) * np.minimum(1.0, cached / np.maximum(moved, 1.0))
    left = 1.0 - hit + hit / _array(l2_bandwidth_ratio)
    stream_s = moved * left / (_array(bandwidth_bytes_per_s) * _array(bandwidth_fraction))
    return np.asarray(_array(floor_s) + _overlapped(stream_s, _array(units_s), _array(overlap_exponent)))


def _overlapped(one: FloatArray, other: FloatArray, exponent: FloatArray) -> FloatArray:
    """Return (a^p + b^p)^(1/p) without overflow."""
    longer, shorter = np.maximum(one, other), np.minimum(one, other)
    ratio = np.divide(shorter, longer, out=np.zeros(longer.shape), where=longer > 0)
    return np.asarray(longer * (1.0 + ratio**exponent) ** (1.0 / exponent))


def element_units_time_s(
    elements: ArrayLike, *, num_units: ArrayLike, clock_hz: ArrayLike, element_cycles: ArrayLike
) -> FloatArray:
    """Time that the units need to issue the loads and stores of single elements.

        T_u = e N / (U C)

    Parameters
    ----------
    elements : array_like
        N, elements of the output. [1]
    num_units : array_like
        U, units of the accelerator. [1]
    clock_hz : array_like
        C, clock of the units. [Hz]
    element_cycles : array_like
        e, cycles of a unit per element; near 0 for kernels that load 16 bytes at once. [1]

    Returns
    -------
    array
        Time of the units. [s]

    Notes
    -----
    Valid: kernels with a thread per element, enough of them to fill the units.
    Source: derived here; fitted: data/fitted/memory_bound

    Examples
    --------
    >>> float(element_units_time_s(1e9, num_units=100, clock_hz=1e9, element_cycles=0.5))
    0.005
    """
    return np.asarray(_array(elements) * _array(element_cycles) / (_array(num_units) * _array(clock_hz)))


def kernel_time_s(
    bytes_read: ArrayLike,
    bytes_written: ArrayLike,
    *,
    kernel_class: str,
    rows: ArrayLike,
    columns: ArrayLike,
    element_bytes: ArrayLike,
    bandwidth_bytes_per_s: ArrayLike,
    l1_bytes: ArrayLike,
    l2_bytes: ArrayLike,
    num_units: ArrayLike,
    clock_hz: ArrayLike,
    cached_fraction: ArrayLike,
    fitted: Mapping[str, ArrayLike],
) -> FloatArray:
    """Time of a kernel of one class: its passes, its units and its stream, with the parameters of that class.

    Parameters
    ----------
    bytes_read, bytes_written : array_like
        Bytes that go in and out when each operand is touched once. [byte]
    kernel_class : str
        A key of `KERNEL_SHAPES`.
    rows, columns : array_like
        Number and length of the rows; for a class without rows, elements of the output and 1. [1]
    element_bytes : array_like
        Bytes of one element of the input. [byte]
    bandwidth_bytes_per_s : array_like
        Peak bandwidth of the device memory. [byte/s]
    l1_bytes : array_like
        Fast memory of one unit; 0 where it is not known. [byte]
    l2_bytes : array_like
        Size of the last-level cache. [byte]
    num_units : array_like
        Units of the accelerator. [1]
    clock_hz : array_like
        Clock of the units. [Hz]
    cached_fraction : array_like
        Share of the bytes that the kernel before touched. [1]
    fitted : Mapping
        Values of a fitted set of memory_bound; those of one class are called ``<class>_<name>``.

    Returns
    -------
    array
        Time of the kernel. [s]

    Notes
    -----
    Valid: contiguous operands; rows of at least 64 elements.
    Source: derived here; fitted: data/fitted/memory_bound

    Examples
    --------
    >>> fitted = {
    ...     "bandwidth_fraction": 0.9, "floor_s": 2e-6, "l2_usable_fraction": 0.4, "l2_bandwidth_ratio": 1.5,
    ...     "overlap_exponent": 2, "gather_element_cycles": 1.5}
    >>> t = kernel_time_s(
    ...     4e6, 4e6, kernel_class="gather", rows=1024, columns=1024, element_bytes=4, fitted=fitted,
    ...     bandwidth_bytes_per_s=2e12, l1_bytes=1e5, l2_bytes=4e7, num_units=100, clock_hz=1e9,
    ...     cached_fraction=0)
    >>> round(1e6 * float(t), 1)
    22.2
    """
    shape = KERNEL_SHAPES[kernel_class]
    machine = {"num_units": num_units, "l1_bytes": l1_bytes, "l2_bytes": l2_bytes, "clock_hz": clock_hz}
    own = {
        n.removeprefix(f"{kernel_class}_"): v for n, v in fitted.items() if n.startswith(f"{kernel_class}_")
    }
    if shape.has_rows:
        passes, units_s = _row_work(shape, rows, columns, element_bytes, machine, {**fitted, **own})
    else:
        passes = _array(shape.memory_passes)
        units_s = element_units_time_s(
            _array(rows) * _array(columns),
            num_units=num_units,
            clock_hz=clock_hz,
            element_cycles=own["element_cycles"],
        )
    return memory_bound_time_s(
        bytes_read, bytes_written, bandwidth_bytes_per_s=bandwidth_bytes_per_s, l2_bytes=l2_bytes,
        bandwidth_fraction=fitted["bandwidth_fraction"],
        floor_s=shape.num_kernels * _array(fitted["floor_s"]),
        l2_usable_fraction=fitted["l2_usable_fraction"], l2_bandwidth_ratio=fitted["l2_bandwidth_ratio"],
        cached_fraction=cached_fraction, num_passes=passes, units_s=units_s,
        overlap_exponent=fitted["overlap_exponent"] if shape.overlaps else 1.0,
    )  # fmt: skip


def _row_work(
    shape: KernelShape, rows: ArrayLike, columns: ArrayLike, element_bytes: ArrayLike,
    machine: Mapping[str, ArrayLike], fitted: Mapping[str, ArrayLike],
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Return the passes over the inputs and the time of the units, for a class that has rows."""
    vector = shape.vector_elements(element_bytes)
    threads = block_threads(
        columns, vector_elements=vector, least_threads=shape.least_threads, most_threads=shape.most_threads
    )
    common: dict[str, ArrayLike] = {"threads": threads, "register_columns": shape.register_columns,
              "num_units": machine["num_units"], "unit_threads": fitted["unit_threads"]}  # fmt: skip
    passes = row_passes(
        columns, **common, element_bytes=element_bytes,
        l1_bytes=machine["l1_bytes"], l2_bytes=machine["l2_bytes"],
        memory_passes=shape.memory_passes, cache_passes=shape.cache_passes,
        **{n: fitted[n] for n in ("l1_row_fraction", "l2_row_fraction", "miss_sharpness")},
    )  # fmt: skip
    units_s = row_units_time_s(
        rows, columns, **common, clock_hz=machine["clock_hz"], vector_elements=vector,
        scalar_tail=shape.scalar_tail,
        **{n: fitted[n] for n in ("block_cycles", "round_cycles", "lone_block_fraction")},
    )  # fmt: skip
    return passes, units_s


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
    >>> fitted = dict(warp_columns=1024, block_columns=400, shared_columns=12000, extra_pass_ratio=0.5)
    >>> softmax_traffic_ratio([512, 20000], **fitted).tolist()
    [1.0, 1.53]
    """
    c = np.asarray(columns, dtype=float)
    block = 1.0 + np.asarray(block_columns, dtype=float) / np.maximum(c, 1.0)
    again = 1.0 + np.where(c > np.asarray(shared_columns), extra_pass_ratio, 0.0)
    return np.asarray(np.where(c <= np.asarray(warp_columns), 1.0, block * again))
