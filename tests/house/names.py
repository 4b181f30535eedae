"""Collect every public name of the house, and propose glossary entries for those that have none.

make names          prints what docs/glossary.toml lacks, ready to paste
"""

from __future__ import annotations

import ast
import csv
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from house.cards import UNITS, arguments, sections
from house.places import DATA, ROOT, SOURCE, unit_of_name

GLOSSARY = ROOT / "docs" / "glossary.toml"
_CLEANING = str.maketrans({'"': "'", "\\": "/", "`": ""})


def glossary() -> dict[str, dict[str, Any]]:
    """Return the tables `quantities` and `words` of the glossary."""
    return tomllib.loads(GLOSSARY.read_text(encoding="utf-8"))


def names_of_code(text: str, where: str) -> Iterator[tuple[str, str, str]]:
    """Yield (name, where it stands, what its docstring says of it) for each public name in ``text``."""
    for node in ast.parse(text).body:
        yield from _names_of_node(node, where)


def _names_of_node(node: ast.stmt, where: str) -> Iterator[tuple[str, str, str]]:
    name = getattr(node, "name", "_")
    if name.startswith("_") and name != "__init__":
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _names_of_signature(node, f"{where}.{name}")
    elif isinstance(node, ast.ClassDef):
        for member in node.body:
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                field = member.target.id
                yield from () if field.startswith("_") else [(field, f"{where}.{name}", "")]
            yield from _names_of_node(member, f"{where}.{name}")


def _names_of_signature(node: Any, where: str) -> Iterator[tuple[str, str, str]]:
    documented = arguments(sections(ast.get_docstring(node) or "").get("Parameters", ""))
    everything = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    everything += [a for a in (node.args.vararg, node.args.kwarg) if a]
    for argument in everything:
        if argument.arg not in ("self", "cls") and not argument.arg.startswith("_"):
            said = documented[argument.arg].text if argument.arg in documented else ""
            yield argument.arg, where, said


def names_of_table(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the columns of a CSV file of a data shelf."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(line for line in file if not line.startswith("#"))
        for column in next(rows, []):
            yield column, str(path.relative_to(DATA)), ""


def all_names() -> dict[str, tuple[list[str], str]]:
    """Return each public name with the places that use it and the first description found."""
    found: dict[str, tuple[list[str], str]] = {}
    files = [p for p in sorted(SOURCE.rglob("*.py")) if not p.name.startswith("_") or p.name == "__init__.py"]
    uses = [u for p in files for u in names_of_code(p.read_text(encoding="utf-8"), _dotted(p))]
    uses += [u for p in sorted(DATA.rglob("*.csv")) for u in names_of_table(p)]
    for name, where, said in uses:
        if not _is_vocabulary(name, where):
            continue
        places, before = found.get(name, ([], ""))
        found[name] = ([*places, where], before or said)
    return found


# Rooms whose every name is a quantity or a word of the model; elsewhere only names with a unit must be known:
# options explain themselves in --help, columns of others' tables in their README.
_VOCABULARY = (
    "kernels.",
    "memory.",
    "workload.operator",
    "workload.table",
    "workload.recipe",
    "prediction.prediction",
)


def _is_vocabulary(name: str, where: str) -> bool:
    return where.startswith(_VOCABULARY) or unit_of_name(name) is not None


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def missing(names: Mapping[str, tuple[list[str], str]], known: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a proposed glossary line for each name that has no entry."""
    listed = {n for table in known.values() for n in table}
    return [_proposal(n, *names[n]) for n in sorted(set(names) - listed)]


def _proposal(name: str, places: list[str], said: str) -> str:
    unit = unit_of_name(name)
    meaning = re.sub(r"\s*\[[^\]]*\]", "", said).translate(_CLEANING).strip() or "TODO"
    line = (
        f'{name} = {{ symbol = "", unit = "{unit}", meaning = "{meaning}" }}'
        if unit
        else f'{name} = "{meaning}"'
    )
    return f"{line}  # {places[0]}"


def faults_of_glossary(known: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with the glossary itself."""
    if set(known) != {"quantities", "words"}:
        yield "the glossary has two tables, quantities and words"
    for title, table in known.items():
        check = _faults_of_quantity if title == "quantities" else _faults_of_word
        for name, entry in table.items():
            yield from (f"{name}: {fault}" for fault in check(name, entry))
        if list(table) != sorted(table):
            yield f"{title}: keep the names in the order of the alphabet"
    yield from (f"{n}: listed twice" for n in set(known.get("quantities", ())) & set(known.get("words", ())))


def _faults_of_quantity(name: str, entry: Mapping[str, str]) -> Iterator[str]:
    if set(entry) != {"symbol", "unit", "meaning"}:
        yield "a quantity has a symbol, a unit and a meaning"
        return
    if entry["unit"] not in UNITS or unit_of_name(name) not in (None, entry["unit"]):
        yield f"unit {entry['unit']!r} against {unit_of_name(name)!r} by its name"
    if entry["meaning"] in ("", "TODO"):
        yield "has no meaning yet"


def _faults_of_word(name: str, meaning: str) -> Iterator[str]:
    if unit_of_name(name) is not None:
        yield "ends in a unit, so it is a quantity"
    if meaning in ("", "TODO"):
        yield "has no meaning yet"


if __name__ == "__main__":
    print("\n".join(missing(all_names(), glossary())))  # noqa: T201 -- this is the command's result
