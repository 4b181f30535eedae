"""Each public name is in the glossary, once, with its unit; no module is a drawer for odds and ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from house.names import all_names, faults_of_glossary, glossary, missing, names_of_code, names_of_table
from house.places import SOURCE

DRAWERS = {"utils", "util", "common", "misc", "helpers", "helper", "base", "manager", "legacy"}


def test_every_public_name_is_in_the_glossary() -> None:
    lines = missing(all_names(), glossary())
    assert not lines, "\n".join(["add to docs/glossary.toml (a meaning for each TODO):", *lines])


def test_the_glossary_is_sound() -> None:
    faults = list(faults_of_glossary(glossary()))
    assert not faults, "\n".join(faults)


def drawers(root: Path) -> list[str]:
    parts = [(p, set(p.relative_to(root).with_suffix("").parts)) for p in sorted(root.rglob("*.py"))]
    return [str(p.relative_to(root)) for p, names in parts if names & DRAWERS]


def test_no_module_is_a_drawer() -> None:
    assert drawers(SOURCE) == []


def test_a_drawer_is_found(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    for name in ("kernels/utils.py", "kernels/gemm.py"):
        (tmp_path / name).touch()
    assert drawers(tmp_path) == ["kernels/utils.py"]


PLANTED = """
def gemm_time_s(m, *, peak_flops_per_s, _hidden=None):
    '''Time.

    Parameters
    ----------
    m : int
        Rows. [1]
    peak_flops_per_s : float
        P, dense peak rate. [flop/s]
    '''

def _private(secret): ...

class Noun:
    capacity_bytes: float
    _cache: int

    def at(self, batch): ...
    def __init__(self, *parts, **facts): ...
"""


def test_names_are_found_in_signatures_and_fields() -> None:
    found = [name for name, _, _ in names_of_code(PLANTED, "planted")]
    assert found == ["m", "peak_flops_per_s", "capacity_bytes", "batch", "parts", "facts"]


def test_names_are_found_in_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("house.names.DATA", tmp_path)
    table = tmp_path / "rows.csv"
    table.write_text("# a comment\nmodel,step_time_s\nresnet50,0.1\n")
    assert [name for name, _, _ in names_of_table(table)] == ["model", "step_time_s"]


def test_a_name_without_an_entry_is_proposed_with_its_unit() -> None:
    names = {name: ([where], said) for name, where, said in names_of_code(PLANTED, "planted")}
    known = {"quantities": {"capacity_bytes": {}}, "words": {"m": "", "batch": "", "parts": ""}}
    assert missing(names, known) == [
        'facts = "TODO"  # planted.Noun.__init__',
        'peak_flops_per_s = { symbol = "", unit = "flop/s", meaning = "P, dense peak rate." }'
        "  # planted.gemm_time_s",
    ]


@pytest.mark.parametrize(
    ("known", "fault"),
    [
        ({"quantities": {"step_time_s": {"symbol": "t", "unit": "byte", "meaning": "x"}}}, "against 's'"),
        ({"quantities": {"step_time_s": {"symbol": "t", "unit": "s", "meaning": "TODO"}}}, "no meaning yet"),
        ({"quantities": {"step_time_s": {"unit": "s"}}}, "has a symbol, a unit and a meaning"),
        ({"words": {"step_time_s": "time"}}, "ends in a unit"),
        ({"words": {"path": ""}}, "no meaning yet"),
        ({"words": {"path": "a", "model": "b"}}, "order of the alphabet"),
        ({"words": {}}, "two tables"),
        ({"words": {"path": "a"}, "quantities": {"path": {}}}, "listed twice"),
    ],
)
def test_a_faulty_glossary_is_found(known: dict[str, dict[str, object]], fault: str) -> None:
    assert any(fault in f for f in faults_of_glossary(known))
