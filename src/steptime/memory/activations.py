"""How many bytes are alive at each position of a step, and which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

OUTLIVE = ("parameter", "buffer", "input", "gradient", "kv_cache")
NAMES = {
    "parameter": "parameters", "buffer": "buffers", "input": "inputs", "gradient": "gradients",
    "activation": "activations", "temporary": "temporaries", "weight_cast": "weight_casts", "kv_cache": "kv_cache",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Lives:
    """The storages of one step at one batch: when each lives, in positions of the sequence, and how large it is.

    A birth of -1 is before the step; a death at ``num_positions`` or later is after it.
    """

    birth: NDArray[np.int64]
    death: NDArray[np.int64]
    size_bytes: NDArray[np.float64]
    role: NDArray[np.str_]
    module: NDArray[np.str_]
    num_positions: int
    forward_end: int

    def of_role(self, *roles: str) -> NDArray[np.bool_]:
        """Mark the storages of some roles."""
        return np.asarray(np.isin(self.role, roles))

    def alive(self, position: int) -> NDArray[np.bool_]:
        """Mark what is alive while the operator at ``position`` runs."""
        born = np.maximum(self.birth, 0)
        return np.asarray((born <= position) & (np.maximum(self.death, born + 1) > position))


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


def parts_of(lives: Lives, alive: NDArray[np.bool_]) -> dict[str, float]:
    """Sum the living storages by what they are."""
    return {
        NAMES.get(str(role), str(role)): float(lives.size_bytes[alive & (lives.role == role)].sum())
        for role in np.unique(lives.role)
    }


def modules_of(lives: Lives, alive: NDArray[np.bool_], most: int) -> dict[str, float]:
    """Sum the living activations by the module that saved them; the largest ``most`` of them."""
    saved = alive & lives.of_role("activation")
    names, inverse = np.unique(lives.module[saved], return_inverse=True)
    sums = np.bincount(inverse, weights=lives.size_bytes[saved], minlength=len(names))
    order = np.argsort(-sums, kind="stable")[:most]
    return {str(names[i]): float(sums[i]) for i in order}
