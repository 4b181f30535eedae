"""What ``import steptime`` gives: every promised name, loaded when used, and a prediction in one call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import steptime


def test_every_promised_name_is_there_and_told_of() -> None:
    for name in steptime.__all__:
        assert getattr(steptime, name).__doc__
        assert name in dir(steptime)
    told = steptime.__doc__ or ""
    assert [n for n in steptime.__all__ if n not in told] == []


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'predikt'"):
        _ = steptime.predikt


def test_names_load_what_they_need_and_no_more() -> None:
    code = "import sys, steptime; assert 'numpy' not in sys.modules; steptime.predict('resnet50', 'a100'); print(sorted({'torch', 'pandas', 'typer'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


def test_one_accelerator_gives_one_prediction_and_several_a_list() -> None:
    one = steptime.predict("resnet50", on="a100", batch=64, precision="amp")
    many = steptime.predict("resnet50", on=["a100", "t4"], batch=64, precision="amp-fp16")
    assert one.step_time_s == many[0].step_time_s
    assert [p.accelerator.name for p in many] == ["A100-SXM4-80GB", "T4"]


def test_a_workload_is_predicted_like_its_model(tmp_path: Path) -> None:
    workload = steptime.load_workload(
        steptime.ModelRequest(name="bert-base-uncased", precision="amp-bf16", seq_len=128)
    )
    steptime.save_workload(workload, tmp_path / "bert.workload.json.gz")
    by_name, by_object, by_file = (
        steptime.predict(model, on="l4", batch=8, **options).step_time_s
        for model, options in (
            ("bert-base-uncased", {"seq_len": 128}),
            (workload, {}),
            (str(tmp_path / "bert.workload.json.gz"), {}),
        )
    )
    assert by_name == pytest.approx(by_object)
    assert by_name == pytest.approx(by_file)


def test_what_a_workload_has_cannot_be_asked_of_it() -> None:
    workload = steptime.load_workload(steptime.ModelRequest(name="gpt2", precision="amp-bf16"))
    with pytest.raises(steptime.StepTimeError, match="seq_len cannot be given"):
        steptime.predict(workload, on="a100", seq_len=128)


def test_a_misspelt_option_is_refused() -> None:
    with pytest.raises(steptime.StepTimeError, match="Did you mean precision"):
        steptime.predict("resnet50", on="a100", precison="fp32")


def test_the_largest_batch_fits() -> None:
    most = steptime.largest_batch("resnet50", on="t4", precision="amp-fp16")
    assert steptime.predict("resnet50", on="t4", batch=most, precision="amp-fp16").fits
    assert not steptime.predict("resnet50", on="t4", batch=most + 1, precision="amp-fp16").fits
