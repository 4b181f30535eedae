"""Quantities go in as vendors print them and come out as people read them."""

from __future__ import annotations

import doctest
import math
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime import units
from steptime.errors import InputError
from steptime.hardware import names, sources
from steptime.units import (
    format_bytes,
    format_flops,
    format_hertz,
    format_joules,
    format_rate,
    format_seconds,
    format_watts,
    parse,
)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("3.35 TB/s", "byte/s", 3.35e12),
        ("989.4 TFLOP/s", "flop/s", 989.4e12),
        ("989.4 TFLOPS", "flop/s", 989.4e12),
        ("1979 TOP/s", "flop/s", 1979e12),
        ("8.2 GFLOP", "flop", 8.2e9),
        ("80 GB", "byte", 80e9),
        ("96 GiB", "byte", 96 * 2**30),
        ("81251 MiB", "byte", 81251 * 2**20),
        ("1,410 MHz", "Hz", 1.41e9),
        ("700 W", "W", 700),
        ("1.2 kJ", "J", 1200),
        ("2 kWh", "J", 7.2e6),
        ("24 ms", "s", 0.024),
        ("24ms", "s", 0.024),
        ("5 µs", "s", 5e-6),
        ("5 us", "s", 5e-6),
        ("2 min", "s", 120),
        ("1.5 h", "s", 5400),
        ("400 Gbit/s", "byte/s", 50e9),
        ("400 Gb/s", "byte/s", 50e9),
        ("1.5e3 GB/s", "byte/s", 1.5e12),
        ("0.9 GB", "byte", 0.9e9),
        (" .5 GB ", "byte", 0.5e9),
    ],
)
def test_what_vendors_print_is_read(text: str, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-12)
    assert parse(text) == parse(text, unit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "80",
        "GB",
        "eighty GB",
        "3,35 TB/s",
        "80 GB GB",
        "1..5 GB",
        "80 gb",
        "80 Gb",
        "5 mB",
        "1 XB/s",
        "nan GB",
    ],
)
def test_nonsense_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="like '"):
        parse(text)


def test_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"'80 GB' is in byte, where byte/s is needed, like '3\.35 TB/s'"):
        parse("80 GB", "byte/s")


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InputError, match="write a number and a unit"):
        parse(3.35, "byte/s")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (format_seconds(0), "0 ns"),
        (format_seconds(2.2e-5), "22 µs"),
        (format_seconds(0.0243), "24.3 ms"),
        (format_seconds(0.99996), "1 s"),
        (format_seconds(61.5), "61.5 s"),
        (format_seconds(5400), "1.5 h"),
        (format_seconds(1e7), "2,778 h"),
        (format_bytes(0), "0 B"),
        (format_bytes(2**30 - 1), "1 GiB"),
        (format_bytes(-3 * 2**29), "-1.5 GiB"),
        (format_bytes(80e9, decimal=True), "80 GB"),
        (format_flops(8.2e9), "8.2 GFLOP"),
        (format_rate(4.5e15, "flop"), "4.5 PFLOP/s"),
        (format_rate(3.352e12, "byte"), "3.352 TB/s"),
        (format_rate(12345.6, "samples"), "12,346 samples/s"),
        (format_rate(0.1234, "samples"), "0.1234 samples/s"),
        (format_hertz(1.41e9), "1,410 MHz"),
        (format_watts(700.0), "700 W"),
        (format_joules(1.2e3), "1.2 kJ"),
    ],
)
def test_people_read(written: str, text: str) -> None:
    assert written == text


@pytest.mark.parametrize(
    ("write", "unit"),
    [
        (format_seconds, "s"),
        (format_bytes, "byte"),
        (lambda v: format_bytes(v, decimal=True), "byte"),
        (format_flops, "flop"),
        (lambda v: format_rate(v, "flop"), "flop/s"),
        (lambda v: format_rate(v, "byte"), "byte/s"),
        (format_joules, "J"),
    ],
)
@given(value=st.floats(1e-6, 1e17))
def test_what_is_written_can_be_read_again(write: object, unit: str, value: float) -> None:
    assert callable(write)
    smallest = {"s": 1e-9, "J": 1.0}.get(unit, 1.0)
    assert math.isclose(parse(write(value), unit), value, rel_tol=6e-4, abs_tol=smallest)


@pytest.mark.parametrize("module", [units, names, sources])
def test_examples_run(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_every_unit_says_what_it_measures() -> None:
    kinds = {kind for kind, _, _ in units._UNITS.values()}
    assert kinds == set(units._EXAMPLES)
    for kind, examples in units._EXAMPLES.items():
        for example in examples.split(" or "):
            assert parse(example.strip("'"), kind) > 0
