"""What no accelerator may break when it convolves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime.kernels.convolution import convolution_flops, convolution_time_s

FACTS = {
    "peak_flops_per_s": 120e12, "vector_peak_flops_per_s": 15e12, "bandwidth_bytes_per_s": 900e9,
    "l2_bytes": 6e6, "num_units": 80,
}  # fmt: skip
# Fractions and ratios at their most favourable: what is left is the law, not the fit.
IDEAL = {
    "ramp_s": 0.0, "gemm_peak_fraction": 1.0, "small_tile_penalty": 0.0, "k_overhead": 0.0,
    "wave_quantisation": 0.0, "bandwidth_fraction": 1.0, "l2_usable_fraction": 1.0,
    "l2_bandwidth_ratio": 3.0, "alignment_bytes": 16.0, "layout_passes": 2.0, "grouped_ratio": 1.0,
    "grouped_channels_last_gradient_ratio": 1.0, "many_groups": 16.0, "weight_gradient_ratio": 1.0,
    "strided_gradient_ratio": 1.0, "k_split_least": 64.0, "winograd_fused_peak_fraction": 1.0,
    "winograd_channel_overhead": 0.0, "winograd_peak_fraction": 1.0, "winograd_weight_gradient_ratio": 1.0,
    "filter_bandwidth_fraction": 1.0, "direct_peak_fraction": 1.0, "depthwise_peak_fraction": 1.0,
    "depthwise_channels_last_peak_fraction": 1.0, "depthwise_weight_gradient_ratio": 1.0,
    "depthwise_channels_last_weight_gradient_ratio": 1.0,
}  # fmt: skip
USUAL = IDEAL | {
    "ramp_s": 4e-6, "gemm_peak_fraction": 0.9, "small_tile_penalty": 1.5, "k_overhead": 40.0,
    "wave_quantisation": 0.8, "bandwidth_fraction": 0.7, "l2_usable_fraction": 0.3, "grouped_ratio": 0.7,
    "strided_gradient_ratio": 0.5, "direct_peak_fraction": 0.1, "depthwise_peak_fraction": 0.07,
}  # fmt: skip
# F(4×4, 3×3) needs a quarter of the products; no other algorithm saves any.
WINOGRAD_SAVES = 4.0
DIRECTIONS = ("forward", "data_gradient", "weight_gradient")


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a convolution with "same" padding, dense, grouped or depthwise."""
    groups, kernel = draw(st.sampled_from([1, 1, 4, 32])), draw(st.sampled_from([1, 3, 5, 7]))
    inner, outer = draw(st.integers(1, 96)), draw(st.integers(1, 96))
    batch, size, stride = draw(st.integers(1, 64)), draw(st.integers(1, 112)), draw(st.sampled_from([1, 2]))
    out = -(-size // stride)
    channels = (inner * groups, outer * groups, groups)
    dims = (batch, *channels, size, size, out, out, kernel, kernel, stride, stride)
    cores = draw(st.booleans())
    return {
        "dims": dims, "direction": draw(st.sampled_from(DIRECTIONS)), "channels_last": draw(st.booleans()),
        "tensor_cores": cores, "element_bytes": 2 if cores else 4,
        "peak_flops_per_s": FACTS["peak_flops_per_s"] if cores else FACTS["vector_peak_flops_per_s"],
    }  # fmt: skip


def time_s(case: dict[str, Any], **changed: Any) -> Any:
    facts = {**FACTS, **{n: v for n, v in case.items() if n != "dims"}, **changed}
    return convolution_time_s(*case["dims"], **facts)


def flops(case: dict[str, Any]) -> float:
    b, ci, co, g, _, _, oh, ow, kh, kw, _, _ = case["dims"]
    return float(convolution_flops(b, ci, co, g, oh, ow, kh, kw))


@given(convolutions())
def test_never_faster_than_the_peak_but_for_winograd(case: dict[str, Any]) -> None:
    kernel, stride, groups = case["dims"][8], case["dims"][10], case["dims"][3]
    saves = WINOGRAD_SAVES if (kernel, stride, groups, case["tensor_cores"]) == (3, 1, 1, False) else 1.0
    peak = max(case["peak_flops_per_s"], FACTS["vector_peak_flops_per_s"])
    assert time_s(case, **IDEAL) >= flops(case) / (saves * peak) * (1 - 1e-9)


@given(convolutions())
def test_never_faster_than_memory_and_cache_deliver(case: dict[str, Any]) -> None:
    batch, _, c_out, _, _, _, height, width, *_ = case["dims"]
    written = case["element_bytes"] * batch * c_out * height * width
    assert time_s(case, **IDEAL) >= written / (FACTS["bandwidth_bytes_per_s"] * 3.0) * (1 - 1e-9)


@given(convolutions(), st.floats(1.01, 4))
def test_faster_hardware_is_never_slower(case: dict[str, Any], factor: float) -> None:
    before = time_s(case, **USUAL)
    for name in ("bandwidth_bytes_per_s", "l2_bytes", "peak_flops_per_s", "vector_peak_flops_per_s"):
        more = {name: ({**FACTS, **case})[name] * factor}
        assert time_s(case, **USUAL, **more) <= before * (1 + 1e-9), name


@given(convolutions())
def test_doubling_every_rate_halves_the_time(case: dict[str, Any]) -> None:
    rates = ("bandwidth_bytes_per_s", "peak_flops_per_s", "vector_peak_flops_per_s")
    twice = {n: 2 * ({**FACTS, **case})[n] for n in rates}
    values = USUAL | {"ramp_s": 0.0}
    assert time_s(case, **values, **twice) == pytest.approx(float(time_s(case, **values)) / 2, rel=1e-9)


@given(convolutions())
def test_contiguous_is_never_faster_on_tensor_cores_unless_grouped_or_depthwise(case: dict[str, Any]) -> None:
    if case["dims"][3] == 1 and case["tensor_cores"]:
        last, turned = (time_s({**case, "channels_last": c}, **USUAL) for c in (True, False))
        assert turned >= last * (1 - 1e-9)


@given(st.lists(convolutions(), min_size=1, max_size=5))
def test_a_table_of_rows_is_each_row_alone(cases: list[dict[str, Any]]) -> None:
    columns = [np.array(c)[:, None] for c in zip(*(c["dims"] for c in cases), strict=True)]
    names = [n for n in cases[0] if n != "dims"]
    table = {n: np.array([c[n] for c in cases])[:, None] for n in names}
    bandwidth = {"bandwidth_bytes_per_s": np.array([500e9, 900e9])}
    together = convolution_time_s(*columns, **{**FACTS, **table, **USUAL, **bandwidth})
    assert together.shape == (len(cases), 2)
    alone = [float(time_s(c, **USUAL)) for c in cases]
    assert together[:, 1] == pytest.approx(alone, rel=1e-12)
