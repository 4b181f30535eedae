"""How many bytes are alive at each position of a step."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def live_bytes(
    birth: ArrayLike, death: ArrayLike, size_bytes: ArrayLike, *, num_positions: int
) -> NDArray[np.float64]:
    """Bytes alive while each operator of a sequence runs.

        L_i = Σ s   over storages with  birth ≤ i < death  or  birth = i

    Parameters
    ----------
    birth, death : array_like of int, shape (storages,)
        Positions at which a storage appears and from which on it is gone. [1]
    size_bytes : array_like, shape (storages,)
        Sizes. [byte]
    num_positions : int
        Operators in the sequence. [1]

    Returns
    -------
    array, shape (num_positions + 1,)
        The last entry is what outlives the step. [byte]

    Notes
    -----
    Valid: storages that are born before the step have birth −1.
    Source: derived here

    Examples
    --------
    >>> live_bytes([-1, 0, 1], [3, 2, 3], [10.0, 5.0, 1.0], num_positions=3).tolist()
    [15.0, 16.0, 11.0, 0.0]
    """
    change = np.zeros(num_positions + 2)
    born = np.maximum(np.asarray(birth), 0)
    gone = np.minimum(np.maximum(np.asarray(death), born + 1), num_positions + 1)
    np.add.at(change, born, size_bytes)
    np.add.at(change, gone, -np.asarray(size_bytes, dtype=float))
    return np.cumsum(change)[: num_positions + 1]
