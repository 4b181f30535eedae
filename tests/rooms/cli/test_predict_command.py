"""The commands as a person and as a machine use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rooms.cli.refusal import refusal_of
from steptime.cli.main import app

RUN = CliRunner()


def test_json_of_one_is_an_object_and_of_many_a_list() -> None:
    one = json.loads(RUN.invoke(app, ["predict", "resnet50", "--on", "a100", "--json"]).stdout)
    many = json.loads(RUN.invoke(app, ["predict", "resnet50", "--on", "a100", "--on", "t4", "--json"]).stdout)
    assert one["step_time_s"] == many[0]["step_time_s"]
    assert len(many) == 2


def test_compare_prints_ratios_to_the_first() -> None:
    out = RUN.invoke(app, ["compare", "resnet50", "--on", "v100", "--on", "a100"]).output
    rows = [line for line in out.splitlines() if "×" in line]
    assert "1.00×" in rows[0]
    assert all(name in row for name, row in zip(("V100", "A100"), rows, strict=True))


def test_largest_batch_fits_and_the_next_does_not() -> None:
    common = ("resnet50", "--on", "t4", "--precision", "amp-fp16", "--json")
    largest = json.loads(RUN.invoke(app, ["predict", *common, "--largest-batch"]).stdout)["largest_batch"]
    fits = [
        json.loads(RUN.invoke(app, ["predict", *common, "--batch", str(b)]).stdout)["fits"]
        for b in (largest, largest + 1)
    ]
    assert fits == [True, False]


def test_a_batch_that_cannot_fit_says_what_helps() -> None:
    out = RUN.invoke(
        app, ["predict", "llama-2-7b", "--on", "t4", "--batch", "8", "--precision", "fp32"]
    ).output
    assert "does not fit" in out
    assert "--activation-checkpointing" in out


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_a_plot_is_written(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"step.{suffix}"
    done = RUN.invoke(app, ["predict", "resnet50", "--on", "a100", "--plot", str(out)])
    assert done.exit_code == 0, done.output
    assert out.stat().st_size > 1000


def test_a_trace_spans_the_step(tmp_path: Path) -> None:
    out = tmp_path / "step.json"
    done = RUN.invoke(app, ["predict", "resnet50", "--on", "a100", "--trace", str(out), "--json"])
    events = [e for e in json.loads(out.read_text())["traceEvents"] if e["ph"] == "X"]
    end_s = max(e["ts"] + e["dur"] for e in events) * 1e-6
    assert end_s == pytest.approx(json.loads(done.stdout)["step_time_s"], rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("resnet50", "--on", "v100", "--precision", "fp8"), "it can in fp16, fp32"),
        (("resnet50", "--on", "a100", "--batch", "0"), "at least 1, not 0"),
        (("resnet50", "--on", "a100", "--batch", "-4"), "at least 1, not -4"),
        (("resnet51", "--on", "a100"), "resnet50"),
        (("resnet50", "--on", "a1000x"), "Did you mean"),
        (("resnet50", "--on", "a100", "--precision", "fp7"), "fp7"),
        (("resnet50", "--on", "a100", "--optimizer", "adamz"), "adamz"),
        (("resnet50", "--on", "a100", "--compile", "--cuda-graph"), "exclude each other"),
        (("no/such/file.py:make", "--on", "a100"), "no/such/file.py"),
        (("no/such/config.json", "--on", "a100"), "config.json"),
    ],
)
def test_bad_input_is_one_sentence_with_the_way_out(arguments: tuple[str, ...], words: str) -> None:
    assert words in refusal_of("predict", *arguments)


def test_a_damaged_workload_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.workload.json.gz"
    path.write_bytes(b"not a workload")
    assert "x.workload.json.gz" in refusal_of("predict", str(path), "--on", "a100")


def test_a_configuration_of_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "dreamformer", "hidden_size": 64}')
    assert "dreamformer" in refusal_of("predict", str(path), "--on", "a100")
