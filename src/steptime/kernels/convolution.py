"""How long one convolution takes on an idle accelerator: the best of the algorithms that its library has.

    implicit GEMM   every convolution; on tensor cores with padded channels, and NCHW images turned to NHWC
    Winograd        3 × 3, stride 1, one group, outside tensor cores
    direct          depthwise and grouped convolutions, and few input channels, outside tensor cores

Legend: b batch, c channels, g groups; the data gradient is a convolution whose rows are input points, the
weight gradient one whose inner length are the output points. Depth of 3-D convolutions is folded into the
heights; a transposed convolution is a data gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.kernels.implicit_gemm import floats, implicit_gemm_time_s, traffic_time_s
from steptime.kernels.winograd import TAPS, winograd_fused_time_s, winograd_image_bytes, winograd_time_s
from steptime.workload.operator import Direction

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def convolution_flops(
    batch: ArrayLike,
    c_in: ArrayLike,
    c_out: ArrayLike,
    groups: ArrayLike,
    out_height: ArrayLike,
    out_width: ArrayLike,
    kernel_height: ArrayLike,
    kernel_width: ArrayLike,
) -> FloatArray:
    """Floating-point operations of a convolution; of each of its two gradients as well.

        F = 2 b c_out h w (c_in / g) k_h k_w

    Parameters
    ----------
    batch, c_in, c_out, groups : array_like
        Images, channels and groups. [1]
    out_height, out_width : array_like
        Size of the output. [1]
    kernel_height, kernel_width : array_like
        Size of the kernel. [1]

    Returns
    -------
    array
        Operations, a multiply-add counted as two. [flop]

    Notes
    -----
    Valid: taps that fall into the padding are counted, as FLOP counters do.
    Source: derived here

    Examples
    --------
    >>> f"{convolution_flops(1, 3, 64, 1, 112, 112, 7, 7):.0f}"
    '236027904'
    """
    b, ci, co, g = floats(batch, c_in, c_out, groups)
    h, w, kh, kw = floats(out_height, out_width, kernel_height, kernel_width)
    return 2.0 * b * co * h * w * (ci / g) * kh * kw


@dataclass(frozen=True, kw_only=True, slots=True)
class _Problem:
    """One convolution in one direction, as its algorithms see it; all arrays of floats or bools."""

    batch: FloatArray
    groups: FloatArray
    inner: FloatArray  # input channels of one group
    outer: FloatArray  # output channels of one group
    taps: FloatArray
    in_points: FloatArray
    out_points: FloatArray
    height: FloatArray  # of what is written: the input for the data gradient
    width: FloatArray
    backward_data: BoolArray
    backward_weight: BoolArray
    strided: BoolArray
    channels_last: BoolArray
    tensor_cores: BoolArray
    element_bytes: FloatArray
    image_bytes: FloatArray  # input that the kernel touches, and output
    traffic_bytes: FloatArray

    @property
    def depthwise(self) -> BoolArray:
        return np.asarray((self.groups > 1) & (self.inner == 1))

    @property
    def winograd(self) -> BoolArray:
        square = (self.taps == TAPS**2) & ~self.strided & (self.groups == 1)
        return np.asarray(square & ~self.tensor_cores)

    @property
    def flops(self) -> FloatArray:
        return 2.0 * self.out_points * self.groups * self.inner * self.outer * self.taps


def convolution_time_s(
    batch: ArrayLike,
    c_in: ArrayLike,
    c_out: ArrayLike,
    groups: ArrayLike,
    in_height: ArrayLike,
    in_width: ArrayLike,
    out_height: ArrayLike,
    out_width: ArrayLike,
    kernel_height: ArrayLike,
    kernel_width: ArrayLike,
    stride_height: ArrayLike,
    stride_width: ArrayLike,
    *,
    direction: ArrayLike,
    element_bytes: ArrayLike,
    channels_last: ArrayLike,
    tensor_cores: ArrayLike,
    peak_flops_per_s: ArrayLike,
    vector_peak_flops_per_s: ArrayLike,
    bandwidth_bytes_per_s: ArrayLike,
    l2_bytes: ArrayLike,
    num_units: ArrayLike,
    ramp_s: ArrayLike,
    gemm_peak_fraction: ArrayLike,
    small_tile_penalty: ArrayLike,
    k_overhead: ArrayLike,
    wave_quantisation: ArrayLike,
    bandwidth_fraction: ArrayLike,
    l2_usable_fraction: ArrayLike,
    l2_bandwidth_ratio: ArrayLike,
    alignment_bytes: ArrayLike,
    layout_passes: ArrayLike,
    grouped_ratio: ArrayLike,
    grouped_channels_last_gradient_ratio: ArrayLike,
    many_groups: ArrayLike,
    weight_gradient_ratio: ArrayLike,
    strided_gradient_ratio: ArrayLike,
    k_split_least: ArrayLike,
    winograd_fused_peak_fraction: ArrayLike,
    winograd_channel_overhead: ArrayLike,
    winograd_peak_fraction: ArrayLike,
    winograd_weight_gradient_ratio: ArrayLike,
    filter_bandwidth_fraction: ArrayLike,
    direct_peak_fraction: ArrayLike,
    depthwise_peak_fraction: ArrayLike,
    depthwise_channels_last_peak_fraction: ArrayLike,
    depthwise_weight_gradient_ratio: ArrayLike,
    depthwise_channels_last_weight_gradient_ratio: ArrayLike,
) -> FloatArray:
    """Time of one convolution, or of one of its gradients, without the host.

        t = min over algorithms of (ramp + max(compute, memory) + transforms)

    Parameters
    ----------
    batch, c_in, c_out, groups : array_like
        Images, channels and groups. [1]
    in_height, in_width, out_height, out_width : array_like
        Sizes of the input and of the output. [1]
    kernel_height, kernel_width, stride_height, stride_width : array_like
        Size and step of the kernel. [1]
    direction : array of str
        forward, data_gradient or weight_gradient.
    element_bytes : array_like
        Size of one element of the images. [byte]
    channels_last : array_like of bool
        Whether the images lie in memory channel by channel for each point (NHWC).
    tensor_cores : array_like of bool
        Whether the dtype is multiplied on tensor (matrix) cores.
    peak_flops_per_s : array_like
        Peak rate of the dtype. [flop/s]
    vector_peak_flops_per_s : array_like
        Peak fp32 rate outside tensor cores. [flop/s]
    bandwidth_bytes_per_s : array_like
        Peak bandwidth of device memory. [byte/s]
    l2_bytes : array_like
        Size of the last-level cache. [byte]
    num_units : array_like
        Multiprocessors (compute units). [1]
    ramp_s : array_like
        Start and end of one kernel, during which the accelerator idles. [s]
    gemm_peak_fraction : array_like
        Part of the peak that an endless tile of an implicit GEMM would reach. [1]
    small_tile_penalty : array_like
        Thousands (1024) of outputs at which a tile runs at half of that. [1]
    k_overhead : array_like
        Filling and draining of a tile's pipeline, in steps of the inner loop. [1]
    wave_quantisation : array_like
        1 counts whole rounds of tiles, 0 shares the last one. [1]
    bandwidth_fraction : array_like
        Part of the peak bandwidth that a long transfer reaches. [1]
    l2_usable_fraction : array_like
        Part of the cache that still holds data of the kernel before. [1]
    l2_bandwidth_ratio : array_like
        Bandwidth of the cache over that of device memory. [1]
    alignment_bytes : array_like
        What the channels of a point are padded to on tensor cores. [byte]
    layout_passes : array_like
        Times that NCHW images are moved once more, to NHWC and back, around kernels on tensor cores. [1]
    grouped_ratio : array_like
        Rate of a grouped implicit GEMM over that of a dense one. [1]
    grouped_channels_last_gradient_ratio : array_like
        The same for the gradients of channels-last images with fewer than ``many_groups`` groups. [1]
    many_groups : array_like
        Groups from which the library has kernels of its own for those gradients. [1]
    weight_gradient_ratio : array_like
        Rate of the weight gradient over that of the forward product. [1]
    strided_gradient_ratio : array_like
        Rate of the data gradient of a strided convolution over that of the forward product. [1]
    k_split_least : array_like
        Shortest inner length that is worth a split of its own in a weight gradient. [1]
    winograd_fused_peak_fraction, winograd_peak_fraction : array_like
        Part of the vector peak that Winograd's products reach in one kernel and in three; 0: none. [1]
    winograd_channel_overhead : array_like
        Start-up and output transform of the fused kernel, in channels. [1]
    winograd_weight_gradient_ratio : array_like
        Rate of a weight gradient by Winograd over that of the forward product. [1]
    filter_bandwidth_fraction : array_like
        Part of the peak bandwidth that the transform of filters reaches. [1]
    direct_peak_fraction : array_like
        Part of the vector peak that a direct kernel reaches; 0: none. [1]
    depthwise_peak_fraction, depthwise_channels_last_peak_fraction : array_like
        The same for depthwise convolutions, by memory format. [1]
    depthwise_weight_gradient_ratio, depthwise_channels_last_weight_gradient_ratio : array_like
        Rate of a depthwise weight gradient over that of the forward kernel, by memory format. [1]

    Returns
    -------
    array
        Time on the device. [s]

    Notes
    -----
    Valid: dense strides, no dilation finer than the padding; FFT algorithms are left out.
    Source: [chetlur2014], [lavin2016]; fitted: data/fitted/convolution

    Examples
    --------
    >>> t = convolution_time_s(
    ...     256, 64, 64, 1, 56, 56, 56, 56, 3, 3, 1, 1, direction="forward", element_bytes=2,
    ...     channels_last=True, tensor_cores=True, peak_flops_per_s=312e12, vector_peak_flops_per_s=19.5e12,
    ...     bandwidth_bytes_per_s=1.5e12, l2_bytes=0, num_units=108, ramp_s=5e-6, gemm_peak_fraction=0.8,
    ...     small_tile_penalty=2, k_overhead=40, wave_quantisation=1, bandwidth_fraction=0.8,
    ...     l2_usable_fraction=0.3, l2_bandwidth_ratio=3, alignment_bytes=16, layout_passes=2,
    ...     grouped_ratio=0.5, grouped_channels_last_gradient_ratio=0.1, many_groups=16,
    ...     weight_gradient_ratio=0.9, strided_gradient_ratio=0.6, k_split_least=512,
    ...     winograd_fused_peak_fraction=0, winograd_channel_overhead=20, winograd_peak_fraction=0,
    ...     winograd_weight_gradient_ratio=0.7, filter_bandwidth_fraction=0.3,
    ...     direct_peak_fraction=0.1, depthwise_peak_fraction=0.1,
    ...     depthwise_channels_last_peak_fraction=0.1, depthwise_weight_gradient_ratio=0.4,
    ...     depthwise_channels_last_weight_gradient_ratio=0.4)
    >>> f"{t:.2e}"
    '3.27e-04'
    """
    sizes = floats(
        batch, c_in, c_out, groups, in_height, in_width, out_height, out_width, kernel_height, kernel_width,
        stride_height, stride_width, element_bytes,
    )  # fmt: skip
    p = _problem(*sizes, direction=direction, channels_last=channels_last, tensor_cores=tensor_cores)
    moved_s = partial(
        traffic_time_s, bandwidth_bytes_per_s=bandwidth_bytes_per_s, l2_bytes=l2_bytes,
        bandwidth_fraction=bandwidth_fraction, l2_usable_fraction=l2_usable_fraction,
        l2_bandwidth_ratio=l2_bandwidth_ratio,
    )  # fmt: skip
    memory_s, start_s = moved_s(p.traffic_bytes), np.asarray(ramp_s, dtype=float)
    lacking = (
        p.channels_last
        & (p.backward_data | p.backward_weight)
        & (p.groups < np.asarray(many_groups, dtype=float))
    )
    grouped = np.where(lacking, grouped_channels_last_gradient_ratio, grouped_ratio)
    ratio = np.where(p.groups > 1, grouped, 1.0) * np.where(p.backward_weight, weight_gradient_ratio, 1.0)
    ratio = ratio * np.where(p.backward_data & p.strided, strided_gradient_ratio, 1.0)
    w, f, r = floats(bandwidth_bytes_per_s, bandwidth_fraction, l2_bandwidth_ratio)
    gemm_s = start_s + _gemm_time_s(
        p, memory_s, start_s, alignment_bytes=alignment_bytes, layout_passes=layout_passes,
        peak_flops_per_s=peak_flops_per_s, num_units=num_units,
        partial_sum_bytes_per_s=w * f * r,
        gemm_peak_fraction=np.asarray(gemm_peak_fraction) * ratio, small_tile_penalty=small_tile_penalty,
        k_overhead=k_overhead, wave_quantisation=wave_quantisation, k_split_least=k_split_least,
    )  # fmt: skip
    depthwise = np.where(p.channels_last, depthwise_channels_last_peak_fraction, depthwise_peak_fraction)
    slowed = np.where(
        p.channels_last, depthwise_channels_last_weight_gradient_ratio, depthwise_weight_gradient_ratio
    )
    depthwise = depthwise * np.where(p.backward_weight, slowed, 1.0)
    direct_rate = np.asarray(vector_peak_flops_per_s) * np.where(p.depthwise, depthwise, direct_peak_fraction)
    with np.errstate(divide="ignore"):
        direct_s = start_s + np.maximum(memory_s, p.flops / direct_rate)
    best = np.minimum(gemm_s, direct_s)
    if not p.winograd.any():
        return np.asarray(best)
    winograd_s = _winograd_time_s(
        p, memory_s, start_s, moved_s, vector_peak_flops_per_s=vector_peak_flops_per_s, num_units=num_units,
        wave_quantisation=wave_quantisation, small_tile_penalty=small_tile_penalty, k_overhead=k_overhead,
        filter_bytes_per_s=w * np.asarray(filter_bandwidth_fraction),
        winograd_fused_peak_fraction=winograd_fused_peak_fraction,
        winograd_channel_overhead=winograd_channel_overhead,
        winograd_peak_fraction=np.asarray(winograd_peak_fraction)
        * np.where(p.backward_weight, winograd_weight_gradient_ratio, 1.0),
    )  # fmt: skip
    return np.asarray(np.where(p.winograd, np.minimum(best, winograd_s), best))


def _problem(
    *sizes: FloatArray, direction: ArrayLike, channels_last: ArrayLike, tensor_cores: ArrayLike
) -> _Problem:
    b, ci, co, g, ih, iw, oh, ow, kh, kw, sh, sw, size = sizes
    data = np.asarray(np.asarray(direction) == Direction.DATA_GRADIENT)
    last, cores = np.asarray(channels_last, dtype=bool), np.asarray(tensor_cores, dtype=bool)
    # A kernel narrower than its stride skips rows; in NCHW its columns still share the sectors that are read.
    skipped = np.minimum(1, kh / sh) * np.where(last | cores, np.minimum(1, kw / sw), 1.0)
    touched = np.where(data, 1.0, skipped)
    images = size * (b * ih * iw * ci * touched + b * oh * ow * co)
    return _Problem(
        batch=b, groups=g, inner=ci / g, outer=co / g, taps=kh * kw,
        in_points=b * ih * iw, out_points=b * oh * ow,
        height=np.where(data, ih, oh), width=np.where(data, iw, ow), backward_data=data,
        backward_weight=np.asarray(np.asarray(direction) == Direction.WEIGHT_GRADIENT),
        strided=np.asarray(sh * sw > 1), channels_last=last, tensor_cores=cores, element_bytes=size,
        image_bytes=images, traffic_bytes=images + size * ci * (co / g) * kh * kw,
    )  # fmt: skip


def _product(p: _Problem, alignment_bytes: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return m, n and k of one group's product; channels are padded where tensor cores multiply."""
    step = np.where(p.tensor_cores, np.asarray(alignment_bytes) / p.element_bytes, 1.0)
    inner, outer = np.ceil(p.inner / step) * step, np.ceil(p.outer / step) * step
    # each input point meets only the taps that the stride lets through
    met = p.taps * p.out_points / p.in_points
    m = np.where(p.backward_weight, p.outer, np.where(p.backward_data, p.in_points, p.out_points))
    n = np.where(p.backward_weight, inner * p.taps, np.where(p.backward_data, p.inner, p.outer))
    k = np.where(p.backward_weight, p.out_points, np.where(p.backward_data, outer * met, inner * p.taps))
    return m, n, k


def _gemm_time_s(
    p: _Problem, memory_s: FloatArray, start_s: FloatArray, *, alignment_bytes: ArrayLike,
    layout_passes: ArrayLike, **product: Any,
) -> FloatArray:  # fmt: skip
    """Return the time of the implicit GEMM, images turned to NHWC and back where tensor cores want it."""
    m, n, k = _product(p, alignment_bytes)
    product_s = implicit_gemm_time_s(
        m, n, k, p.groups, is_weight_gradient=p.backward_weight, memory_s=memory_s, **product
    )
    # input, filters and output are turned by a kernel each
    turning_s = np.asarray(layout_passes, dtype=float) * memory_s + 3 * start_s
    layout_s = np.where(p.tensor_cores & ~p.channels_last, turning_s, 0.0)
    return np.asarray(np.where(p.depthwise, np.inf, product_s + layout_s))


def _winograd_time_s(
    p: _Problem, memory_s: FloatArray, start_s: FloatArray, moved_s: Callable[[FloatArray], FloatArray], *,
    winograd_fused_peak_fraction: ArrayLike, winograd_channel_overhead: ArrayLike,
    winograd_peak_fraction: ArrayLike, small_tile_penalty: ArrayLike, k_overhead: ArrayLike, **machine: Any,
) -> FloatArray:  # fmt: skip
    """Return the faster of Winograd's two kernels; weight gradients have only the one that is not fused."""
    summed = np.where(p.backward_data, p.outer, p.inner)
    written = np.where(p.backward_data, p.inner, p.outer)
    shape = (p.batch, p.height, p.width, summed, written)
    fused_s = start_s + winograd_fused_time_s(
        *shape, memory_s=memory_s, element_bytes=p.element_bytes,
        winograd_fused_peak_fraction=winograd_fused_peak_fraction,
        winograd_channel_overhead=winograd_channel_overhead, **machine,
    )  # fmt: skip
    images = winograd_image_bytes(p.batch, p.height, p.width, p.inner + p.outer, p.element_bytes)
    # filters, two images and the products are kernels of their own
    apart_s = 4 * start_s + moved_s(p.image_bytes + images) + winograd_time_s(
        *shape, is_weight_gradient=p.backward_weight, element_bytes=p.element_bytes,
        winograd_peak_fraction=winograd_peak_fraction, small_tile_penalty=small_tile_penalty,
        k_overhead=k_overhead, **machine,
    )  # fmt: skip
    return np.asarray(np.where(p.backward_weight, apart_s, np.minimum(fused_s, apart_s)))
