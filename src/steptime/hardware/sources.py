"""What the keys in ``source`` mean, for people who have the package and not its repository."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from typing import Any

from steptime.hardware.shelf import PUBLISHED


def describe_sources(source: str) -> list[str]:
    """Return one line for each work that ``source`` names: author, year, title, place, and how it was read.

    A source that is no key of the shelf, as in a user's own file, is returned as it stands.

    Examples
    --------
    >>> describe_sources("our own data sheet")
    ['our own data sheet']
    """
    known = _load()
    keys = source.split(", ")
    return [_sentence(known[key]) for key in keys] if all(key in known for key in keys) else [source]


@lru_cache(maxsize=1)
def _load() -> dict[str, dict[str, Any]]:
    return tomllib.loads((PUBLISHED / "sources.toml").read_text(encoding="utf-8"))


def _sentence(work: dict[str, Any]) -> str:
    return f"{work['author']} ({work['year']}): {work['title']}; {work['where']} [{work['evidence']}]"
