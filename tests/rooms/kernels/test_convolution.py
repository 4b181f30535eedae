"""Convolutions: operations by hand, every algorithm where it belongs, and rows that were measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steptime
from steptime.kernels.convolution import convolution_flops, convolution_time_s

SHELF = Path(steptime.__file__).parent / "data" / "fitted" / "convolution"


def fitted(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((SHELF / f"{name}.json").read_text(encoding="utf-8"))
    return content


def card(peak: float, vector: float, bandwidth: float, units: float, l2: float) -> dict[str, float]:
    return {
        "peak_flops_per_s": peak, "vector_peak_flops_per_s": vector, "bandwidth_bytes_per_s": bandwidth,
        "num_units": units, "l2_bytes": l2,
    }  # fmt: skip


CARDS = {
    "a100-pcie-80gb.fp32": card(19.5e12, 19.5e12, 1935e9, 108, 40 * 2**20),
    "p100-pcie-16gb.fp32": card(9.3e12, 9.3e12, 732e9, 56, 4 * 2**20),
    "p4.fp32": card(5.5e12, 5.5e12, 192e9, 20, 2 * 2**20),
    "v100-pcie-32gb.fp32": card(14e12, 14e12, 900e9, 80, 6 * 2**20),
    "mi100.fp16": card(184.6e12, 23.1e12, 1229e9, 120, 8 * 2**20),
    "mi210.fp16": card(181e12, 22.6e12, 1638e9, 104, 8 * 2**20),
    "mi300x.fp16": card(1307.4e12, 163.4e12, 5300e9, 304, 32 * 2**20),
    "rtx-3090.fp16": card(71e12, 35.6e12, 936e9, 82, 6 * 2**20),
    "a100-sxm4-80gb.fp16": card(312e12, 19.5e12, 2039e9, 108, 40 * 2**20),
}


def time_s(
    name: str, *dims: Any, direction: Any = "forward", channels_last: Any = False, **changed: Any
) -> Any:
    half = not name.endswith("fp32")
    given: dict[str, Any] = {
        "element_bytes": 2 if half else 4, "tensor_cores": half, "direction": direction,
        "channels_last": channels_last, **CARDS[name], **fitted(name)["values"], **changed,
    }  # fmt: skip
    return convolution_time_s(*dims, **given)


RESNET_FIRST = (256, 3, 64, 1, 224, 224, 112, 112, 7, 7, 2, 2)
RESNET_3X3 = (256, 64, 64, 1, 56, 56, 56, 56, 3, 3, 1, 1)


def test_operations_of_the_first_layer_of_a_resnet() -> None:
    assert float(convolution_flops(5, 3, 64, 1, 112, 112, 7, 7)) == 2 * 5 * 64 * 112 * 112 * 3 * 49


def test_operations_of_a_depthwise_layer() -> None:
    assert float(convolution_flops(1, 96, 96, 96, 14, 14, 3, 3)) == 2 * 96 * 14 * 14 * 9


def test_operators_and_accelerators_broadcast() -> None:
    batch = np.array([[1], [8], [64]])
    names = ("v100-pcie-32gb.fp32", "p4.fp32")
    facts = {n: np.array([CARDS[c][n] for c in names]) for n in CARDS[names[0]]}
    values = {n: np.array([fitted(c)["values"][n] for c in names]) for n in fitted(names[0])["values"]}
    direction = np.array([["forward"], ["data_gradient"], ["weight_gradient"]])
    together = time_s(names[0], batch, *RESNET_3X3[1:], direction=direction, **facts, **values)
    assert together.shape == (3, 2)
    alone = time_s(names[1], 64, *RESNET_3X3[1:], direction="weight_gradient")
    assert together[2, 1] == pytest.approx(float(alone), rel=1e-12)


def test_winograd_beats_the_plain_product_in_fp32() -> None:
    without = {"winograd_peak_fraction": 0, "winograd_fused_peak_fraction": 0}
    plain = time_s("v100-pcie-32gb.fp32", *RESNET_3X3, **without)
    assert 1.3 < plain / time_s("v100-pcie-32gb.fp32", *RESNET_3X3) < 4


@pytest.mark.parametrize("change", [{8: 5, 9: 5}, {6: 28, 7: 28, 10: 2, 11: 2}, {3: 4}])
def test_winograd_is_for_three_by_three_with_stride_one_and_one_group(change: dict[int, int]) -> None:
    dims = [change.get(i, d) for i, d in enumerate(RESNET_3X3)]
    without = {"winograd_peak_fraction": 0, "winograd_fused_peak_fraction": 0}
    assert time_s("v100-pcie-32gb.fp32", *dims) == time_s("v100-pcie-32gb.fp32", *dims, **without)


def test_contiguous_images_are_turned_around_tensor_cores() -> None:
    turned, last = (time_s("rtx-3090.fp16", *RESNET_3X3, channels_last=c) for c in (False, True))
    images_s = 2 * 2 * 256 * 64 * 56 * 56 / 936e9
    assert images_s < turned - last < 3 * images_s


def test_three_channels_cost_like_eight_on_tensor_cores() -> None:
    compute = {"bandwidth_bytes_per_s": 1e15, "direct_peak_fraction": 0, "channels_last": True}
    eight = (*RESNET_FIRST[:1], 8, *RESNET_FIRST[2:])
    three_s = time_s("rtx-3090.fp16", *RESNET_FIRST, **compute)
    assert three_s == pytest.approx(time_s("rtx-3090.fp16", *eight, **compute), rel=0.01)


def test_the_data_gradient_of_a_strided_convolution_is_slower_than_its_forward_product() -> None:
    strided = (64, 256, 256, 1, 28, 28, 14, 14, 3, 3, 2, 2)
    forward, data = (
        time_s("rtx-3090.fp16", *strided, direction=d, channels_last=True)
        for d in ("forward", "data_gradient")
    )
    assert 1.2 < data / forward < 4


@pytest.mark.parametrize(
    ("direction", "most"), [("forward", 3), ("data_gradient", 3), ("weight_gradient", 8)]
)
def test_a_depthwise_convolution_is_near_the_memory_limit(direction: str, most: float) -> None:
    depthwise = (256, 96, 96, 96, 56, 56, 56, 56, 3, 3, 1, 1)
    least_s = 2 * 2 * 256 * 96 * 56 * 56 / 936e9
    assert least_s < time_s("rtx-3090.fp16", *depthwise, direction=direction) < most * least_s


def test_gradients_of_few_groups_are_slow_where_channels_are_last() -> None:
    def gradient_s(groups: int, channels_last: bool) -> float:
        dims = (128, 64 * groups, 64 * groups, groups, 14, 14, 14, 14, 3, 3, 1, 1)
        return float(time_s("rtx-3090.fp16", *dims, direction="data_gradient", channels_last=channels_last))

    assert gradient_s(4, True) > 3 * gradient_s(4, False)
    assert gradient_s(32, True) < gradient_s(32, False)


def test_a_weight_gradient_with_few_outputs_is_split_over_all_units() -> None:
    dims = (256, 64, 64, 1, 56, 56, 56, 56, 1, 1, 1, 1)
    whole_s = time_s("a100-sxm4-80gb.fp16", *dims, direction="weight_gradient", k_split_least=1e12,
                     direct_peak_fraction=0)  # fmt: skip
    assert time_s("a100-sxm4-80gb.fp16", *dims, direction="weight_gradient") < whole_s / 5


# Drawn at random from rows that no fit saw and that take long enough for the host's share not to matter.
# Source: NeuSight's and MIOpen's tables (both MIT). Set, dimensions, direction, channels last, measured us.
MEASURED: list[tuple[str, tuple[int, ...], str, bool, float]] = [
    ("a100-pcie-80gb.fp32", (63, 6, 333, 1, 160, 160, 160, 160, 3, 3, 1, 1), "forward", False, 5727.3),
    ("a100-pcie-80gb.fp32", (36, 691, 23, 1, 56, 56, 56, 56, 3, 3, 1, 1), "forward", False, 4514.4),
    ("a100-pcie-80gb.fp32", (54, 10, 1578, 1, 59, 59, 59, 59, 3, 3, 1, 1), "forward", False, 4490.7),
    ("p100-pcie-16gb.fp32", (54, 88, 1014, 1, 23, 23, 23, 23, 3, 3, 1, 1), "forward", False, 3783.5),
    ("p100-pcie-16gb.fp32", (45, 226, 161, 1, 33, 33, 33, 33, 3, 3, 1, 1), "forward", False, 2389.4),
    ("p100-pcie-16gb.fp32", (49, 743, 864, 1, 5, 5, 5, 5, 3, 3, 1, 1), "forward", False, 2109.8),
    ("p4.fp32", (21, 303, 40, 1, 62, 62, 62, 62, 3, 3, 1, 1), "forward", False, 3428.4),
    ("p4.fp32", (17, 36, 1353, 1, 28, 28, 28, 28, 3, 3, 1, 1), "forward", False, 2849.7),
    ("p4.fp32", (16, 79, 443, 1, 33, 33, 33, 33, 3, 3, 1, 1), "forward", False, 2658.2),
    ("v100-pcie-32gb.fp32", (58, 170, 360, 1, 30, 30, 30, 30, 3, 3, 1, 1), "forward", False, 2281.5),
    ("v100-pcie-32gb.fp32", (43, 1556, 917, 1, 6, 6, 6, 6, 3, 3, 1, 1), "forward", False, 3551.5),
    ("v100-pcie-32gb.fp32", (42, 442, 11, 1, 71, 71, 71, 71, 3, 3, 1, 1), "forward", False, 2435.5),
    ("mi100.fp16", (512, 128, 128, 1, 28, 28, 28, 28, 3, 3, 1, 1), "forward", True, 1207.2),
    ("mi100.fp16", (1024, 1728, 192, 1, 7, 7, 7, 7, 1, 1, 1, 1), "forward", False, 376.0),
    ("mi100.fp16", (256, 256, 256, 1, 28, 28, 28, 28, 3, 3, 1, 1), "forward", False, 2080.2),
    ("mi210.fp16", (27, 768, 768, 1, 1, 896, 1, 896, 1, 3, 1, 1), "weight_gradient", False, 767.8),
    ("mi210.fp16", (179, 768, 768, 1, 1, 278, 1, 139, 1, 3, 1, 2), "weight_gradient", False, 820.8),
    ("mi300x.fp16", (256, 1600, 128, 1, 14, 14, 14, 14, 1, 1, 1, 1), "weight_gradient", False, 344.3),
    ("mi300x.fp16", (32, 640, 1280, 1, 16, 16, 16, 16, 3, 3, 1, 1), "data_gradient", False, 417.3),
    ("mi300x.fp16", (128, 64, 64, 64, 56, 56, 56, 56, 3, 3, 1, 1), "weight_gradient", False, 4263.8),
]


def test_nine_in_ten_measured_rows_lie_within_the_recorded_error() -> None:
    within = []
    for name, dims, direction, channels_last, measured_us in MEASURED:
        predicted_s = time_s(name, *dims, direction=direction, channels_last=channels_last)
        error = abs(float(predicted_s) / (measured_us * 1e-6) - 1)
        within.append(error <= fitted(name)["error"]["p90"])
    assert np.mean(within) >= 0.9
