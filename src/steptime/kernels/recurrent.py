"""How long the layers of an LSTM, GRU or plain recurrent network take with cuDNN.

What depends on the input is one product over all steps; what depends on the state is a product per step, each
waiting for the one before. Small states are therefore bound by the latency of a step, not by arithmetic.

Legend: l layers, t steps; an LSTM has 4 gates, a GRU 3, a plain network 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.kernels.implicit_gemm import floats, tile_time_s, traffic_time_s, waves
from steptime.workload.operator import Direction

FloatArray = NDArray[np.float64]

# Output tiles of one thread block, batch × gates.
# Assumption: those of a library's matrix product with few rows.
TILES = ((128, 128), (64, 128), (64, 64), (32, 64), (32, 32))
# Values of one point and gate that a step's pointwise kernel reads and writes, and those of one point.
# Assumption: two products, their sum kept for the backward pass; old and new state.
GATE_VALUES, POINT_VALUES = 3, 4

Product = Callable[..., FloatArray]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Layers:
    """Shapes of a stack of recurrent layers, arrays of floats."""

    num: FloatArray
    directions: FloatArray
    steps: FloatArray
    batch: FloatArray
    first: FloatArray  # input size of the lowest layer; 0 where the input is added as it is
    hidden: FloatArray
    gates: FloatArray

    @property
    def wide(self) -> FloatArray:
        return self.gates * self.hidden

    @property
    def rows(self) -> FloatArray:
        return self.steps * self.batch

    @property
    def above(self) -> FloatArray:
        """Input size of every layer but the lowest."""
        return self.directions * self.hidden


def recurrent_time_s(
    layers: ArrayLike,
    directions: ArrayLike,
    steps: ArrayLike,
    batch: ArrayLike,
    input_size: ArrayLike,
    hidden: ArrayLike,
    gates: ArrayLike,
    *,
    direction: ArrayLike,
    element_bytes: ArrayLike,
    peak_flops_per_s: ArrayLike,
    bandwidth_bytes_per_s: ArrayLike,
    l2_bytes: ArrayLike,
    num_units: ArrayLike,
    step_latency_s: ArrayLike,
    gemm_peak_fraction: ArrayLike,
    small_tile_penalty: ArrayLike,
    k_overhead: ArrayLike,
    k_split_least: ArrayLike,
    weight_gradient_ratio: ArrayLike,
    data_gradient_ratio: ArrayLike,
    bandwidth_fraction: ArrayLike,
    l2_usable_fraction: ArrayLike,
    l2_bandwidth_ratio: ArrayLike,
) -> FloatArray:
    """Time of a stack of recurrent layers in one direction of training, without the host.

        forward   l · [input product over all steps + t · max(step product, its traffic) + t · latency]
        backward  the same, transposed (data gradient), + products of both weight gradients over all steps

    Parameters
    ----------
    layers, directions, steps, batch : array_like
        Layers, directions (2 if bidirectional), steps and samples. [1]
    input_size, hidden, gates : array_like
        Features of the input (0: added as it is), of the state, and gates. [1]
    direction : array of str
        forward, backward, data_gradient or weight_gradient.
    element_bytes : array_like
        Size of one element. [byte]
    peak_flops_per_s : array_like
        Peak rate of the dtype. [flop/s]
    bandwidth_bytes_per_s : array_like
        Peak bandwidth of device memory. [byte/s]
    l2_bytes : array_like
        Size of the last-level cache. [byte]
    num_units : array_like
        Multiprocessors (compute units). [1]
    step_latency_s : array_like
        What each step waits for beside its product: launches, synchronisation, pointwise kernels. [s]
    gemm_peak_fraction : array_like
        Part of the peak that an endless tile would reach. [1]
    small_tile_penalty : array_like
        Thousands (1024) of outputs at which a tile runs at half of that. [1]
    k_overhead : array_like
        Filling and draining of a tile's pipeline, in steps of the inner loop. [1]
    k_split_least : array_like
        Shortest inner length that is worth a split of its own. [1]
    weight_gradient_ratio, data_gradient_ratio : array_like
        Rate of the weight gradient's products, and of the data gradient's steps, over the forward ones. [1]
    bandwidth_fraction : array_like
        Part of the peak bandwidth that a long transfer reaches. [1]
    l2_usable_fraction : array_like
        Part of the cache that still holds the weights at the next step. [1]
    l2_bandwidth_ratio : array_like
        Bandwidth of the cache over that of device memory. [1]

    Returns
    -------
    array
        Time on the device. [s]

    Notes
    -----
    Valid: cuDNN's standard algorithm; both directions of a layer run side by side.
    Source: [appleyard2016]; fitted: data/fitted/recurrent

    Examples
    --------
    >>> t = recurrent_time_s(
    ...     1, 1, 100, 32, 512, 512, 4, direction="forward", element_bytes=4, peak_flops_per_s=1e13,
    ...     bandwidth_bytes_per_s=7e11, l2_bytes=4e6, num_units=56, step_latency_s=2e-5,
    ...     gemm_peak_fraction=0.9, small_tile_penalty=1, k_overhead=30, k_split_least=256,
    ...     weight_gradient_ratio=0.9, data_gradient_ratio=0.5, bandwidth_fraction=0.7,
    ...     l2_usable_fraction=0.5, l2_bandwidth_ratio=3)
    >>> f"{t:.2e}"
    '4.17e-03'
    """
    shape = _Layers(**dict(zip(
        ("num", "directions", "steps", "batch", "first", "hidden", "gates"),
        floats(layers, directions, steps, batch, input_size, hidden, gates), strict=True,
    )))  # fmt: skip
    product: Product = partial(
        _product_time_s, unit_flops_per_s=np.asarray(peak_flops_per_s) / np.asarray(num_units),
        num_units=num_units, gemm_peak_fraction=gemm_peak_fraction, small_tile_penalty=small_tile_penalty,
        k_overhead=k_overhead, k_split_least=k_split_least,
    )  # fmt: skip
    size, latency, weight_ratio, data_ratio = floats(
        element_bytes, step_latency_s, weight_gradient_ratio, data_gradient_ratio
    )
    weights = shape.wide * shape.hidden
    points = shape.batch * shape.hidden * (GATE_VALUES * shape.gates + POINT_VALUES)
    moved_s = traffic_time_s(
        size * shape.directions * (weights + points), l2_bytes=l2_bytes,
        bandwidth_bytes_per_s=bandwidth_bytes_per_s, bandwidth_fraction=bandwidth_fraction,
        l2_usable_fraction=l2_usable_fraction, l2_bandwidth_ratio=l2_bandwidth_ratio,
    )  # fmt: skip
    step_s = product(shape.batch, shape.wide, shape.hidden, shape.directions)
    back_s = product(shape.batch, shape.hidden, shape.wide, shape.directions) / data_ratio
    waits = shape.num * shape.steps
    forward_s = _over_layers(shape, product, (shape.rows, shape.wide, None))
    forward_s = forward_s + waits * (latency + np.maximum(step_s, moved_s))
    data_s = _over_layers(shape, product, (shape.rows, None, shape.wide)) / data_ratio
    data_s = data_s + waits * (latency + np.maximum(back_s, moved_s))
    weight_s = _over_layers(shape, product, (shape.wide, None, shape.rows))
    weight_s = weight_s + shape.num * product(shape.wide, shape.hidden, shape.rows, shape.directions)
    weight_s = weight_s / weight_ratio
    asked = np.asarray(direction)
    named = (Direction.FORWARD, Direction.DATA_GRADIENT, Direction.WEIGHT_GRADIENT)
    return np.select([asked == d for d in named], [forward_s, data_s, weight_s], data_s + weight_s)


def _over_layers(shape: _Layers, product: Product, sides: Sequence[FloatArray | None]) -> FloatArray:
    """Sum a product over the layers, whose input size stands where ``sides`` has none."""
    lowest, above = ([size if s is None else s for s in sides] for size in (shape.first, shape.above))
    lowest_s = np.where(shape.first > 0, product(*lowest, shape.directions), 0.0)
    return np.asarray(lowest_s + (shape.num - 1) * product(*above, shape.directions))


def _product_time_s(
    m: ArrayLike, n: ArrayLike, k: ArrayLike, copies: ArrayLike, *, unit_flops_per_s: ArrayLike,
    num_units: ArrayLike, gemm_peak_fraction: ArrayLike, small_tile_penalty: ArrayLike,
    k_overhead: ArrayLike, k_split_least: ArrayLike,
) -> FloatArray:  # fmt: skip
    """Return the time of equal products at their best tile, the inner length split over idle units."""
    rows, columns, inner, many, units, least = floats(m, n, k, copies, num_units, k_split_least)
    best: FloatArray = np.asarray(np.inf)
    for a, b in TILES:
        tiles = np.maximum(np.ceil(rows / a) * np.ceil(columns / b) * many, 1)
        parts = np.clip(units / tiles, 1, np.maximum(inner / least, 1))
        one = tile_time_s(
            a, b, inner / parts, unit_flops_per_s=unit_flops_per_s, gemm_peak_fraction=gemm_peak_fraction,
            small_tile_penalty=small_tile_penalty, k_overhead=k_overhead,
        )  # fmt: skip
        best = np.minimum(best, waves(tiles * parts, units, 1.0) * one)
    return best
