"""What a model keeps for the whole of a training: parameters, gradients, optimizer states; and its update's lists."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def model_state_bytes(
    num_parameters: ArrayLike,
    num_trainable: ArrayLike,
    *,
    parameter_bytes: ArrayLike,
    gradient_bytes: ArrayLike,
    state_bytes: ArrayLike,
) -> NDArray[np.float64]:
    """Memory of parameters, gradients and optimizer states on one accelerator.

        M = b_p N + (b_g + b_s) N_t

    Parameters
    ----------
    num_parameters, num_trainable : array_like
        N and N_t: parameters, and those among them that are trained. [1]
    parameter_bytes : array_like
        b_p, size of one parameter. [byte]
    gradient_bytes : array_like
        b_g, size of one gradient. [byte]
    state_bytes : array_like
        b_s, size of one parameter's optimizer states, a master copy among them. [byte]

    Returns
    -------
    array
        Memory. [byte]

    Notes
    -----
    Valid: nothing sharded; frozen parameters have neither gradient nor states.
    Source: [rajbhandari2020], section 3.1

    Examples
    --------
    >>> mixed, pure = 70.6e9, 70.6e9  # Llama-3.1-70B with AdamW: 16 bytes a parameter, or 8 in pure bf16
    >>> m = model_state_bytes([mixed, pure], [mixed, pure], parameter_bytes=2, gradient_bytes=2, state_bytes=[12, 4])
    >>> (m / 1e9).round().tolist()
    [1130.0, 565.0]
    """
    whole = np.asarray(num_parameters, dtype=float) * parameter_bytes
    trained = np.asarray(num_trainable, dtype=float) * (np.asarray(gradient_bytes) + np.asarray(state_bytes))
    return np.asarray(whole + trained)


def update_list_bytes(
    num_elements: ArrayLike, *, element_bytes: ArrayLike, lists: ArrayLike, implementation: str
) -> NDArray[np.float64]:
    """Memory of each temporary tensor that an optimizer's step makes.

        foreach: lists × b n_i for every tensor i;   for-loop: lists × b max n_i, one tensor at a time;   fused: none

    Parameters
    ----------
    num_elements : array_like, shape (tensors,)
        n_i, elements of the trained tensors. [1]
    element_bytes : array_like
        b. [byte]
    lists : array_like
        Temporaries per tensor. [1]
    implementation : str
        foreach, fused or for-loop.

    Returns
    -------
    array, shape (temporaries,)
        Sizes. [byte]

    Notes
    -----
    Valid: multi-tensor code makes a whole list before it uses any of it.
    Source: derived here

    Examples
    --------
    >>> update_list_bytes([10, 4], element_bytes=4, lists=1, implementation="foreach").tolist()
    [40.0, 16.0]
    >>> update_list_bytes([10, 4], element_bytes=4, lists=1, implementation="for-loop").tolist()
    [40.0]
    >>> update_list_bytes([10, 4], element_bytes=4, lists=1, implementation="fused").tolist()
    []
    """
    sizes = np.asarray(num_elements, dtype=float) * np.asarray(element_bytes, dtype=float)
    if implementation == "fused" or not np.size(sizes):
        return np.zeros(0)
    once = sizes if implementation == "foreach" else np.array([sizes.max()])
    return np.asarray(np.tile(once, int(np.asarray(lists))))
