"""Quantities as people print them, and SI numbers inside: the only file that knows a prefix.

Decimal prefixes are powers of 1000 and binary ones (Ki, Mi, Gi) of 1024, always: "80 GB" is 80e9 bytes. An
operation counts as a FLOP whatever its dtype, so "624 TOP/s" is a rate in flop/s. "Gb/s" and "Gbit/s" are
bits.
"""

from __future__ import annotations

import re
from functools import lru_cache

from steptime.errors import InputError

_LARGE = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SMALL = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_ANY = {"": 1.0, **_SMALL, **_LARGE}
_WHOLE = {"": 1.0, **_LARGE}  # a milli-byte is a mistake
# Ending of a unit -> (what it measures, factor, prefixes that make sense).
_UNITS: dict[str, tuple[str, float, dict[str, float]]] = {
    "B": ("byte", 1.0, {**_WHOLE, **_BINARY}), "B/s": ("byte/s", 1.0, {**_WHOLE, **_BINARY}),
    "b/s": ("byte/s", 1 / 8, _WHOLE), "bit/s": ("byte/s", 1 / 8, _WHOLE), "bit": ("byte", 1 / 8, _WHOLE),
    "FLOP": ("flop", 1.0, _WHOLE), "OP": ("flop", 1.0, _WHOLE),
    "FLOP/s": ("flop/s", 1.0, _WHOLE), "FLOPS": ("flop/s", 1.0, _WHOLE),
    "OP/s": ("flop/s", 1.0, _WHOLE), "OPS": ("flop/s", 1.0, _WHOLE),
    "Hz": ("Hz", 1.0, _WHOLE), "W": ("W", 1.0, _ANY), "J": ("J", 1.0, _ANY), "Wh": ("J", 3600.0, _WHOLE),
    "s": ("s", 1.0, {"": 1.0, **_SMALL}), "min": ("s", 60.0, {"": 1.0}), "h": ("s", 3600.0, {"": 1.0}),
}  # fmt: skip
_SPELLED = {
    prefix + ending: (kind, factor * scale)
    for ending, (kind, scale, prefixes) in _UNITS.items()
    for prefix, factor in prefixes.items()
}
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][-+]?\d+)?"
_QUANTITY = re.compile(rf"\s*(?P<number>{_NUMBER})\s*(?P<unit>[A-Za-zµμ]+(?:/s)?)\s*")
_EXAMPLES = {
    "byte": "'80 GB' or '96 GiB'", "byte/s": "'3.35 TB/s'", "flop": "'8.2 TFLOP'",
    "flop/s": "'989.4 TFLOP/s'",
    "Hz": "'1,410 MHz'", "W": "'700 W'", "J": "'1.2 MJ'", "s": "'24 ms'",
}  # fmt: skip


def parse(text: str, unit: str | None = None) -> float:
    """Read a quantity such as ``"3.35 TB/s"`` into SI.

    Parameters
    ----------
    text : str
        A number and a unit with or without prefix.
    unit : str, optional
        What it must be: byte, byte/s, flop, flop/s, Hz, W, J or s; anything when left out.

    Raises
    ------
    InputError
        When the text is no quantity, or of another kind.

    Examples
    --------
    >>> parse("3.35 TB/s", "byte/s")
    3350000000000.0
    >>> parse("1,410 MHz")
    1410000000.0
    """
    value, kind = _read(text, unit)
    if unit is not None and kind != unit:
        raise InputError(f"'{text}' is in {kind}, where {unit} is needed, like {_EXAMPLES[unit]}.")
    return value


@lru_cache(maxsize=4096)
def _read(text: str, unit: str | None) -> tuple[float, str]:
    found = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    example = _EXAMPLES.get(unit or "", "'80 GB' or '3.35 TB/s'")
    if found is None or not any(c.isdigit() for c in found["number"]):
        raise InputError(f"'{text}' is no quantity: write a number and a unit, like {example}.")
    if found["unit"] not in _SPELLED:
        raise InputError(
            f"'{text}' has a unit that is not known, '{found['unit']}': write it like {example}."
        )
    kind, factor = _SPELLED[found["unit"]]
    return float(found["number"].replace(",", "")) * factor, kind


_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def _decimal(ending: str, prefixes: str = "EPTGMk") -> tuple[tuple[float, str], ...]:
    return (*((_LARGE[p], p + ending) for p in prefixes), (1.0, ending))


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    """Write ``value`` in the largest of ``steps`` in which its rounded figure is at least 1."""
    fitting = (step for step in steps if abs(float(f"{value / step[0]:.4g}")) >= 1)
    size, name = next(fitting, steps[-1])
    return f"{_figure(value / size)} {name}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def format_seconds(seconds: float) -> str:
    """Write a duration: ``12.3 ms``.

    Examples
    --------
    >>> format_seconds(0.0243), format_seconds(5400)
    ('24.3 ms', '1.5 h')
    """
    # Steps are compared in seconds: minutes begin where their figure is easier to read.
    if seconds >= 120:
        return _scaled(seconds, ((3600.0, "h"), (60.0, "min")))
    return _scaled(seconds, _SECONDS)


def format_bytes(size: float, *, decimal: bool = False) -> str:
    """Write a size in binary units, ``1.5 GiB``; or as sellers label memory, ``80 GB``.

    Examples
    --------
    >>> format_bytes(3 * 2**29), format_bytes(80e9, decimal=True)
    ('1.5 GiB', '80 GB')
    """
    return _scaled(size, _decimal("B", "TGMk") if decimal else _BYTES)


def format_flops(count: float) -> str:
    """Write a number of operations: ``3.1 TFLOP``."""
    return _scaled(count, _decimal("FLOP"))


def format_rate(per_second: float, what: str) -> str:
    """Write a rate: ``1,234 samples/s``, ``1.6 PFLOP/s``, ``3.35 TB/s``.

    Examples
    --------
    >>> format_rate(989.4e12, "flop"), format_rate(3.35e12, "byte"), format_rate(1234.4, "samples")
    ('989.4 TFLOP/s', '3.35 TB/s', '1,234 samples/s')
    """
    if what == "flop":
        return _scaled(per_second, _decimal("FLOP/s"))
    if what == "byte":
        return _scaled(per_second, _decimal("B/s", "PTGMk"))
    return f"{_figure(per_second)} {what}/s"


def format_hertz(hz: float) -> str:
    """Write a clock as vendors print it: ``1,410 MHz``."""
    return f"{_figure(hz / 1e6)} MHz"


def format_watts(watts: float) -> str:
    """Write a power: ``700 W``."""
    return f"{_figure(watts)} W"


def format_joules(joules: float) -> str:
    """Write an energy: ``1.2 kJ``."""
    return _scaled(joules, _decimal("J", "PTGMk"))
