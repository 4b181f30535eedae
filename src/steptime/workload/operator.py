"""What one operator is: its kind, the dimensions that describe it, and its floating-point operations.

Legend of the dimensions (``DIMS``), one tuple per kind; unused places hold 0. Depth of 3-D convolutions is
folded into the heights. All counts are of elements, not bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

NUM_DIMS = 12


class Kind(StrEnum):
    """The families of operators that share one performance model."""

    GEMM = "gemm"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    ELEMENTWISE = "elementwise"
    COPY = "copy"
    NORMALISATION = "normalisation"
    SOFTMAX = "softmax"
    REDUCTION = "reduction"
    POOLING = "pooling"
    GATHER = "gather"
    SCATTER = "scatter"
    OPTIMIZER = "optimizer"
    OTHER = "other"


class Phase(StrEnum):
    """The part of a training step in which an operator runs."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


class Direction(StrEnum):
    """Which of an operator's products it computes."""

    FORWARD = "forward"
    BACKWARD = "backward"
    DATA_GRADIENT = "data_gradient"
    WEIGHT_GRADIENT = "weight_gradient"


_ROWS = ("rows", "columns")
DIMS: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {
        Kind.GEMM: ("batch", "m", "n", "k"),
        Kind.CONVOLUTION: (
            "batch",
            "c_in",
            "c_out",
            "groups",
            "in_h",
            "in_w",
            "out_h",
            "out_w",
            "kernel_h",
            "kernel_w",
            "stride_h",
            "stride_w",
        ),
        Kind.ATTENTION: (
            "batch",
            "heads",
            "kv_heads",
            "seq_q",
            "seq_kv",
            "head_dim",
            "head_dim_v",
            "causal",
        ),
        Kind.RECURRENT: ("layers", "directions", "steps", "batch", "input_size", "hidden", "gates"),
        Kind.NORMALISATION: _ROWS,
        Kind.SOFTMAX: _ROWS,
        Kind.REDUCTION: _ROWS,
        Kind.GATHER: _ROWS,
        Kind.SCATTER: _ROWS,
        Kind.POOLING: ("elements",),
        Kind.ELEMENTWISE: ("elements",),
        Kind.COPY: ("elements",),
        Kind.OPTIMIZER: ("elements",),
        Kind.OTHER: ("elements",),
    }
)

# Kinds that compilers merge with their neighbours; products and scans stay kernels of their own.
FUSIBLE = frozenset({Kind.ELEMENTWISE, Kind.COPY, Kind.NORMALISATION, Kind.SOFTMAX, Kind.REDUCTION})

# What FLOP counters count: products. A multiply-add is two operations.
COUNTED = (Kind.GEMM, Kind.CONVOLUTION, Kind.ATTENTION, Kind.RECURRENT)


def causal_fraction(causal: NDArray[np.float64], seq_q: NDArray[np.float64],
                    seq_kv: NDArray[np.float64]) -> NDArray[np.float64]:  # fmt: skip
    """Return the share of the score matrix that is computed; half of it, plus the diagonal, when causal.

    ``causal`` is 0 for full attention, 1 for causal, and w > 1 for a causal window of w keys.
    """
    full = seq_q * seq_kv
    triangle = seq_q * seq_kv - seq_q * (seq_q - 1) / 2  # queries are the last of the keys
    outside = np.maximum(seq_kv - np.maximum(causal, 1), 0)
    early = np.maximum(outside - seq_q, 0)
    cut = (outside * (outside + 1) - early * (early + 1)) / 2
    masked = np.where(causal > 1, triangle - cut, triangle)
    return np.where((causal > 0) & (full > 0), masked / np.maximum(full, 1), 1.0)


def flops(kind: NDArray[np.str_], direction: NDArray[np.str_],
          dims: NDArray[np.float64]) -> NDArray[np.float64]:  # fmt: skip
    """Count the floating-point operations of each row's products (memory-bound kinds count none).

    Parameters
    ----------
    kind, direction : array of str, shape (rows,)
    dims : array, shape (rows, 12)
        As in ``DIMS``.

    Returns
    -------
    array, shape (rows,)
        FLOPs of one occurrence; backward attention counts five products where forward has two.
    """
    d = dims.T
    result = np.zeros(len(kind))
    gemm = 2.0 * d[0] * d[1] * d[2] * d[3]
    # output points × input channels of a group × kernel; the same for all three products of a convolution
    convolution = 2.0 * d[0] * d[2] * d[6] * d[7] * (d[1] / np.maximum(d[3], 1)) * d[8] * d[9]
    attention = 2.0 * d[0] * d[1] * d[3] * d[4] * causal_fraction(d[7], d[3], d[4])
    attention = np.where(
        direction == Direction.BACKWARD, attention * (3 * d[5] + 2 * d[6]), attention * (d[5] + d[6])
    )
    # the first layer reads the input, the others what all directions of the layer below wrote
    inner = d[4] + (d[0] - 1) * d[5] * d[1] + d[0] * d[5]
    recurrent = 2.0 * d[1] * d[2] * d[3] * d[6] * d[5] * inner
    recurrent = np.where(direction == Direction.BACKWARD, 2.0 * recurrent, recurrent)
    for name, value in zip(COUNTED, (gemm, convolution, attention, recurrent), strict=True):
        result = np.where(kind == name, value, result)
    return result
