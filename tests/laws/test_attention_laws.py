"""What no accelerator may break when it attends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime.kernels.attention import attention_flops, attention_time_s

PEAK, BANDWIDTH = 300e12, 2e12
FACTS = {
    "peak_flops_per_s": PEAK, "bandwidth_bytes_per_s": BANDWIDTH, "l2_bytes": 40e6, "num_units": 108,
    "element_bytes": 2,
}  # fmt: skip
# Fractions and ratios at their most favourable: what is left is the law, not the fit.
IDEAL = {
    "peak_fraction": 1.0, "width_64_ratio": 1.0, "width_256_ratio": 1.0, "width_512_ratio": 1.0,
    "width_step": 1.0, "block_rows": 128.0, "small_block_rows": 1.0, "block_start_s": 0.0,
    "block_start_exponent": 0.0, "block_move_s": 0.0, "tail_fraction": 0.0,
    "bandwidth_fraction": 1.0, "l2_bandwidth_ratio": 3.0,
    "l2_usable_fraction": 0.6, "floor_s": 0.0, "packed_width": 0.0, "training_ratio": 2.0,
    "backward_ratio": 2.0,
}  # fmt: skip
USUAL = IDEAL | {
    "peak_fraction": 0.6, "width_64_ratio": 0.7, "width_512_ratio": 0.6, "width_step": 64.0,
    "small_block_rows": 16.0, "block_start_s": 2e-6, "block_start_exponent": 0.4, "block_move_s": 1e-6,
    "tail_fraction": 0.5, "bandwidth_fraction": 0.8, "floor_s": 5e-6, "packed_width": 128.0,
    "training_ratio": 1.2, "backward_ratio": 0.9,
}  # fmt: skip


@st.composite
def attentions(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a prompt or a decoding step, forward or (of a prompt) backward, grouped or not."""
    groups, per_group = draw(st.integers(1, 16)), draw(st.sampled_from([1, 2, 4, 8]))
    queries = draw(st.integers(1, 5000))
    more = draw(st.sampled_from([0, 0, 0, 7, 4096]))
    d, dv = draw(
        st.sampled_from([(32, 32), (64, 64), (80, 80), (128, 128), (192, 128), (256, 256), (512, 512)])
    )
    return {
        "dims": (draw(st.integers(1, 64)), groups * per_group, groups, queries, queries + more, d, dv),
        "causal_fraction": draw(st.floats(0.01, 1.0)), "backward": more == 0 and draw(st.booleans()),
        "serving": draw(st.booleans()),
    }  # fmt: skip


def time_s(case: dict[str, Any], values: dict[str, float] = USUAL, **changed: Any) -> Any:
    facts = {**FACTS, **values, **{n: v for n, v in case.items() if n != "dims"}, **changed}
    return attention_time_s(*case["dims"], **facts)


@given(case=attentions())
def test_never_faster_than_the_peak(case: dict[str, Any]) -> None:
    b, h, _, sq, skv, d, dv = case["dims"]
    how = {n: case[n] for n in ("causal_fraction", "backward")}
    work = float(attention_flops(b, h, sq, skv, d, dv, **how))
    assert float(time_s(case, IDEAL)) >= work / PEAK * (1 - 1e-9)


@given(case=attentions())
def test_never_faster_than_memory_when_nothing_is_cached(case: dict[str, Any]) -> None:
    b, h, g, sq, skv, d, dv = case["dims"]
    least_bytes = 2 * b * (h * sq + g * skv) * (d + dv)
    assert float(time_s(case, IDEAL, l2_bytes=0.0)) >= least_bytes / BANDWIDTH * (1 - 1e-9)


@given(case=attentions())
def test_more_sequences_are_never_faster(case: dict[str, Any]) -> None:
    b, h, g, sq, _, *widths = case["dims"]
    alike = {**case, "dims": (b, h, g, sq, sq, *widths)}
    assert time_s({**alike, "dims": (2 * b, h, g, sq, sq, *widths)}) >= time_s(alike) * (1 - 1e-9)


@given(case=attentions())
def test_more_heads_are_never_faster(case: dict[str, Any]) -> None:
    b, h, g, sq, _, *widths = case["dims"]
    alike = {**case, "dims": (b, h, g, sq, sq, *widths)}
    assert time_s({**alike, "dims": (b, 2 * h, 2 * g, sq, sq, *widths)}) >= time_s(alike) * (1 - 1e-9)
    assert time_s({**alike, "dims": (b, 2 * h, g, sq, sq, *widths)}) >= time_s(alike) * (1 - 1e-9)


@given(case=attentions())
def test_a_longer_context_is_never_faster(case: dict[str, Any]) -> None:
    b, h, g, sq, skv, *widths = case["dims"]
    longer = {**case, "dims": (b, h, g, sq, 2 * skv, *widths), "backward": False, "causal_fraction": 1.0}
    first = {**longer, "dims": (b, h, g, sq, max(skv, sq + 1), *widths)}
    assert time_s(longer) >= time_s(first) * (1 - 1e-9) or longer["dims"][4] < first["dims"][4]


@given(case=attentions())
def test_a_part_of_the_scores_never_costs_more_than_all(case: dict[str, Any]) -> None:
    assert time_s(case) <= time_s(case, causal_fraction=1.0) * (1 + 1e-9)


@given(case=attentions())
def test_grouped_keys_never_cost_more(case: dict[str, Any]) -> None:
    b, h, g, sq, _, *widths = case["dims"]
    grouped, own = ({**case, "dims": (b, h, x, sq, sq, *widths), "backward": False} for x in (g, h))
    assert time_s(grouped) <= time_s(own) * (1 + 1e-9)


@given(case=attentions(), factor=st.floats(1.1, 8.0))
def test_faster_parts_are_never_slower(case: dict[str, Any], factor: float) -> None:
    for part in ("peak_flops_per_s", "bandwidth_bytes_per_s", "l2_bytes"):
        assert time_s(case, **{part: factor * FACTS[part]}) <= time_s(case) * (1 + 1e-9)


@given(case=attentions())
def test_all_rates_doubled_halve_the_time(case: dict[str, Any]) -> None:
    twice = time_s(case, IDEAL, peak_flops_per_s=2 * PEAK, bandwidth_bytes_per_s=2 * BANDWIDTH)
    assert float(twice) == pytest.approx(float(time_s(case, IDEAL)) / 2)


@given(case=attentions())
def test_rows_and_accelerators_broadcast(case: dict[str, Any]) -> None:
    rows = {**case, "dims": tuple(np.array([[x], [x]]) for x in case["dims"])}
    found = time_s(rows, peak_flops_per_s=np.array([PEAK, 2 * PEAK, 3 * PEAK]))
    assert found.shape == (2, 3)
    assert found[1, 1] == pytest.approx(float(time_s(case, peak_flops_per_s=2 * PEAK)))
