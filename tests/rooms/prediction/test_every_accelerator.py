"""Every accelerator of the catalogue gets a prediction that is physics, whatever its record leaves out."""

from __future__ import annotations

import math

import pytest

import steptime
from steptime.prediction.units_of import units_of

# SRAM of a graph processor stands as its memory: nothing that was fitted moves data like that.
STRANGE = {"Graphcore"}


def in_half() -> list[steptime.Accelerator]:
    return [a for a in steptime.load_catalogue().accelerators if a.peak_flops_per_s]


@pytest.mark.parametrize(
    ("model", "options", "most"),
    [
        ("resnet50", {"batch": 32}, 10),
        ("llama-3-8b", {"batch": 1, "seq_len": 512}, 4),
        ("lstm_lm", {"batch": 32}, 10),
        ("dlrm", {"batch": 1024}, 10),
    ],
)
@pytest.mark.parametrize("precision", ["amp-bf16", "fp32"])
def test_a_step_lies_near_its_roofline_everywhere(
    model: str, options: dict[str, int], most: float, precision: str
) -> None:
    names = [a.name for a in in_half() if precision == "amp-bf16" or "fp32" in a.peak_flops_per_s]
    assert len(names) > 140
    strange = {}
    for p in steptime.predict(model, on=names, precision=precision, **options):
        ratio = p.device_s / p.roofline_s
        if p.accelerator.vendor not in STRANGE and not 0.4 < ratio < most:
            strange[p.accelerator.name] = ratio
        assert math.isfinite(p.step_time_s)
        assert p.step_time_s > 0
    assert strange == {}


def test_what_a_record_does_not_say_is_told() -> None:
    h20 = steptime.predict("resnet50", on="h20", precision="amp-bf16")
    assert [n for n in h20.fallbacks if "clock of H20-96GB" in n]
    assert h20.accelerator.boost_clock_hz is None
    assert not [n for n in steptime.predict("resnet50", on="a100").fallbacks if "the clock" in n]


def test_large_cores_count_as_the_multiprocessors_that_have_their_rate() -> None:
    """Two NeuronCores are no two multiprocessors: 92 TFLOP/s in bf16 are about a third of an A100's 108."""
    found = units_of(steptime.load_catalogue().find("trainium1").accelerator)
    assert 10 < found.num_units < 120
    assert "number of multiprocessors and the clock" in found.note


def test_an_accelerator_without_a_peak_says_what_is_missing() -> None:
    with pytest.raises(steptime.StepTimeError, match="No peak rate of Gaudi-HL-205"):
        steptime.predict("resnet50", on="Gaudi-HL-205")
