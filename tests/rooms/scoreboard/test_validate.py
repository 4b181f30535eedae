"""The scoreboard judges the project's own tables, and says so when a data set got worse."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from steptime.cli.main import app
from steptime.errors import InputError
from steptime.scoreboard import board, tables
from steptime.scoreboard.cases import NotMappedError, read_case

RUN = CliRunner()
OWN = {p.stem: p for p in tables.own_tables()}
KEYS = {
    "dataset", "accelerator", "rows", "mean_error", "median_error", "p90_error", "bias", "coverage",
    "baseline_roofline_error",
}  # fmt: skip


def test_no_data_set_is_worse_than_recorded() -> None:
    done = RUN.invoke(app, ["validate", "--check", "--json"])
    assert done.exit_code == 0, done.output[-2000:]


def test_scores_have_what_machines_read() -> None:
    done = RUN.invoke(app, ["validate", str(OWN["transformers_fp32_single_gpu"]), "--json"])
    found = json.loads(done.stdout)
    assert sum(s["rows"] for s in found) == 38
    assert all(set(s) >= KEYS for s in found)
    mean = sum(s["mean_error"] * s["rows"] for s in found) / 38
    neusight = sum(s["rivals"]["neusight"] * s["rows"] for s in found) / 38
    assert mean < neusight


def test_rows_are_written_beside_their_predictions(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    RUN.invoke(app, ["validate", str(OWN["transformers_fp32_single_gpu"]), "--rows", str(out)])
    rows = pd.read_csv(out)
    assert len(rows) == 38
    assert ((rows["predicted"] / rows["measured"] - 1) - rows["error"]).abs().max() < 1e-9


def test_every_own_table_is_recognised() -> None:
    assert {tables.recognise(tables.read_table(p), p.name) for p in OWN.values()} >= {
        "gemm", "matmul_fp32", "attention_forward", "convolution_forward_fp32", "memory_bound_fp32", "timm_single_gpu",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", "x,y\n1,2\n"), ("b.csv", "accelerator,colour\nA100,red\n")]
)
def test_a_table_of_something_else_is_refused(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError):
        tables.recognise(tables.read_table(path), name)


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"not a table")
    with pytest.raises(InputError, match="cannot be read"):
        tables.read_table(path)


def test_rows_that_nothing_answers_say_why() -> None:
    row = {"accelerator": "A100-SXM4-80GB", "model": "no-such-net", "task": "train", "precision": "fp32", "batch": 1,
           "step_time_ms": 1.0}  # fmt: skip
    with pytest.raises(NotMappedError, match="no-such-net"):
        read_case(row, 0, "whole_models")


def test_residuals_hold_most_rows() -> None:
    judged, _ = board.judge_file(OWN["timm_single_gpu"], held_out=False, limit=0, progress=lambda *_: None)
    inside = [v.low <= v.measured <= v.high for v in judged.verdicts]
    assert 0.75 <= sum(inside) / len(inside) <= 0.9
