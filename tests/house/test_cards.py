"""Each formula of the physics rooms has its card: units, range, source and an example that runs."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from house.cards import failed_examples, faults_of_card, faults_of_source, reference_keys
from house.places import PHYSICS, formulas, modules, unit_of_name

KEYS = {"williams2009"}


@pytest.mark.parametrize("room", PHYSICS)
def test_every_formula_has_its_card(room: str) -> None:
    keys = reference_keys()
    faults = [
        f"{name}: {fault}"
        for name, function in formulas().items()
        if name.startswith(room)
        for fault in faults_of_card(name, function, keys)
    ]
    assert not faults, "\n".join(["formula cards:", *faults])


@pytest.mark.parametrize("room", PHYSICS)
def test_every_example_of_a_formula_runs(room: str) -> None:
    failures = [report for module in modules(room) for report in failed_examples(module)]
    assert not failures, "\n".join(failures)


def transfer_time_s(size_bytes: float, *, bandwidth_bytes_per_s: float, pinned: bool = False) -> float:
    """Time to move some bytes.

        t = b / W

    Parameters
    ----------
    size_bytes : float
        b, what is moved. [byte]
    bandwidth_bytes_per_s : float
        W. [byte/s]
    pinned : bool
        Whether the host's pages are pinned.

    Returns
    -------
    float
        Time. [s]

    Notes
    -----
    Valid: nothing else on the link.
    Source: [williams2009], eq. 1.

    Examples
    --------
    >>> transfer_time_s(8.0, bandwidth_bytes_per_s=2.0)
    4.0
    """
    return size_bytes / bandwidth_bytes_per_s


def _card(replace: str, by: str) -> list[str]:
    """Return the faults of the card above after a change."""

    def changed(size_bytes: float, *, bandwidth_bytes_per_s: float, pinned: bool = False) -> float:
        return 0.0

    before = transfer_time_s.__doc__ or ""
    assert replace in before
    changed.__doc__ = before.replace(replace, by)
    return list(faults_of_card("transfer_time_s", changed, KEYS))


def test_a_sound_card_has_no_fault() -> None:
    assert list(faults_of_card("transfer_time_s", transfer_time_s, KEYS)) == []


@pytest.mark.parametrize(
    ("replace", "by", "fault"),
    [
        ("W. [byte/s]", "W.", "argument bandwidth_bytes_per_s has no bracketed unit"),
        ("W. [byte/s]", "W. [byte]", "its name says [byte/s]"),
        ("W. [byte/s]", "W. [GB/s]", "has the unit [GB/s]"),
        ("Time. [s]", "Time. [byte]", "the result has the unit [byte], its name says [s]"),
        ("Time. [s]", "Time.", "the result has no bracketed unit"),
        ("size_bytes : float", "bytes_moved : float", "argument size_bytes is not documented"),
        ("size_bytes : float", "bytes_moved : float", "documents bytes_moved, which is no argument"),
        ("Valid: nothing else on the link.", "", "does not say where it holds"),
        ("Source: [williams2009], eq. 1.", "", "has no Source:"),
        ("[williams2009]", "[wiliams2009]", "cites [wiliams2009], which docs/references.bib lacks"),
        ("[williams2009], eq. 1", "folklore", "names neither a work"),
        ("[williams2009], eq. 1", "fitted: data/fitted/no_such_thing", "which does not exist"),
        (">>> transfer", "transfer", "has no example"),
    ],
)
def test_a_faulty_card_is_found(replace: str, by: str, fault: str) -> None:
    faults = _card(replace, by)
    assert any(fault in f for f in faults), faults


@pytest.mark.parametrize(
    "text", ["derived here", "fitted: data/fitted/<accelerator>.json", "assumption; a trace would settle it"]
)
def test_sources_other_than_works_are_accepted(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "fitted").mkdir(parents=True)
    monkeypatch.setattr("house.cards.DATA", tmp_path / "data")
    assert list(faults_of_source(text, KEYS)) == []


def test_an_example_that_fails_is_found() -> None:
    module = ModuleType("planted")
    module.__doc__ = ">>> 1 + 1\n3\n"
    assert failed_examples(module)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("peak_flops_per_s", "flop/s"), ("flops", "flop"), ("read_bytes", "byte"), ("power_w", "W"),
     ("mfu_ratio", "1"), ("num_sms", "1"), ("rows", None), ("s", None), ("axis", None)],
)  # fmt: skip
def test_the_unit_is_read_off_the_end_of_a_name(name: str, unit: str | None) -> None:
    assert unit_of_name(name) == unit
