"""Scratch memory of convolutions, which the caching allocator holds while they run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def convolution_workspace_bytes(
    batch: ArrayLike,
    c_in: ArrayLike,
    c_out: ArrayLike,
    groups: ArrayLike,
    in_h: ArrayLike,
    in_w: ArrayLike,
    out_h: ArrayLike,
    out_w: ArrayLike,
    kernel_h: ArrayLike,
    kernel_w: ArrayLike,
    stride_h: ArrayLike,
    stride_w: ArrayLike,
    *,
    direction: ArrayLike,
    element_bytes: ArrayLike,
    channels_last: ArrayLike,
    tensor_cores: ArrayLike,
    limit_bytes: ArrayLike,
) -> NDArray[np.float64]:
    """Scratch memory of one convolution.

        on tensor cores with NCHW images: copies of input and output in NHWC
        otherwise, 3 × 3 with stride 1: transformed images of Winograd, no more than the library's limit

    Parameters
    ----------
    batch, c_in, c_out, groups : array_like
        Images, channels and groups. [1]
    in_h, in_w, out_h, out_w : array_like
        Sizes of input and output. [1]
    kernel_h, kernel_w, stride_h, stride_w : array_like
        Size and step of the kernel. [1]
    direction : array of str
        forward, data_gradient or weight_gradient.
    element_bytes : array_like
        Size of an element. [byte]
    channels_last : array_like of bool
        Images lie in NHWC already.
    tensor_cores : array_like of bool
        The dtype is multiplied on tensor cores.
    limit_bytes : array_like
        What an algorithm may take at most. [byte]

    Returns
    -------
    array
        Scratch memory. [byte]

    Notes
    -----
    Valid: cuDNN by its heuristics; with benchmark mode it may take more.
    Source: assumption (a trace of cuDNN's workspace sizes would settle it)

    Examples
    --------
    >>> w = convolution_workspace_bytes(
    ...     1, 64, 64, 1, 56, 56, 56, 56, 3, 3, 1, 1, direction="forward", element_bytes=2,
    ...     channels_last=True, tensor_cores=True, limit_bytes=1e9)
    >>> float(w)
    0.0
    """
    del kernel_h, kernel_w, stride_h, stride_w, direction
    b, ci, co, g = (np.asarray(v, dtype=float) for v in (batch, c_in, c_out, groups))
    images = b * ci * np.asarray(in_h) * np.asarray(in_w) + b * co * np.asarray(out_h) * np.asarray(out_w)
    copied = np.asarray(tensor_cores) & ~np.asarray(channels_last, dtype=bool) & (g == 1)
    scratch = np.where(copied, images * np.asarray(element_bytes, dtype=float), 0.0)
    return np.asarray(np.minimum(scratch, limit_bytes))
