"""Keys and values that a decoder keeps for the tokens to come."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def key_value_bytes(
    batch: ArrayLike, kv_heads: ArrayLike, seq_kv: ArrayLike, head_dim: ArrayLike, head_dim_v: ArrayLike,
    causal: ArrayLike, *, element_bytes: ArrayLike,
) -> NDArray[np.float64]:  # fmt: skip
    """Memory of one layer's keys and values.

        M = b n h_kv min(s, w) (d + d_v)

    Parameters
    ----------
    batch, kv_heads : array_like
        n samples, h_kv heads of keys and values: shared ones are kept once. [1]
    seq_kv, head_dim, head_dim_v : array_like
        s tokens, d and d_v. [1]
    causal : array_like
        A value w above 1 is a window: older tokens are dropped. [1]
    element_bytes : array_like
        b. [byte]

    Returns
    -------
    array
        Memory. [byte]

    Notes
    -----
    Valid: keys and values kept whole, as transformers does also where attention projects a latent to them.
    Source: derived here

    Examples
    --------
    >>> layers = 28  # Qwen2.5-7B, 262 144 tokens, keys and values of 8 bits
    >>> round(layers * float(key_value_bytes(1, 4, 262144, 128, 128, 1, element_bytes=1)) / 1e9, 1)
    7.5
    """
    n, h, s, d, dv, w = (
        np.asarray(v, dtype=float) for v in (batch, kv_heads, seq_kv, head_dim, head_dim_v, causal)
    )
    kept = np.where(w > 1, np.minimum(s, w), s)
    return np.asarray(n * h * kept * (d + dv) * np.asarray(element_bytes, dtype=float))
