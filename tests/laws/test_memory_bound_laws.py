"""What no accelerator may break when it moves memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime.kernels.memory_bound import kernel_time_s
from steptime.kernels.row_blocks import KERNEL_SHAPES

FACTS = {
    "bandwidth_bytes_per_s": 1e12,
    "l1_bytes": 1e5,
    "l2_bytes": 2e7,
    "num_units": 100.0,
    "clock_hz": 1.5e9,
}
RATIO = 3.0
SHARED = {
    "bandwidth_fraction": 0.9, "floor_s": 2e-6, "l2_usable_fraction": 0.5, "l2_bandwidth_ratio": RATIO,
    "overlap_exponent": 3.0, "unit_threads": 2048.0, "l1_row_fraction": 1.0, "l2_row_fraction": 0.5,
    "miss_sharpness": 6.0, "lone_block_fraction": 0.6,
}  # fmt: skip
CYCLES = {
    f"{c}_{n}": v
    for c in KERNEL_SHAPES
    for n, v in (("element_cycles", 0.3), ("block_cycles", 3000.0), ("round_cycles", 2000.0))
}


@st.composite
def kernels(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a kernel of any class, with its bytes."""
    rows, columns = draw(st.integers(1, 10 ** draw(st.integers(1, 6)))), draw(st.integers(1, 10**5))
    size = draw(st.sampled_from([2, 4]))
    return {
        "kernel_class": draw(st.sampled_from(sorted(KERNEL_SHAPES))), "rows": rows, "columns": columns,
        "element_bytes": size, "bytes_read": draw(st.integers(1, 3)) * rows * columns * size,
        "bytes_written": rows * columns * size, "cached_fraction": draw(st.floats(0, 1)),
    }  # fmt: skip


def time_s(case: dict[str, Any], *, floor_s: float = SHARED["floor_s"], **changed: Any) -> float:
    facts = {**FACTS, **case, **changed}
    read, written = facts.pop("bytes_read"), facts.pop("bytes_written")
    return float(kernel_time_s(read, written, fitted={**SHARED, **CYCLES, "floor_s": floor_s}, **facts))


@given(kernels())
def test_never_faster_than_the_cache_could_deliver(case: dict[str, Any]) -> None:
    moved = case["bytes_read"] + case["bytes_written"]
    assert time_s(case, floor_s=0.0) >= moved / (RATIO * FACTS["bandwidth_bytes_per_s"]) * (1 - 1e-12)


@given(kernels())
def test_nothing_cached_is_never_faster_than_the_roofline(case: dict[str, Any]) -> None:
    moved = case["bytes_read"] + case["bytes_written"]
    assert time_s(case, floor_s=0.0, cached_fraction=0.0) >= moved / FACTS["bandwidth_bytes_per_s"]


@given(kernels(), st.sampled_from(sorted(FACTS)), st.floats(1.01, 20))
def test_more_of_any_fact_is_never_slower(case: dict[str, Any], fact: str, factor: float) -> None:
    """More units alone share one cache among more rows, so the cache grows with them."""
    changed = {fact: FACTS[fact] * factor}
    if fact == "num_units":
        changed["l2_bytes"] = FACTS["l2_bytes"] * factor
    assert time_s(case, **changed) <= time_s(case) * (1 + 1e-12)


@given(kernels())
def test_twice_the_rates_is_half_the_time_beyond_the_floor(case: dict[str, Any]) -> None:
    floor = KERNEL_SHAPES[case["kernel_class"]].num_kernels * SHARED["floor_s"]
    twice = {n: 2 * FACTS[n] for n in ("bandwidth_bytes_per_s", "clock_hz")}
    once = time_s(case) - floor
    assert 2 * (time_s(case, **twice) - floor) == pytest.approx(once, rel=1e-6, abs=1e-15)


@given(kernels())
def test_two_halves_take_at_least_the_whole_and_at_most_twice(case: dict[str, Any]) -> None:
    case = {**case, "cached_fraction": 0.0}
    double = {**case, **{n: 2 * case[n] for n in ("rows", "bytes_read", "bytes_written")}}
    assert time_s(case) <= time_s(double) * (1 + 1e-12)
    assert time_s(double) <= 2 * time_s(case) * (1 + 1e-12)


@given(kernels(), st.floats(0, 1))
def test_what_lies_in_the_cache_never_costs_time(case: dict[str, Any], share: float) -> None:
    assert time_s(case, cached_fraction=share) <= time_s(case, cached_fraction=0.0) * (1 + 1e-12)


@given(st.lists(kernels(), min_size=2, max_size=6))
def test_rows_do_not_know_each_other(cases: list[dict[str, Any]]) -> None:
    kernel = cases[0]["kernel_class"]
    names = ("rows", "columns", "element_bytes", "bytes_read", "bytes_written", "cached_fraction")
    columns = {n: np.array([[c[n]] for c in cases], dtype=float) for n in names}
    read, written = columns.pop("bytes_read"), columns.pop("bytes_written")
    together = kernel_time_s(
        read, written, kernel_class=kernel, fitted={**SHARED, **CYCLES}, **columns, **FACTS
    )
    alone = [time_s({**c, "kernel_class": kernel}) for c in cases]
    assert together[:, 0] == pytest.approx(alone, rel=1e-12)
