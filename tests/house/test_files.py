"""Files stay short, and say nothing about the machine on which they were written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from house.places import ROOT, SOURCE, text_files

MAX_LINES = 400

# In pieces, so that this file does not contain them.
_PATHS = ["/" + p + "/" for p in ("work", "home", "root", "Users", "tmp/lab", "opt/wheels")]
_HOSTS = ["py" + "pi.org", "python" + "hosted.org", "registry." + "npmjs", "download." + "pytorch.org"]
FORBIDDEN = re.compile(
    r"(?<![\w.~$}])(" + "|".join(map(re.escape, _PATHS)) + ")|" + "|".join(map(re.escape, _HOSTS))
)


def forbidden_words(text: str) -> list[str]:
    lines = enumerate(text.splitlines(), start=1)
    return [f"line {number}: {m.group(0)}" for number, line in lines for m in FORBIDDEN.finditer(line)]


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = [
        f"{path.relative_to(ROOT)}, {word}"
        for path in text_files()
        for word in forbidden_words(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("word", [_PATHS[0], _PATHS[1], *_HOSTS])
def test_a_forbidden_word_is_found(word: str) -> None:
    assert forbidden_words(f"first line\nread '{word}data.csv'\n")


def test_a_path_within_the_repository_is_allowed() -> None:
    assert forbidden_words("tests/rooms/hardware and src/home/here and https://host/homepage") == []


def long_files(root: Path, reasons: str) -> list[str]:
    """Return the Python files below ``root`` that are too long without a reason in ``reasons``."""
    found = []
    for path in sorted(root.rglob("*.py")):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        name = path.relative_to(root).as_posix()
        if lines > MAX_LINES and f"`{name}`" not in reasons:
            found.append(f"{name} has {lines} lines")
    return found


@pytest.mark.parametrize("root", [SOURCE, ROOT / "tests"], ids=["source", "tests"])
def test_no_file_is_long_without_a_reason(root: Path) -> None:
    decisions = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    assert long_files(root, decisions) == []


def test_a_long_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("x = 1\n" * (MAX_LINES + 1))
    (tmp_path / "short.py").write_text("x = 1\n" * MAX_LINES)
    assert long_files(tmp_path, "nothing about it") == [f"long.py has {MAX_LINES + 1} lines"]
    assert long_files(tmp_path, "`long.py` is a table of names") == []


def badly_named_fragments(folder: Path) -> list[str]:
    name = re.compile(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md|README\.md")
    return [p.name for p in sorted(folder.iterdir()) if not name.fullmatch(p.name)]


def test_fragments_of_the_changelog_say_their_kind() -> None:
    assert badly_named_fragments(ROOT / "changelog.d") == []


def test_a_badly_named_fragment_is_found(tmp_path: Path) -> None:
    for name in ("README.md", "l40s-cache.changed.md", "notes.txt", "cache.improved.md"):
        (tmp_path / name).touch()
    assert badly_named_fragments(tmp_path) == ["cache.improved.md", "notes.txt"]
