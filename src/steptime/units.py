"""Quantities as people print them, and SI numbers inside: the only file that knows a prefix."""

from __future__ import annotations

import re

from steptime.errors import InputError

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
            "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}  # fmt: skip
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BASES = {"B": "byte", "FLOP": "flop", "OP": "flop", "FLOPS": "flop/s", "Hz": "Hz", "W": "W", "J": "J", "s": "s", "b": "bit"}
_QUANTITY = re.compile(r"^\s*(?P<number>[-+]?[\d,]*\.?\d+(?:[eE][-+]?\d+)?)\s*(?P<unit>[A-Za-zµ]*(?:/s)?)\s*$")
_UNIT = re.compile(r"^(?P<prefix>Ki|Mi|Gi|Ti|[kKMGTPEmuµn]?)(?P<base>FLOPS|FLOP|OP|Hz|B|b|W|J|s)(?P<rate>/s)?$")


def parse(text: str, unit: str) -> float:
    """Read a quantity such as ``"3.35 TB/s"`` into SI.

    Parameters
    ----------
    text : str
        A number and a unit with or without prefix.
    unit : str
        What it must be: byte, byte/s, flop, flop/s, Hz, W, J or s.

    Raises
    ------
    InputError
        When the text is no quantity, or of another kind.

    Examples
    --------
    >>> parse("3.35 TB/s", "byte/s")
    3350000000000.0
    """
    found = _QUANTITY.match(str(text))
    parts = _UNIT.match(found["unit"]) if found else None
    if found is None or parts is None:
        raise InputError(f"'{text}' is no quantity: write a number and a unit, like '80 GB' or '3.35 TB/s'.")
    kind = _BASES[parts["base"]] + (parts["rate"] or "")
    factor = _BINARY.get(parts["prefix"]) or _DECIMAL[parts["prefix"]]
    if kind in {"bit", "bit/s"}:
        kind, factor = kind.replace("bit", "byte"), factor / 8
    if kind != unit:
        raise InputError(f"'{text}' is in {kind}, where {unit} is needed.")
    return float(found["number"].replace(",", "")) * factor


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    for size, name in steps:
        if abs(value) >= size:
            return f"{value / size:.4g} {name}"
    size, name = steps[-1]
    return f"{value / size:.3g} {name}"


def format_seconds(seconds: float) -> str:
    """Write a duration: ``12.3 ms``."""
    if seconds >= 60:
        return f"{seconds / 60:.3g} min" if seconds < 3600 else f"{seconds / 3600:.3g} h"
    return _scaled(seconds, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")))


def format_bytes(size: float) -> str:
    """Write a size in binary units: ``1.5 GiB``."""
    return _scaled(size, ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")))


def format_flops(count: float) -> str:
    """Write a number of operations: ``3.1 TFLOP``."""
    return _scaled(count, ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1.0, "FLOP")))


def format_rate(per_second: float, what: str) -> str:
    """Write a rate: ``1,234 samples/s``, ``1.6 PFLOP/s``."""
    if what in {"flop", "byte"}:
        name = {"flop": "FLOP/s", "byte": "B/s"}[what]
        return _scaled(per_second, tuple((10.0**e, p + name) for e, p in ((15, "P"), (12, "T"), (9, "G"), (6, "M"), (0, ""))))
    return f"{per_second:,.0f} {what}/s" if per_second >= 100 else f"{per_second:.3g} {what}/s"
