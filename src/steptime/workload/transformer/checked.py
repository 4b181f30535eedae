"""Sizes in a configuration that somebody wrote by hand: whole, above zero, and no larger than a model can be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from steptime.errors import InputError

_SIZE = re.compile(
    r"^(num|n|d)_|^dim$|_(size|dim|heads|layers?|rank|embeddings|positions|experts|head|layer|embd)$"
)
_NEVER_ZERO = re.compile(r"(hidden|vocab|intermediate)_size$|(attention|key_value)_heads$|^d_model$|^n_(head|embd)$|(hidden|n)_layers?$")  # fmt: skip
_MOST = 2**31  # definition: what a 32-bit size can count
_MOST_LAYERS = 10_000  # Assumption: nobody stacks more; a table of them would take minutes


def check_sizes(config: Mapping[str, Any], where: str) -> None:
    """Refuse a configuration whose sizes describe no model.

    Raises
    ------
    InputError
        Naming the file, the field, and what it may be.
    """
    for name, value in config.items():
        if isinstance(value, Mapping) and name.endswith("_config"):
            check_sizes(value, f"{where}, {name}")
        elif _SIZE.search(name) and isinstance(value, (str, float, int)) and not isinstance(value, bool):
            _check(name, value, where)
    heads, kept = config.get("num_attention_heads"), config.get("num_key_value_heads")
    if isinstance(heads, int) and isinstance(kept, int) and heads % kept:
        raise InputError(
            f"{where}: {heads} attention heads cannot share {kept} heads of keys; one must divide the other."
        )


def _check(name: str, value: Any, where: str) -> None:
    least = 1 if _NEVER_ZERO.search(name) else 0
    most = _MOST_LAYERS if "layer" in name else _MOST
    # a NaN fails every comparison
    if isinstance(value, str) or not least <= value <= most or value != int(value):
        raise InputError(f"{where}: '{name}' must be a whole number from {least} to {most:,}, not {value!r}.")
