"""Which rows may be fitted and which only judge: a fixed hash of what the row is about."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

SALT = "steptime-2026"
HELD_OUT_ONE_IN = 5


def is_held_out(keys: Iterable[str]) -> NDArray[np.bool_]:
    """Tell for each key whether its row is kept out of every fit (one in five, for ever the same).

    The key names the thing that must be unseen: ``"m,n,k"`` for a matrix product (so that a shape is held
    out on every accelerator and dtype at once), the model's name for a whole model.
    """
    hashes = [zlib.crc32(f"{SALT}:{key}".encode()) for key in keys]
    return np.asarray([h % HELD_OUT_ONE_IN == 0 for h in hashes], dtype=bool)


def sets_intervals(keys: Iterable[str]) -> NDArray[np.bool_]:
    """Tell for each key whether its rows set the widths of intervals; the other half judges what they cover."""
    hashes = [zlib.crc32(f"{SALT}:interval:{key}".encode()) for key in keys]
    return np.asarray([h % 2 == 0 for h in hashes], dtype=bool)
