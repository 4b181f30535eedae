"""The cache of the parsed shelf changes how long loading takes, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steptime.hardware import shelf
from steptime.hardware.shelf import built_in_tables

CARD = '[card]\nname = "X1"\nretrieved = 2026-12-01\nmemory = { capacity = "64 GB" }\n'
PARSED = {"cards.toml": {"card": {"name": "X1", "retrieved": "2026-12-01", "memory": {"capacity": "64 GB"}}}}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the cache of a shelf with one file will lie."""
    (tmp_path / "published" / "cards").mkdir(parents=True)
    (tmp_path / "published" / "cards" / "cards.toml").write_text(CARD)
    monkeypatch.setattr(shelf, "PUBLISHED", tmp_path / "published")
    monkeypatch.setattr(shelf, "user_cache_path", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache" / "steptime" / "published-cards.json"


def as_text(tables: object) -> object:
    return json.loads(json.dumps(tables, default=str))


def test_the_second_reading_comes_from_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert as_text(built_in_tables("cards")) == PARSED
    assert [p.name for p in cache.parent.iterdir()] == [cache.name]
    monkeypatch.delattr(shelf, "parse_tables")
    assert built_in_tables("cards") == PARSED


def test_a_changed_file_is_read_anew(cache: Path) -> None:
    built_in_tables("cards")
    (shelf.PUBLISHED / "cards" / "cards.toml").write_text(CARD.replace("64", "32"))
    assert built_in_tables("cards")["cards.toml"]["card"]["memory"] == {"capacity": "32 GB"}


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}", b"null", b'{"digest": "of another"}'])
def test_a_damaged_cache_is_left_aside_and_renewed(cache: Path, content: bytes) -> None:
    built_in_tables("cards")
    whole = cache.read_bytes()
    cache.write_bytes(content)
    assert as_text(built_in_tables("cards")) == PARSED
    assert cache.read_bytes() == whole


def test_where_nothing_can_be_kept_it_is_parsed_every_time(cache: Path) -> None:
    cache.parent.parent.parent.mkdir(parents=True, exist_ok=True)
    cache.parent.parent.write_text("a file where the folder should be")
    assert as_text(built_in_tables("cards")) == as_text(built_in_tables("cards")) == PARSED
