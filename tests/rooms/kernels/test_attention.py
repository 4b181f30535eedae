"""Fused attention: its operations by hand, decoding at the memory's pace, rows that were measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steptime
from steptime.kernels.attention import attention_flops, attention_time_s

SHELF = Path(steptime.__file__).parent / "data" / "fitted" / "attention"
FACTS = {
    "A100-SXM4-80GB": (312e12, 2039e9, 40 * 2**20, 108),
    "H100-SXM5-80GB": (989.4e12, 3352e9, 50 * 2**20, 132),
    "B200-SXM-180GB": (2250e12, 7700e9, 126 * 2**20, 148), "L40S": (362e12, 864e9, 96 * 2**20, 142),
    "GB300-288GB": (2500e12, 8000e9, 129 * 2**20, 152),
}  # fmt: skip
# Kept out of every fit; drawn by a fixed seed: accelerator, b, h, g, s, d, microseconds.
SERVING = (
    ("A100-SXM4-80GB", 4, 96, 96, 2048, 128, 3643.563), ("A100-SXM4-80GB", 256, 96, 1, 256, 128, 8228.864),
    ("A100-SXM4-80GB", 16, 96, 2, 128, 128, 234.325), ("A100-SXM4-80GB", 2, 32, 2, 16384, 128, 27184.176),
    ("B200-SXM-180GB", 32, 8, 1, 256, 64, 35.227), ("B200-SXM-180GB", 16, 32, 1, 64, 128, 33.87),
    ("B200-SXM-180GB", 1, 32, 8, 6144, 128, 352.272), ("B200-SXM-180GB", 1, 40, 2, 64, 64, 14.624),
    ("H100-SXM5-80GB", 1, 48, 48, 8192, 256, 3432.555), ("H100-SXM5-80GB", 4, 8, 4, 8192, 256, 2123.557),
    ("H100-SXM5-80GB", 2, 6, 1, 2048, 128, 53.061), ("H100-SXM5-80GB", 64, 8, 1, 128, 512, 140.053),
    ("L40S", 1, 6, 2, 1536, 64, 36.864), ("L40S", 256, 20, 4, 64, 256, 1340.416),
    ("L40S", 64, 1, 1, 1024, 128, 171.909), ("L40S", 1, 32, 1, 10240, 64, 2710.683),
)  # fmt: skip
# The same from training libraries, backward: accelerator, c, b, h, g, s, d, dv, microseconds.
BACKWARD = (
    ("GB300-288GB", 1.0, 1, 32, 32, 37632, 128, 128, 38088.0),
    ("GB300-288GB", 1.0, 1, 40, 40, 75600, 128, 128, 214474.0),
    ("GB300-288GB", 1.0, 1, 64, 8, 2048, 128, 128, 294.0),
    ("GB300-288GB", 0.5, 2, 128, 128, 32768, 192, 128, 177494.0),
)  # fmt: skip


def fitted(accelerator: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (SHELF / f"{accelerator.lower()}.bf16.json").read_text(encoding="utf-8")
    )
    return content


def time_s(accelerator: str, *dims: Any, **changed: Any) -> Any:
    names = ("peak_flops_per_s", "bandwidth_bytes_per_s", "l2_bytes", "num_units")
    facts = dict(zip(names, FACTS[accelerator], strict=True))
    usual = {"causal_fraction": 1.0, "backward": False, "element_bytes": 2}
    return attention_time_s(*dims, **{**usual, **facts, **fitted(accelerator)["values"], **changed})


def test_operations_equal_a_count_by_hand() -> None:
    shape = (2, 3, 5, 7, 11, 13)  # b, h, sq, skv, d, dv
    scores = 2 * 3 * 5 * 7
    forward = attention_flops(*shape, causal_fraction=1, backward=False)
    backward = attention_flops(*shape, causal_fraction=1, backward=True)
    assert forward == scores * (2 * 11 + 2 * 13)  # QKᵀ, PV
    assert backward == scores * (3 * 2 * 11 + 2 * 2 * 13)  # QKᵀ again, dP, dV, dQ, dK


def test_backward_counts_two_and_a_half_forwards_when_widths_agree() -> None:
    shape = (4, 16, 2048, 2048, 128, 128)
    forward, backward = (attention_flops(*shape, causal_fraction=0.5, backward=b) for b in (False, True))
    assert backward / forward == 2.5


def test_decoding_reads_keys_and_values_once_at_the_memorys_pace() -> None:
    batch, groups, context, width = 64, 8, 8192, 128
    values = fitted("A100-SXM4-80GB")["values"]
    cache_bytes = 2 * batch * groups * context * 2 * width
    least_s = cache_bytes / (2039e9 * values["bandwidth_fraction"])
    found_s = float(time_s("A100-SXM4-80GB", batch, 32, groups, 1, context, width, width))
    assert found_s == pytest.approx(least_s, rel=0.05)


def test_one_sequence_decodes_on_all_units() -> None:
    """Keys are split over idle units: a long context of one sequence is read nearly as fast as of many."""
    one, many = (float(time_s("H100-SXM5-80GB", b, 32, 8, 1, 131072, 128, 128)) / b for b in (1, 32))
    assert one / many < 1.5


def test_a_serving_engine_also_fills_its_cache() -> None:
    dims = (8, 32, 8, 1024, 1024, 128, 128)
    values = fitted("H100-SXM5-80GB")["values"]
    alone, filling = (
        float(time_s("H100-SXM5-80GB", *dims, serving=s, training_ratio=1.0)) for s in (False, True)
    )
    assert filling - alone > values["floor_s"]


def test_a_window_costs_less_than_the_whole_triangle() -> None:
    dims = (1, 32, 8, 16384, 16384, 128, 128)
    window, triangle = (float(time_s("A100-SXM4-80GB", *dims, causal_fraction=c)) for c in (0.06, 0.5))
    assert window < triangle / 4


def test_operators_and_accelerators_broadcast() -> None:
    column = np.array([[1.0], [8.0], [64.0]])
    peaks = np.array([1e14, 3e14])
    found = time_s("A100-SXM4-80GB", column, 32, 8, 1024, 1024, 128, 128, peak_flops_per_s=peaks)
    assert found.shape == (3, 2)
    assert found[1, 1] == time_s("A100-SXM4-80GB", 8, 32, 8, 1024, 1024, 128, 128, peak_flops_per_s=3e14)


def test_measured_rows_of_serving_engines() -> None:
    """Nine rows in ten lie within the recorded p90; three in four of so small a sample must."""
    within = []
    for accelerator, b, h, g, s, d, measured_us in SERVING:
        fraction = 0.5 * (1 + 1 / s)
        found = float(time_s(accelerator, b, h, g, s, s, d, d, causal_fraction=fraction, serving=True))
        within.append(abs(found / (measured_us * 1e-6) - 1) <= fitted(accelerator)["error"]["p90"])
    assert np.mean(within) >= 0.75


@pytest.mark.parametrize("row", BACKWARD, ids=lambda r: f"{r[0]}-{r[5]}-{r[6]}")
def test_measured_rows_of_backward_passes(row: tuple[Any, ...]) -> None:
    accelerator, fraction, b, h, g, s, d, dv, measured_us = row
    found = time_s(accelerator, b, h, g, s, s, d, dv, causal_fraction=fraction, backward=True)
    assert abs(float(found) / (measured_us * 1e-6) - 1) <= 1.5 * fitted(accelerator)["error"]["p90"]
