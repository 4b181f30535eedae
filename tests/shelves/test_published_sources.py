"""Every fact of the published shelf names its source, and every source can be looked up."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from house.places import DATA, ROOT
from steptime.hardware import describe_sources, load_catalogue, load_links

SOURCES: dict[str, dict[str, Any]] = tomllib.loads(
    (DATA / "published" / "sources.toml").read_text(encoding="utf-8")
)
FACTS = (*load_catalogue().accelerators, *load_links().values())


def test_every_fact_has_a_source_that_is_listed() -> None:
    for fact in FACTS:
        assert set(fact.source.split(", ")) <= set(SOURCES), fact.name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", fact.retrieved), fact.name


def test_every_source_is_used() -> None:
    assert {key for fact in FACTS for key in fact.source.split(", ")} == set(SOURCES)


@pytest.mark.parametrize("key", SOURCES)
def test_a_source_is_whole_and_in_the_bibliography(key: str) -> None:
    assert set(SOURCES[key]) == {"author", "title", "year", "where", "evidence"}
    assert SOURCES[key]["evidence"] in {"read", "read in part", "recalled"}
    assert f"{{{key}," in (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")


def test_what_was_only_recalled_is_not_called_sure_without_a_reader() -> None:
    """High confidence on recalled sources alone stands only where the arithmetic of peaks confirms it."""
    unread = {
        fact.name
        for fact in load_links().values()
        if fact.confidence == "high"
        and all(SOURCES[k]["evidence"] == "recalled" for k in fact.source.split(", "))
    }
    assert unread == set()


def test_sources_are_told_in_words() -> None:
    lines = describe_sources("nvidia2020a100, bekman2026")
    assert [line.partition(" (")[0] for line in lines] == ["NVIDIA", "Bekman, Stas"]
    assert describe_sources("nvidia2020a100, unheard2020") == ["nvidia2020a100, unheard2020"]
