"""Scratch memory of operators, which the caching allocator holds while they run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

# F(4 × 4, 3 × 3) of Winograd reads tiles of 6 × 6 for 4 × 4 outputs, and turns a kernel of 3 × 3 into 6 × 6.
# Source: [lavin2016], section 4.
_TILE, _OUTPUTS, _KERNEL = 6.0, 4.0, 3.0


def convolution_workspace_bytes(
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
    element_bytes: ArrayLike,
    channels_last: ArrayLike,
    tensor_cores: ArrayLike,
) -> NDArray[np.float64]:
    """Scratch memory of one convolution, the same for its three products.

        tensor cores, NCHW:        b (X + Y + F)                  copies in NHWC of images and kernels
        others, 3 × 3, stride 1:   b ((6/4)² (X + Y) + (6/3)² F)  images and kernels in Winograd's domain

    Parameters
    ----------
    batch, c_in, c_out, groups : array_like
        Images, channels and groups. [1]
    in_height, in_width, out_height, out_width : array_like
        Sizes of input and output. [1]
    kernel_height, kernel_width, stride_height, stride_width : array_like
        Size and step of the kernel. [1]
    element_bytes : array_like
        b. [byte]
    channels_last : array_like of bool
        Images lie in NHWC already.
    tensor_cores : array_like of bool
        Products run on tensor cores, TF32 among them.

    Returns
    -------
    array
        Scratch memory. [byte]

    Notes
    -----
    Valid: the algorithm that heuristics choose; a search for the fastest (benchmark mode) also tries greedier ones,
    once. Depthwise convolutions need none. X, Y and F count the elements of input, output and kernels.
    Source: derived here

    Examples
    --------
    >>> layer = (1, 64, 64, 1, 56, 56, 56, 56, 3, 3, 1, 1)
    >>> w = convolution_workspace_bytes(*layer, element_bytes=4, channels_last=False, tensor_cores=[True, False])
    >>> (w / 2**20).round(2).tolist()
    [1.67, 4.01]
    """
    b, ci, co, g = (np.asarray(v, dtype=float) for v in (batch, c_in, c_out, groups))
    kernel = np.asarray(kernel_height, dtype=float) * np.asarray(kernel_width, dtype=float)
    images = b * (
        ci * np.asarray(in_height, dtype=float) * np.asarray(in_width, dtype=float)
        + co * np.asarray(out_height, dtype=float) * np.asarray(out_width, dtype=float)
    )
    kernels = ci * co / np.maximum(g, 1) * kernel
    square = (np.asarray(kernel_height) == _KERNEL) & (np.asarray(kernel_width) == _KERNEL)
    whole = (np.asarray(stride_height) == 1) & (np.asarray(stride_width) == 1) & (g == 1)
    depthwise = (g > 1) & (g == ci)
    copies = np.where(~np.asarray(channels_last, dtype=bool) & ~depthwise, images + kernels, 0.0)
    domain = (_TILE / _OUTPUTS) ** 2 * images + (_TILE / _KERNEL) ** 2 * kernels
    elements = np.where(tensor_cores, copies, np.where(square & whole, domain, 0.0))
    return np.asarray(elements * np.asarray(element_bytes, dtype=float))


def attention_workspace_bytes(
    batch: ArrayLike, heads: ArrayLike, kv_heads: ArrayLike, seq_q: ArrayLike, seq_kv: ArrayLike,
    head_dim: ArrayLike, head_dim_v: ArrayLike, *, backward: ArrayLike, element_bytes: ArrayLike,
) -> NDArray[np.float64]:  # fmt: skip
    """Scratch memory of fused attention: its backward pass sums the query's gradient in fp32.

        backward, 16 bit:   4 n h s_q (d + 1)  +  b n h s_kv (d + d_v) where heads share keys

    Parameters
    ----------
    batch, heads, kv_heads : array_like
        n, h, and the heads of keys and values. [1]
    seq_q, seq_kv, head_dim, head_dim_v : array_like
        s_q, s_kv, d and d_v. [1]
    backward : array_like of bool
        The pass that computes gradients.
    element_bytes : array_like
        b, of queries, keys and values. [byte]

    Returns
    -------
    array
        Scratch memory. [byte]

    Notes
    -----
    Valid: FlashAttention-2, which also expands shared keys' gradients to all heads before it sums them; kernels for
    fp32 sum in place.
    Source: [dao2023], mha_bwd of flash_api.cpp (dq_accum, softmax_d, dk_expanded, dv_expanded)

    Examples
    --------
    >>> w = attention_workspace_bytes(1, 32, 32, 4096, 4096, 128, 128, backward=[False, True], element_bytes=2)
    >>> (w / 2**20).tolist()
    [0.0, 64.5]
    """
    n, h, hk, sq, sk, d, dv = (
        np.asarray(v, dtype=float) for v in (batch, heads, kv_heads, seq_q, seq_kv, head_dim, head_dim_v)
    )
    size = np.asarray(element_bytes, dtype=float)
    sums = 4 * n * h * sq * (d + 1)
    expanded = np.where(hk < h, size * n * h * sk * (d + dv), 0.0)
    return np.asarray(np.where(np.asarray(backward, dtype=bool) & (size == 2), sums + expanded, 0.0))
