"""What no accelerator may break when it multiplies matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime.kernels.gemm import gemm_flops, gemm_time_s
from steptime.kernels.gemm_clock import burst_clock_ratio, sustained_clock_ratio
from steptime.kernels.roofline import roofline_time_s

FACTS = {
    "peak_flops_per_s": 312e12, "bandwidth_bytes_per_s": 2e12, "l2_bytes": 40e6, "num_units": 108, "clock_hz": 1.4e9,
}  # fmt: skip
USUAL = {
    "compute_efficiency_ratio": 0.9, "tile_overhead": 2.0, "narrowest_tile": 1.0, "unit_load_bytes_per_s": 6e10,
    "store_scale": 11e3, "latency_per_k_s": 3.8e-9, "prologue_k": 40.0, "tail_fraction": 0.7,
    "launch_cycles": 4000.0, "wave_cycles": 500.0, "split_s": 2e-6, "load_efficiency_ratio": 0.8,
    "store_efficiency_ratio": 0.7, "l2_usable_fraction": 0.7, "misaligned_ratio": 0.7,
    "far_pitch_bytes": 1e5, "far_pitch_slowdown_ratio": 0.2,
}  # fmt: skip
# Everything at its most favourable: what is left is the law, not the fit.
IDEAL = USUAL | {
    "compute_efficiency_ratio": 1.0, "tile_overhead": 0.0, "unit_load_bytes_per_s": 1e18, "store_scale": 1e18,
    "latency_per_k_s": 0.0, "prologue_k": 0.0, "tail_fraction": 0.0, "launch_cycles": 0.0, "wave_cycles": 0.0,
    "split_s": 0.0, "load_efficiency_ratio": 1.0, "store_efficiency_ratio": 1.0, "misaligned_ratio": 1.0,
    "far_pitch_slowdown_ratio": 0.0,
}  # fmt: skip

sizes = st.one_of(st.integers(1, 300), st.integers(1, 20_000))
products = st.tuples(st.integers(1, 96), sizes, sizes, sizes)
Dims = tuple[int, int, int, int]


def time_s(dims: Any, values: dict[str, float] = USUAL, **changed: Any) -> Any:
    given: dict[str, Any] = {"element_bytes": 2, "output_bytes": 2, **FACTS, **values, **changed}
    return gemm_time_s(*dims, **given)


@given(products)
def test_never_faster_than_the_roofline(dims: Dims) -> None:
    """Where no cache helps; with one, never faster than the peak."""
    b, m, n, k = dims
    bound = {x: FACTS[x] for x in ("peak_flops_per_s", "bandwidth_bytes_per_s")}
    flops, traffic = gemm_flops(*dims), 2.0 * b * (m * k + k * n + m * n)
    assert time_s(dims, IDEAL, l2_bytes=1.0) >= roofline_time_s(flops, traffic, **bound) * (1 - 1e-9)
    assert time_s(dims, IDEAL) >= flops / FACTS["peak_flops_per_s"] * (1 - 1e-9)


@given(products)
def test_the_usual_is_never_faster_than_the_ideal(dims: Dims) -> None:
    assert time_s(dims) >= time_s(dims, IDEAL)


@given(products, st.floats(1.01, 4))
def test_faster_hardware_is_never_slower(dims: Dims, factor: float) -> None:
    before = time_s(dims)
    for name in ("bandwidth_bytes_per_s", "l2_bytes", "peak_flops_per_s", "clock_hz"):
        faster: dict[str, Any] = {name: FACTS[name] * factor}
        assert time_s(dims, **faster) <= before * (1 + 1e-9), name


@given(products)
def test_doubling_all_rates_halves_the_time(dims: Dims) -> None:
    """What is fitted in seconds halves as well; the store rate follows the root of the peak."""
    rates: dict[str, Any] = {
        n: 2 * FACTS[n] for n in ("peak_flops_per_s", "bandwidth_bytes_per_s", "clock_hz")
    }
    fits: dict[str, Any] = {
        "unit_load_bytes_per_s": 2 * USUAL["unit_load_bytes_per_s"],
        "store_scale": 2**0.5 * USUAL["store_scale"],
        "latency_per_k_s": USUAL["latency_per_k_s"] / 2,
        "split_s": USUAL["split_s"] / 2,
    }
    assert time_s(dims, **rates, **fits) == pytest.approx(time_s(dims) / 2, rel=1e-9)


@given(products, st.integers(1, 96))
def test_more_products_are_never_faster(dims: Dims, more: int) -> None:
    b, *shape = dims
    assert time_s((b + more, *shape)) >= time_s(dims) * (1 - 1e-9)


@given(products, st.sampled_from([1, 2, 6, np.inf]))
def test_operands_used_again_are_never_slower(dims: Dims, copies: float) -> None:
    assert time_s(dims, num_operand_copies=copies) <= time_s(dims) * (1 + 1e-9)


@given(products, st.floats(0.2, 1))
def test_a_lower_clock_is_never_faster(dims: Dims, ratio: float) -> None:
    assert time_s(dims) * (1 - 1e-9) <= time_s(dims, clock_ratio=ratio) <= time_s(dims) / ratio * (1 + 1e-9)


@given(st.lists(products, min_size=1, max_size=6))
def test_rows_do_not_know_each_other(rows: list[Dims]) -> None:
    together = time_s(np.array(rows, dtype=float).T[..., None], num_units=np.array([20, 108, 304]))
    alone = [[time_s(row, num_units=u) for u in (20, 108, 304)] for row in rows]
    assert together == pytest.approx(np.array(alone, dtype=float), rel=1e-12)


@given(st.floats(1e12, 1e16), st.floats(30, 2000), st.floats(1e-13, 1e-10), st.floats(0.01, 100))
def test_a_clock_ratio_is_a_ratio(peak: float, limit: float, energy: float, duration: float) -> None:
    low = float(sustained_clock_ratio(peak, power_limit_w=limit, flop_energy_j=energy))
    assert 0 < low <= 1
    assert low <= float(burst_clock_ratio(duration, sustained_ratio=low, settle_s=0.005)) <= 1 + 1e-12
    assert float(sustained_clock_ratio(peak, power_limit_w=2 * limit, flop_energy_j=energy)) >= low
