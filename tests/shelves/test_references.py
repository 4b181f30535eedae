"""Every work is listed once, whole, and every key that is cited exists."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from house.places import DATA, ROOT, SOURCE

BIBLIOGRAPHY = ROOT / "docs" / "references.bib"
_ENTRY = re.compile(r"^@(?P<kind>\w+)\{(?P<key>[^,\s]+),(?P<body>.*?)^\}", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"[a-z][a-z0-9-]*\d{4}[a-z0-9-]*")
# A key in brackets after `Source:` in a docstring or in a document; links are `[text](address)`.
_CITED = re.compile(rf"\[({_KEY.pattern})\](?!\()")


def entries(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return each entry's key with its fields."""
    return [
        (
            m["key"],
            dict(re.findall(r"^\s*(\w+)\s*=\s*[{\"](.*?)[}\"],?\s*$", m["body"], re.MULTILINE | re.DOTALL)),
        )
        for m in _ENTRY.finditer(text)
    ]


def faults_of_bibliography(text: str) -> Iterator[str]:
    found = entries(text)
    if len(found) != len(re.findall(r"^@", text, re.MULTILINE)):
        yield "an entry does not end with a } at the beginning of a line"
    for key, number in Counter(k for k, _ in found).items():
        if number > 1:
            yield f"{key} is listed {number} times"
    for key, fields in found:
        if not _KEY.fullmatch(key):
            yield f"{key}: a key is an author and a year in lower case"
        for wanted in (("title",), ("year",), ("author", "organization", "institution")):
            if not any(fields.get(f, "").strip() for f in wanted):
                yield f"{key} has no {' or '.join(wanted)}"


def keys_in_tables(content: Any) -> Iterator[str]:
    """Yield every value of a field called `source` in a parsed file."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name == "source" and isinstance(value, str):
                yield value
            else:
                yield from keys_in_tables(value)
    elif isinstance(content, list):
        for value in content:
            yield from keys_in_tables(value)


def citations() -> Iterator[tuple[str, str]]:
    """Yield (file, key) for every citation in code, documents and the published shelf."""
    for path in [*SOURCE.rglob("*.py"), *(ROOT / "docs").rglob("*.md")]:
        for key in _CITED.findall(path.read_text(encoding="utf-8")):
            yield str(path.relative_to(ROOT)), key
    for path in (DATA / "published").rglob("*.toml"):
        for key in keys_in_tables(tomllib.loads(path.read_text(encoding="utf-8"))):
            if _KEY.fullmatch(key):
                yield str(path.relative_to(ROOT)), key


def bibliography() -> str:
    if not BIBLIOGRAPHY.exists():
        pytest.skip("docs/references.bib is not written yet")
    return BIBLIOGRAPHY.read_text(encoding="utf-8")


def test_the_bibliography_is_sound() -> None:
    faults = list(faults_of_bibliography(bibliography()))
    assert not faults, "\n".join(faults)


def test_every_cited_key_exists() -> None:
    known = {key for key, _ in entries(bibliography())}
    lost = sorted({f"{file} cites {key}" for file, key in citations() if key not in known})
    assert not lost, "\n".join(lost)


SOUND = "@article{williams2009,\n  author = {Williams},\n  title = {Roofline},\n  year = {2009},\n}\n"


def test_a_sound_bibliography_has_no_fault() -> None:
    assert list(faults_of_bibliography(SOUND)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (SOUND + SOUND, "listed 2 times"),
        (SOUND.replace("  title = {Roofline},\n", ""), "has no title"),
        (SOUND.replace("williams2009", "Roofline"), "a key is an author and a year"),
        (SOUND.replace("\n}", " }"), "does not end"),
    ],
)
def test_a_faulty_bibliography_is_found(text: str, fault: str) -> None:
    assert any(fault in f for f in faults_of_bibliography(text))


def test_citations_are_found(tmp_path: Path) -> None:
    assert _CITED.findall("Source: [neusight2025], table 3; a [link2020](x), [byte], [1]") == ["neusight2025"]
    assert list(keys_in_tables({"h100": {"source": "nvidia2023h100", "links": [{"source": "a2020"}]}})) == [
        "nvidia2023h100",
        "a2020",
    ]
