"""What an optimizer step moves and launches: memory-bound kernels over parameters, gradients and states."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def _array(value: ArrayLike) -> FloatArray:
    return np.asarray(value, dtype=float)


def optimizer_read_bytes(
    num_reads: ArrayLike,
    *,
    num_states: ArrayLike,
    parameter_bytes: ArrayLike,
    gradient_bytes: ArrayLike,
    state_bytes: ArrayLike,
) -> FloatArray:
    """Bytes that a step reads for each element of a parameter.

        R = b_g + s b_s + (r − 1 − s) b_p

    The gradient and each state are read once in their own width, everything else in the parameter's.

    Parameters
    ----------
    num_reads : array_like
        r, tensors of the parameter's size that all kernels of the step read; 0 for no step. [1]
    num_states : array_like
        s, states among them. [1]
    parameter_bytes : array_like
        b_p, width of the parameter that is updated: 4 where a master copy is kept. [byte]
    gradient_bytes : array_like
        b_g, width of a gradient. [byte]
    state_bytes : array_like
        b_s, width of a state. [byte]

    Returns
    -------
    array
        Bytes read per element. [byte]

    Notes
    -----
    Valid: every element has a gradient; states are not factored.
    Source: derived here from the code of [pytorch2024], torch/optim; counts: data/published/optimizers.toml

    Examples
    --------
    >>> float(optimizer_read_bytes(4, num_states=2, parameter_bytes=4, gradient_bytes=2, state_bytes=4))
    14.0
    """
    reads, states = _array(num_reads), _array(num_states)
    rest = (reads - 1.0 - states) * _array(parameter_bytes)
    once = _array(gradient_bytes) + states * _array(state_bytes)
    return np.asarray(np.where(reads > 0, once + rest, 0.0))


def optimizer_written_bytes(
    num_writes: ArrayLike,
    *,
    num_states: ArrayLike,
    parameter_bytes: ArrayLike,
    state_bytes: ArrayLike,
    model_copy_bytes: ArrayLike = 0.0,
) -> FloatArray:
    """Bytes that a step writes for each element of a parameter.

        Q = s b_s + (q − s) b_p + b_c

    Parameters
    ----------
    num_writes : array_like
        q, tensors of the parameter's size that all kernels of the step write; 0 for no step. [1]
    num_states : array_like
        s, states among them. [1]
    parameter_bytes : array_like
        b_p, width of the parameter that is updated: 4 where a master copy is kept. [byte]
    state_bytes : array_like
        b_s, width of a state. [byte]
    model_copy_bytes : array_like
        b_c, width of the model's own copy that is renewed from a master copy; 0 without one. [byte]

    Returns
    -------
    array
        Bytes written per element. [byte]

    Notes
    -----
    Valid: as `optimizer_read_bytes`.
    Source: derived here from the code of [pytorch2024], torch/optim; counts: data/published/optimizers.toml

    Examples
    --------
    >>> float(optimizer_written_bytes(3, num_states=2, parameter_bytes=4, state_bytes=4, model_copy_bytes=2))
    14.0
    """
    writes, states = _array(num_writes), _array(num_states)
    moved = (
        states * _array(state_bytes) + (writes - states) * _array(parameter_bytes) + _array(model_copy_bytes)
    )
    return np.asarray(np.where(writes > 0, moved, 0.0))


def optimizer_bytes_per_parameter(
    num_reads: ArrayLike,
    num_writes: ArrayLike,
    *,
    num_states: ArrayLike,
    parameter_bytes: ArrayLike,
    gradient_bytes: ArrayLike,
    state_bytes: ArrayLike,
    model_copy_bytes: ArrayLike = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Return what a step reads and writes for each element of a parameter, both in bytes.

    Arguments as in `optimizer_read_bytes` and `optimizer_written_bytes`.

    Examples
    --------
    >>> read, written = optimizer_bytes_per_parameter(
    ...     4, 3, num_states=2, parameter_bytes=4, gradient_bytes=4, state_bytes=4)
    >>> float(read), float(written)
    (16.0, 12.0)
    """
    common = {"num_states": num_states, "parameter_bytes": parameter_bytes, "state_bytes": state_bytes}
    read = optimizer_read_bytes(num_reads, gradient_bytes=gradient_bytes, **common)
    return read, optimizer_written_bytes(num_writes, model_copy_bytes=model_copy_bytes, **common)


def optimizer_num_launches(
    num_tensors: ArrayLike,
    num_elements: ArrayLike,
    *,
    tensors_per_launch: ArrayLike,
    elements_per_launch: ArrayLike,
) -> FloatArray:
    """Count the launches of one kernel of a step.

        l = max(⌈T / t⌉, ⌈N / n⌉)

    Parameters
    ----------
    num_tensors : array_like
        T, tensors that are updated. [1]
    num_elements : array_like
        N, their elements. [1]
    tensors_per_launch : array_like
        t, tensors that one launch takes: 1 for a loop, `tensors_of_a_launch` for multi-tensor code. [1]
    elements_per_launch : array_like
        n, elements that one launch takes; infinite for a loop over tensors. [1]

    Returns
    -------
    array
        Launches. [1]

    Notes
    -----
    Valid: a lower bound of multi-tensor code: a launch that is full of one thing leaves room of the other.
    Source: [pytorch2024], ATen/native/cuda/MultiTensorApply.cuh

    Examples
    --------
    >>> optimizer_num_launches([10, 161], 25e6, tensors_per_launch=36, elements_per_launch=2e7).tolist()
    [2.0, 5.0]
    """
    by_tensors = np.ceil(_array(num_tensors) / _array(tensors_per_launch))
    return np.asarray(np.maximum(by_tensors, np.ceil(_array(num_elements) / _array(elements_per_launch))))


# Source: [pytorch2024] ATen/native/cuda/MultiTensorApply.cuh: depth_to_max_tensors, depth_to_max_blocks and
# kChunkSize. Arguments of a kernel fit 4 KB; builds for CUDA 13 allow 32 KB, seven times as much.
_TENSORS_OF_DEPTH = np.array([110.0, 64.0, 48.0, 36.0, 30.0])
ELEMENTS_OF_A_LAUNCH = 320.0 * 65536.0  # Source: as above


def tensors_of_a_launch(depth: ArrayLike) -> FloatArray:
    """Return how many tensors one launch of multi-tensor code takes, by the number of its lists (1 to 5).

    Examples
    --------
    >>> tensors_of_a_launch([1, 4]).tolist()
    [110.0, 36.0]
    """
    return np.asarray(_TENSORS_OF_DEPTH[np.asarray(depth, dtype=int) - 1])


def state_bytes_per_parameter(num_states: ArrayLike, state_bytes: ArrayLike) -> FloatArray:
    """Return the bytes of all states per element of a parameter; a master copy is a state of 4 bytes.

    Examples
    --------
    >>> state_bytes_per_parameter([0, 1, 2, 2], [4, 4, 4, 1 + 4 / 256]).tolist()
    [0.0, 4.0, 8.0, 2.03125]
    """
    return np.asarray(_array(num_states) * _array(state_bytes))


def factored_state_bytes(rows: ArrayLike, columns: ArrayLike, *, element_bytes: ArrayLike) -> FloatArray:
    """Size of a second moment that is kept as one vector per side of each matrix.

        S = b (m + n),   S = b n for a vector (m = 1)

    Parameters
    ----------
    rows, columns : array_like
        m and n, the shapes of the matrices; a vector has one row. [1]
    element_bytes : array_like
        b, width of a state. [byte]

    Returns
    -------
    array
        Size of the state of each matrix. [byte]

    Notes
    -----
    Valid: Adafactor without a first moment; a tensor of more dimensions is a stack of matrices.
    Source: [shazeer2018], section 3

    Examples
    --------
    >>> factored_state_bytes([4096, 1], [11008, 4096], element_bytes=4).tolist()
    [60416.0, 16384.0]
    """
    m, n = _array(rows), _array(columns)
    return np.asarray(_array(element_bytes) * np.where(m > 1, m + n, n))
