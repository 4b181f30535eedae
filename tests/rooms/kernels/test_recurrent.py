"""Recurrent layers: bound by steps when small, by products when large; rows that were measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steptime
from steptime.kernels.recurrent import recurrent_time_s

FILE = Path(steptime.__file__).parent / "data" / "fitted" / "recurrent" / "p100-pcie-16gb.fp32.json"
P100 = {
    "peak_flops_per_s": 9.3e12, "bandwidth_bytes_per_s": 732e9, "l2_bytes": 4 * 2**20, "num_units": 56,
    "element_bytes": 4,
}  # fmt: skip


def fitted() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def time_s(*dims: Any, direction: Any = "forward", **changed: Any) -> Any:
    given: dict[str, Any] = {"direction": direction, **P100, **fitted()["values"], **changed}
    return recurrent_time_s(*dims, **given)


def test_a_small_state_waits_for_its_steps() -> None:
    waiting_s = 200 * fitted()["values"]["step_latency_s"]
    assert 1.0 < float(time_s(1, 1, 200, 8, 64, 64, 4)) / waiting_s < 1.6


def test_twice_the_steps_take_twice_the_time() -> None:
    short, long = (float(time_s(1, 1, steps, 64, 1024, 1024, 4)) for steps in (100, 200))
    assert long / short == pytest.approx(2, rel=0.02)


def test_every_layer_above_the_first_costs_the_same() -> None:
    one, two, three = (float(time_s(layers, 2, 50, 32, 64, 512, 3)) for layers in (1, 2, 3))
    assert three - two == pytest.approx(two - one, rel=1e-9)
    assert two - one > one  # it reads what both directions wrote, the first one 64 features


def test_backward_is_the_sum_of_its_two_gradients() -> None:
    dims = (2, 1, 50, 64, 512, 1024, 4)
    data, weight, both = (
        float(time_s(*dims, direction=d)) for d in ("data_gradient", "weight_gradient", "backward")
    )
    assert both == pytest.approx(data + weight)


def test_an_input_that_is_added_as_it_is_costs_no_product() -> None:
    assert time_s(1, 1, 50, 64, 0, 1024, 4) < time_s(1, 1, 50, 64, 1024, 1024, 4)


def test_rows_and_accelerators_broadcast() -> None:
    hidden = np.array([[256], [1024], [2048]])
    direction = np.array([["forward"], ["backward"], ["forward"]])
    faster = P100["peak_flops_per_s"] * np.array([1.0, 2.0])
    times = time_s(1, 1, 25, 64, hidden, hidden, 4, direction=direction, peak_flops_per_s=faster)
    assert times.shape == (3, 2)
    assert (times[:, 1] <= times[:, 0]).all()


def test_never_faster_than_the_products_at_peak() -> None:
    operations = 2 * 25 * 128 * 4 * 2048 * 2 * 2048
    assert time_s(1, 1, 25, 128, 2048, 2048, 4) > operations / P100["peak_flops_per_s"]


# Drawn at random from held-out rows. Source: DeepBench (Apache-2.0), P100. Steps, batch, hidden, gates, us.
MEASURED = [
    (50, 32, 1536, 4, "weight_gradient", 4005.0),
    (1500, 32, 2560, 3, "weight_gradient", 215265.0),
    (1500, 32, 2560, 3, "forward", 623037.0),
    (25, 16, 512, 4, "weight_gradient", 213.0),
    (25, 64, 1024, 4, "weight_gradient", 1815.0),
    (50, 64, 2048, 1, "weight_gradient", 3365.0),
    (375, 32, 2560, 3, "forward", 158811.0),
    (50, 16, 1760, 1, "weight_gradient", 817.0),
    (50, 128, 2560, 1, "forward", 14415.0),
    (50, 32, 1760, 1, "forward", 14019.0),
    (50, 32, 1536, 4, "forward", 13527.0),
    (750, 32, 2048, 3, "weight_gradient", 68942.0),
]


def test_nine_in_ten_measured_rows_lie_within_the_recorded_error() -> None:
    errors = [
        float(time_s(1, 1, steps, batch, 0, hidden, gates, direction=direction)) / (us * 1e-6) - 1
        for steps, batch, hidden, gates, direction, us in MEASURED
    ]
    assert np.mean(np.abs(errors) <= fitted()["error"]["p90"]) >= 0.9
