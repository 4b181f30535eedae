"""What a model keeps for the whole of a training: parameters, gradients, optimizer states."""

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
        Size of one parameter. [byte]
    gradient_bytes : array_like
        Size of one gradient. [byte]
    state_bytes : array_like
        Size of one parameter's optimizer states. [byte]

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
    >>> float(model_state_bytes(7e9, 7e9, parameter_bytes=2, gradient_bytes=2, state_bytes=4)) / 1e9
    56.0
    """
    whole = np.asarray(num_parameters, dtype=float) * parameter_bytes
    trained = np.asarray(num_trainable, dtype=float) * (np.asarray(gradient_bytes) + np.asarray(state_bytes))
    return np.asarray(whole + trained)
