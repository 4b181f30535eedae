"""Whatever a person gives by mistake: one sentence, exit code 2, nothing on standard output, no traceback."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from rooms.cli.refusal import refusal_of
from steptime.cli import main as command

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
    "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--batch 99999999999999999999", "at most, not 99,999"),
        ("--batch nan", "valid integer"),
        ("--batch 1.5", "valid integer"),
        ("--accumulation 0", "accumulation must be a whole number of at least 1"),
        ("--accumulation 100000000", "too long to lay out"),
        ("--image-size -3", "image-size cannot be negative"),
        ("--seq-len 99", "seq len 99: it has none"),
        ("--context-len 5", "for --task decode, not for train"),
        ("--task fly", "Known are train, infer"),
        ("--task decode", "not for decode"),
        ("--infer --task train --task decode", "--infer contradicts"),
        ("--attention flash9", "Known are sdpa, eager"),
        ("--input-dtype floaty", "Did you mean float64"),
        ("--freeze (", "no regular expression"),
        ("--implementation slow", "Known are foreach, fused, for-loop"),
        ("--no-such-flag", "No such option"),
        ("--trace /dev/null/x.json", "trace cannot be written"),
        ("--trace .", "trace cannot be written"),
        ("--plot /dev/null/x.png", "plot cannot be written"),
        ("--plot x.gif", "Plots are drawn to"),
        ("--plot .", "Plots are drawn to"),
        ("--on nothing", "catalogue list"),
        ("--json --precision fp9", "Did you mean fp"),
    ],
)
def test_an_option_that_cannot_be(
    options: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with contextlib.chdir(tmp_path):
        told = refusal_of("predict", "resnet50", "--on", "v100", *options.split())
    assert words in told
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "names no model"),
        (":", "names no model"),
        (".", "names no model"),
        ("resnet51", "Did you mean"),
        ("nothing.workload.json.gz", "There is no workload file"),
        ("nothing/config.json", "config.json"),
    ],
)
def test_a_name_of_nothing(name: str, words: str) -> None:
    assert words in refusal_of("predict", name, "--on", "a100")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": -5}, "'hidden_size' must be a whole number from 1"),
        ({"hidden_size": "big"}, "not 'big'"),
        ({"hidden_size": 64.5}, "not 64.5"),
        ({"hidden_size": float("nan")}, "not nan"),
        ({"hidden_size": float("inf")}, "not inf"),
        ({"hidden_size": 10**30}, "from 1 to 2,147,483,648"),
        ({"num_attention_heads": 0}, "'num_attention_heads' must be a whole number from 1"),
        ({"num_key_value_heads": 3}, "cannot share 3 heads"),
        ({"num_hidden_layers": 10_000_000}, "from 1 to 10,000"),
        ({"vocab_size": None}, "lacks 'vocab_size'"),
        ({"num_local_experts": -1}, "'num_local_experts' must be"),
    ],
)
def test_a_configuration_of_no_model(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, **changes}))
    assert words in refusal_of("predict", str(path), "--on", "a100", "--batch", "1")


@pytest.mark.parametrize("content", [b"", b"[1]", b"\xff\xfe", b"{", b"{}"])
@pytest.mark.parametrize("name", ["config.json", "x.workload.json.gz"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_file(tmp_path: Path, name: str, content: bytes, packed: bool) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if packed else content)
    assert name in refusal_of("predict", str(path), "--on", "a100")


def test_every_part_of_a_workload_may_be_missing(tmp_path: Path) -> None:
    whole = json.loads(gzip.decompress(bundled_workload().read_bytes()))
    path = tmp_path / "x.workload.json.gz"
    for key in whole:
        for damaged in ({k: v for k, v in whole.items() if k != key}, {**whole, key: 7}):
            if damaged.get(key) == 7 and key in {"origin", "image_size", "tokens_per_sample", "fixed_batch", "forward_end"}:  # fmt: skip
                continue  # 7 is possible there, or is not looked at
            path.write_bytes(gzip.compress(json.dumps(damaged).encode()))
            assert "x.workload.json.gz" in refusal_of(
                "predict", str(path), "--on", "a100", "--precision", "fp32"
            )


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("sequence",), [99_999], "rows that the table does not have"),
        (("sequence",), [], "sequence is empty"),
        (("forward_end",), -4, "forward end is -4"),
        (("storages", "death", 0), 10**9, "live outside the sequence"),
        (("operators", "count", 0), float("nan"), "not finite"),
        (("operators", "kind", "names", 0), "gem", "'gem' is no kind"),
        (("precision",), "fp7", "'fp7' is no precision"),
    ],
)
def test_a_workload_that_contradicts_itself(
    tmp_path: Path, place: tuple[Any, ...], value: object, words: str
) -> None:
    content = json.loads(gzip.decompress(bundled_workload().read_bytes()))
    part = content
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    path = tmp_path / "x.workload.json.gz"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    assert words in refusal_of("predict", str(path), "--on", "a100", "--precision", "fp32")


@pytest.mark.parametrize("kept", [10, 2000, None])
def test_a_workload_that_was_cut_or_flipped(tmp_path: Path, kept: int | None) -> None:
    content = bytearray(bundled_workload().read_bytes())
    content[300] ^= 0 if kept else 0xFF
    path = tmp_path / "x.workload.json.gz"
    path.write_bytes(content[:kept])
    assert "is damaged" in refusal_of("predict", str(path), "--on", "a100")


def bundled_workload() -> Path:
    return Path(
        str(resources.files("steptime").joinpath("data/captured/zoo/resnet18.train.fp32.workload.json.gz"))
    )


@pytest.mark.parametrize("name", ["folder", "folder.workload.json.gz"])
def test_a_folder_in_place_of_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert name in refusal_of("predict", str(tmp_path / name), "--on", "a100")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("x = 1", "stands outside a table"),
        ("[a]", "'name' is missing"),
        ("[a", "no valid TOML"),
        ('[a]\nname = "A"\nvendor = "v"\narchitecture = "x"\nyear = 2026\nsource = "s"\n'
         'peak_dense = { bf16 = "nan TFLOP/s" }\nmemory = { capacity = "64 GB", bandwidth = "2 TB/s" }', "no quantity"),
        ('[a]\nname = "A"\nvendor = "v"\narchitecture = "x"\nyear = 2026\nsource = "s"\n'
         'peak_dense = { bf16 = "1 TFLOP/s" }\nmemory = { capacity = "-64 GB", bandwidth = "2 TB/s" }', "above zero"),
    ],
)  # fmt: skip
def test_a_damaged_catalogue(
    tmp_path: Path, content: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text(content)
    monkeypatch.setenv("STEPTIME_CATALOGUE", str(tmp_path))
    told = refusal_of("predict", "resnet50", "--on", "a100")
    assert "mine.toml" in told
    assert words in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("capture timm/resnet18 -o x.txt", "ends in .workload.json.gz"),
        ("capture timm/resnet18 --time-limit nan", "must be numbers above zero"),
        ("capture timm/resnet18 --memory-limit inf", "must be numbers above zero"),
        ("capture timm/resnet18 --task fly", "A capture is for train or infer"),
        ("capture timm/resnet18 --fixed-batch --batch 0", "at least 1, not [0]"),
        ("catalogue show xyz", "catalogue list"),
        ("catalogue list --vendor acme", "matches no accelerator"),
        ("compare resnet50", "Missing option"),
        ("compare resnet50 --on a100 --batch 0", "at least 1"),
        ("validate none.csv", "no file none.csv"),
        ("validate .", "no file ."),
        ("calibrate gemm --data none", "is no folder"),
        ("calibrate gemm --data .", "gemm.parquet"),
        ("calibrate fly --data .", "'fly'"),
        ("fly", "No such command"),
    ],
)
def test_the_other_verbs(arguments: str, words: str, tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        assert words in refusal_of(*arguments.split())


COLUMNS = ("accelerator", "model", "task", "precision", "batch", "step_time_ms", "measured_what", "origin", "source_repo",
           "n_gpus", "framework", "framework_version", "memory_format", "compiled", "optimizer", "image_size", "seq_len",
           "throughput_samples_per_s", "latency_ms", "peak_memory_gb", "memory_kind", "notes", "trust", "role")  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "step_ms"), [("8", "nan"), ("8", "inf"), ("8", "-1"), ("8", "0"), ("-4", "5"), ("abc", "5"), ("1e30", "5")]
)  # fmt: skip
def test_a_measurement_that_is_none_is_listed_and_the_others_are_scored(
    tmp_path: Path, batch: str, step_ms: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table, rows = tmp_path / "mine.csv", tmp_path / "rows.csv"
    usual = {"accelerator": "A100-SXM4-80GB", "model": "timm/resnet50", "task": "train", "precision": "amp-fp16", "framework": "PyTorch"}  # fmt: skip
    with table.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerow({**usual, "batch": "64", "step_time_ms": "40"})
        writer.writerow({**usual, "batch": batch, "step_time_ms": step_ms})
    with mock.patch.object(
        sys, "argv", ["steptime", "validate", str(table), "--json", "--rows", str(rows)]
    ), pytest.raises(SystemExit) as ended:  # fmt: skip
        command.main()
    assert ended.value.code == 0
    assert [s["rows"] for s in json.loads(capsys.readouterr().out)] == [1]
    found = list(csv.DictReader(rows.read_text().splitlines()))
    assert [bool(r["not_mapped"]) for r in found] == [False, True]


MODULES = """
import os, sys, time
from torch import nn


class Odd(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.layer, self.act = nn.Linear(32, 32), act

    def forward(self, x):
        return self.act(self.layer(x))


def leaves():
    return Odd(lambda x: sys.exit(3))


def dies():
    return Odd(lambda x: os._exit(9))


def indexes():
    return Odd(lambda x: x[x.sum(1) > 0])


def counts():
    return Odd(lambda x: [x for _ in range(int(x.sum()))][0])


def fails():
    return Odd(lambda x: x.no_such_thing)


def sleeps():
    return Odd(lambda x: time.sleep(3600))


def needs(argument):
    return Odd(nn.ReLU())


def refuses():
    raise KeyError("weights")


def seven():
    return 7


number = 5
"""


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    path = tmp_path / "odd.py"
    path.write_text(MODULES)
    return path


@pytest.mark.needs_torch
@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("leaves", "SystemExit at odd.py"),
        ("dies", "code 9"),
        ("indexes", "branches on the values of its tensors at odd.py"),
        ("counts", "Replace the branch by a fixed one"),
        ("fails", "no_such_thing"),
        ("needs", "argument"),
        ("refuses", "KeyError at odd.py"),
        ("seven", "a torch.nn.Module is needed"),
        ("number", "is a int; name a torch.nn.Module or a function"),
        ("", "names no factory"),
    ],
)
def test_a_module_that_cannot_be_captured(modules: Path, factory: str, words: str) -> None:
    assert words in refusal_of("predict", f"{modules}:{factory}", "--input-shape", "32", "--on", "a100")


@pytest.mark.needs_torch
@pytest.mark.parametrize(
    ("source", "words"),
    [("def f(:", "SyntaxError at bad.py:1"), ("import no_such_package", "no_such_package"), ("", "Unknown name in")],
)  # fmt: skip
def test_a_file_that_python_cannot_run(tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "bad.py").write_text(source)
    told = refusal_of("predict", f"{tmp_path / 'bad.py'}:make", "--input-shape", "32", "--on", "a100")
    assert words in told


@pytest.mark.needs_torch
@pytest.mark.parametrize("shape", ["a", "0", "3,-1"])
def test_a_shape_that_is_none(modules: Path, shape: str) -> None:
    assert "is no shape" in refusal_of("predict", f"{modules}:needs", "--input-shape", shape, "--on", "a100")


@pytest.mark.needs_torch
def test_a_cache_that_cannot_be_written(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPTIME_CACHE", str(modules))
    told = refusal_of("predict", f"{modules}:fails", "--input-shape", "32", "--on", "a100")
    assert "name another with STEPTIME_CACHE" in told


@pytest.mark.needs_torch
def test_an_interrupted_capture_leaves_nothing_running(modules: Path, tmp_path: Path) -> None:
    code = "from steptime.cli.main import main; main()"
    started = subprocess.Popen(
        [sys.executable, "-c", code, "capture", f"{modules}:sleeps", "--input-shape", "32"],
        stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    child = _first(lambda: _children(started.pid))
    started.send_signal(signal.SIGINT)
    _, told = started.communicate(timeout=30)
    assert started.returncode == 130
    assert told.strip() == "steptime: interrupted"
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text()


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    if not tasks.exists():
        pytest.skip("only Linux tells the children of a process")
    return [int(p) for p in tasks.read_text().split()]


def _first(found: Callable[[], list[int]]) -> int:
    deadline = time.monotonic() + 30
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found()[0]


def test_a_fault_of_our_own_is_one_sentence_too(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(command, "app", side_effect=ZeroDivisionError("by zero")), pytest.raises(
        SystemExit
    ) as ended:  # fmt: skip
        command.main()
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert "a fault of steptime (ZeroDivisionError: by zero)" in told
    assert "Traceback" not in told
    with (
        mock.patch.dict(os.environ, STEPTIME_DEBUG="1"),
        mock.patch.object(command, "app", side_effect=ZeroDivisionError("by zero")),
        pytest.raises(ZeroDivisionError),
    ):
        command.main()
