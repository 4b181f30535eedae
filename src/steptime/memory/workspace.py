"""Scratch memory of convolutions, which the caching allocator holds while they run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
    in_height, in_width, out_height, out_width : array_like
        Sizes of input and output. [1]
    kernel_height, kernel_width, stride_height, stride_width : array_like
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
    del kernel_height, kernel_width, stride_height, stride_width, direction
    b, ci, co, g = (np.asarray(v, dtype=float) for v in (batch, c_in, c_out, groups))
    images = b * ci * np.asarray(in_height) * np.asarray(in_width) + b * co * np.asarray(
        out_height
    ) * np.asarray(out_width)
    copied = np.asarray(tensor_cores) & ~np.asarray(channels_last, dtype=bool) & (g == 1)
    scratch = np.where(copied, images * np.asarray(element_bytes, dtype=float), 0.0)
    return np.asarray(np.minimum(scratch, limit_bytes))
