"""Read a formula card (numpydoc) and say what is wrong with it."""

from __future__ import annotations

import doctest
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any

from house.places import DATA, ROOT, unit_of_name

# Every unit that a card may write; spelling varies nowhere.
UNITS = ("1", "s", "byte", "flop", "flop/s", "byte/s", "flop/byte", "byte/flop", "W", "J", "Hz")
# Arguments that choose instead of measuring: they carry no unit.
_CHOICE = re.compile(r"\b(bool|str|StrEnum|Kind|Direction|Phase|Mapping|sequence of str|array of str)\b")
_BRACKET = re.compile(r"\[([^\[\]\s]+)\]")
_SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
_ENTRY = re.compile(r"^(?P<names>\w[\w, ]*?) ?(?:: ?(?P<type>.*))?$")
_KEY = re.compile(r"\[([a-z]+[a-z0-9-]*\d{4}[a-z0-9-]*)\]")
_FITTED = re.compile(r"fitted: ?(data/fitted/[\w./<>*{}-]*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One documented argument."""

    type: str
    text: str

    @property
    def unit(self) -> str | None:
        """The last bracketed unit of the description."""
        found = _BRACKET.findall(f"{self.type} {self.text}")
        return found[-1] if found else None


def sections(card: str) -> dict[str, str]:
    """Split a numpydoc docstring at its underlined titles; the head has the title ''."""
    marks = [(m["title"], m.start(), m.end()) for m in _SECTION.finditer(card)]
    starts = [("", 0, 0), *marks]
    ends = [start for _, start, _ in marks] + [len(card)]
    return {title: card[begin:end].strip("\n") for (title, _, begin), end in zip(starts, ends, strict=True)}


def arguments(section: str) -> dict[str, Argument]:
    """Read a Parameters section; names that share a line share their description."""
    found: dict[str, tuple[str, list[str]]] = {}
    current: list[str] = []
    for line in section.splitlines():
        entry = _ENTRY.match(line) if line and not line.startswith(" ") else None
        if entry:
            current = [n.strip().lstrip("*") for n in entry["names"].split(",")]
            found.update({n: (entry["type"] or "", []) for n in current})
        for name in current if not entry else ():
            found[name][1].append(line.strip())
    return {n: Argument(type=t, text=" ".join(lines)) for n, (t, lines) in found.items()}


def faults_of_card(name: str, function: Callable[..., Any], keys: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each fault of the card of ``function``, a formula called ``name``."""
    parts = sections(inspect.getdoc(function) or "")
    yield from _faults_of_arguments(function, arguments(parts.get("Parameters", "")))
    yield from _faults_of_result(name, parts.get("Returns", ""))
    yield from _faults_of_notes(parts.get("Notes", ""), keys)
    if ">>>" not in parts.get("Examples", ""):
        yield "has no example (a section Examples with >>>)"


def _faults_of_arguments(function: Callable[..., Any], documented: dict[str, Argument]) -> Iterator[str]:
    nouns = _nouns(function)
    for name in inspect.signature(function).parameters:
        argument = documented.pop(name, None)
        if argument is None:
            yield f"argument {name} is not documented"
        elif name not in nouns and not _CHOICE.search(argument.type):
            yield from _faults_of_unit(f"argument {name}", name, argument.unit)
    yield from (f"documents {name}, which is no argument" for name in documented)


def _nouns(function: Callable[..., Any]) -> set[str]:
    """Return the arguments that are dataclasses: their fields say the units."""
    try:
        hints = typing.get_type_hints(function)
    except NameError:
        return set()
    return {name for name, hint in hints.items() if is_dataclass(hint)}


def _faults_of_unit(what: str, name: str, unit: str | None) -> Iterator[str]:
    promised = unit_of_name(name)
    if unit is None:
        yield f"{what} has no bracketed unit"
    elif unit not in UNITS:
        yield f"{what} has the unit [{unit}]; write one of {', '.join(UNITS)}"
    elif promised is not None and unit != promised:
        yield f"{what} has the unit [{unit}], its name says [{promised}]"


def _faults_of_result(name: str, section: str) -> Iterator[str]:
    if not section:
        yield "has no section Returns"
        return
    found = _BRACKET.findall(section)
    yield from _faults_of_unit("the result", name.rpartition(".")[2], found[-1] if found else None)


def _faults_of_notes(notes: str, keys: Collection[str]) -> Iterator[str]:
    if not re.search(r"^Valid: ?\S", notes, re.MULTILINE):
        yield "does not say where it holds (Valid: in Notes)"
    source = re.search(r"^Source: ?(\S.*)", notes, re.MULTILINE | re.DOTALL)
    if source is None:
        yield "has no Source: in Notes"
        return
    yield from faults_of_source(source[1], keys)


def faults_of_source(text: str, keys: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the words after ``Source:``."""
    cited, fitted = _KEY.findall(text), _FITTED.findall(text)
    yield from (f"cites [{key}], which docs/references.bib lacks" for key in cited if key not in keys)
    for path in fitted:
        fixed = re.split(r"[<{*]", path)[0].rstrip("./")
        if not (DATA.parent / fixed).exists():
            yield f"names {path}, which does not exist"
    if not (cited or fitted or "derived here" in text or "assumption" in text.lower()):
        yield "Source: names neither a work, 'derived here', 'fitted: data/fitted/...' nor 'assumption'"


def failed_examples(module: Any) -> list[str]:
    """Run the examples of ``module``'s docstrings; return a report for each that fails."""
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(test, out=report.append)
    return report


def reference_keys() -> set[str]:
    """Return the keys of docs/references.bib."""
    path = ROOT / "docs" / "references.bib"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return set(re.findall(r"^@\w+\{([^,\s]+),", text, re.MULTILINE))
