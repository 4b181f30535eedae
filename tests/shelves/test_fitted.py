"""A fitted file holds numbers only, and says which formula they feed and where they come from."""

from __future__ import annotations

import copy
import importlib
import json
import math
import re
from collections.abc import Iterator
from numbers import Real
from pathlib import Path
from typing import Any

import pytest

from house.places import DATA

SHELF = DATA / "fitted"
FILES = sorted(
    SHELF.glob("*/**/*.json")
)  # residuals.json at the top holds quantiles, not a formula's numbers
COMMANDS = ("steptime ", "python -m steptime.")
FIELDS = {
    "schema",
    "formula",
    "accelerator",
    "dtype",
    "values",
    "from",
    "command",
    "error",
    "valid",
    "note",
    "date",
}


def resolves(name: str) -> bool:
    """Tell whether ``name`` is a function of the package, written with all its modules."""
    module, _, function = name.rpartition(".")
    try:
        return name.startswith("steptime.") and callable(getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError):
        return False


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_numbers(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(is_numbers(v) for v in value.values())
    return is_number(value) or (isinstance(value, list) and bool(value) and all(is_numbers(v) for v in value))


def faults_of_set(content: dict[str, Any], stem: str) -> Iterator[str]:
    """Yield what is wrong with the fitted set ``content`` of the file ``stem``.json."""
    if set(content) != FIELDS:
        yield f"fields missing: {sorted(FIELDS - set(content))}; unknown: {sorted(set(content) - FIELDS)}"
        return
    whose = f"{content['accelerator']}.{content['dtype']}"
    rules = {
        f"schema {content['schema']!r}": content["schema"] == "steptime.fitted/1",
        f"formula {content['formula']!r} is no function of the package": resolves(content["formula"]),
        f"is called {stem}, holds {whose}": stem == whose.lower(),
        "values: numbers only, and at least one": content["values"] and is_numbers(content["values"]),
        "command: what to type to fit it again": content["command"].startswith(COMMANDS),
        "date: a day, as 2026-12-01": re.fullmatch(r"\d{4}-\d\d-\d\d", content["date"]),
        "valid: the range of every fitted input": content["valid"] and is_numbers(content["valid"]),
    }
    yield from (fault for fault, holds in rules.items() if not holds)
    yield from _faults_of_origin(content["from"])
    yield from _faults_of_error(content["error"], content["note"])


def _faults_of_origin(origin: Any) -> Iterator[str]:
    if not isinstance(origin, list) or not origin:
        yield "from: the tables that were fitted on"
        return
    for source in origin:
        if not re.fullmatch(r"[0-9a-f]{64}", str(source.get("sha256"))):
            yield f"from: {source.get('file')} has no digest"
        if not source.get("file") or "/" in source["file"] or not source.get("rows", 0) > 0:
            yield f"from: {source} needs the name of a file and the number of its rows"


def _faults_of_error(error: Any, note: str) -> Iterator[str]:
    if error is None:
        if not note:
            yield "error: without one, a note must say why"
        return
    if set(error) != {"held_out_rows", "mean", "median", "p90", "bias"} or not is_numbers(error):
        yield "error: held_out_rows, mean, median, p90 and bias, all numbers"
    elif error["held_out_rows"] < 1 or error["p90"] < error["median"]:
        yield f"error: impossible, {error}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SHELF)))
def test_a_fitted_set_is_whole(path: Path) -> None:
    faults = list(faults_of_set(json.loads(path.read_text(encoding="utf-8")), path.stem))
    assert not faults, "\n".join(faults)


SOUND: dict[str, Any] = {
    "schema": "steptime.fitted/1", "formula": "steptime.errors.nearest",
    "accelerator": "A100", "dtype": "bf16",
    "values": {"launch_s": 2e-6, "steps": [1.0, 2.0]},
    "from": [{"file": "gemm.parquet", "sha256": "0" * 64, "rows": 3}],
    "command": "steptime calibrate gemm", "valid": {"m": [1, 8192]}, "note": "", "date": "2026-12-01",
    "error": {"held_out_rows": 10, "mean": 0.1, "median": 0.08, "p90": 0.2, "bias": 0.01},
}  # fmt: skip


def test_a_sound_set_has_no_fault() -> None:
    assert list(faults_of_set(SOUND, "a100.bf16")) == []


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("schema", "steptime.fitted/0", "schema"),
        ("formula", "steptime.errors.no_such_function", "no function of the package"),
        ("formula", "os.getcwd", "no function of the package"),
        ("accelerator", "H100", "is called"),
        ("values", {"launch_s": "2 us"}, "numbers only"),
        ("values", {"launch_s": math.nan}, "numbers only"),
        ("values", {"fused": True}, "numbers only"),
        ("values", {}, "numbers only"),
        ("from", [], "tables that were fitted on"),
        ("from", [{"file": "gemm.parquet", "rows": 3}], "no digest"),
        ("from", [{"file": "gemm.parquet", "sha256": "0" * 64, "rows": 0}], "number of its rows"),
        ("command", "by hand", "what to type"),
        ("error", None, "a note must say why"),
        ("error", {"mean": 0.1}, "error:"),
        ("error", {**SOUND["error"], "p90": 0.0}, "impossible"),
        ("valid", {}, "the range"),
        ("date", "today", "date"),
        ("extra", 1, "unknown: ['extra']"),
    ],
)
def test_a_faulty_set_is_found(field: str, value: Any, fault: str) -> None:
    content = copy.deepcopy(SOUND)
    content[field] = value
    found = list(faults_of_set(content, "a100.bf16"))
    assert any(fault in f for f in found), found
