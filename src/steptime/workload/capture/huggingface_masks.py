"""Let transformers' attention under fake tensors take the way that it takes on a GPU.

With fake tensors transformers cannot look into its masks: it supposes packed sequences, materialises every
causal mask and repeats shared heads for it. On a GPU a batch without padding runs ``is_causal`` on shared heads.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from steptime.workload.capture.intercept import window


@contextmanager
def masks_as_on_a_gpu() -> Iterator[None]:
    """Take batches as neither padded nor packed, and tell sliding windows to the recorder, while a capture runs."""
    try:
        masks: Any = importlib.import_module("transformers.masking_utils")
        functions = importlib.import_module("transformers.modeling_utils").ALL_ATTENTION_FUNCTIONS
        looked_up, attend = masks.find_packed_sequence_indices, functions["sdpa"]
    except (ImportError, AttributeError, KeyError):
        yield  # an older transformers; the recorder reads its masks as causal
        return
    masks.find_packed_sequence_indices = lambda position_ids: None  # noqa: ARG005  # its signature is theirs
    functions["sdpa"] = _windowed(attend)
    try:
        yield
    finally:
        masks.find_packed_sequence_indices = looked_up
        del functions["sdpa"]


def _windowed(attend: Any) -> Any:
    def attention(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
        size = options.get("sliding_window") or 0
        looks_back = getattr(module, "is_causal", True) and query.shape[2] == key.shape[2]
        if not (looks_back and 0 < size < key.shape[2]):
            return attend(module, query, key, value, attention_mask, **options)
        token = window.set(int(size))
        try:
            return attend(module, query, key, value, None, **options)
        finally:
            window.reset(token)

    return attention
