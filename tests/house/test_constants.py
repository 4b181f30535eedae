"""Formulas hold no number but mathematics: every other constant is an argument and comes from a shelf."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from house.places import PHYSICS, SOURCE

# Multiply-adds, halves, squares, the products of an attention or recurrent layer: what an equation writes.
MATHEMATICS = {0.5, *range(9)}
# A definition of a unit, or a guard against dividing by nothing.
DEFINITIONS = {1e-9, 1e-12, 1e-30, 1024}


def typed_constants(text: str) -> Iterator[str]:
    """Yield the numbers in the bodies of functions that are neither mathematics nor a definition.

    A module-level constant may hold one when the line above it says where it is from.
    """
    tree = ast.parse(text)
    lines = text.splitlines()
    for node in tree.body:
        explained = isinstance(node, ast.Assign | ast.AnnAssign) and _is_explained(lines, node.lineno)
        for literal in () if explained else _numbers(node):
            yield f"line {literal.lineno}: {literal.value}"


def _is_explained(lines: list[str], number: int) -> bool:
    """Tell whether the comment above (or on) a line names a source, a fit or an assumption."""
    said = lines[number - 1].partition("#")[2]
    for line in reversed(lines[: number - 1]):
        if not line.startswith("#"):
            break
        said = f"{line} {said}"
    return any(word in said.lower() for word in ("source:", "assumption", "defined by", "definition"))


def _numbers(node: ast.AST) -> Iterator[ast.Constant]:
    for child in ast.walk(node):
        is_number = isinstance(child, ast.Constant) and type(child.value) in (int, float)
        if is_number and child.value not in MATHEMATICS | DEFINITIONS:
            yield child


@pytest.mark.parametrize("room", PHYSICS)
def test_no_constant_is_typed_in_a_formula(room: str) -> None:
    folder = SOURCE / room.rpartition(".")[2]
    found = [
        f"{path.relative_to(SOURCE)}, {constant}"
        for path in sorted(folder.rglob("*.py"))
        for constant in typed_constants(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(["make these arguments, or say above them where they are from:", *found])


def test_a_typed_constant_is_found() -> None:
    text = "LIMIT = 17\n\ndef f_s(n):\n    '''Example: 99.'''\n    return 2 * n / 0.83\n"
    assert list(typed_constants(text)) == ["line 1: 17", "line 5: 0.83"]


def test_an_explained_constant_is_allowed() -> None:
    text = "# One sector.\n# Source: [nvidia2020], table 3.\nSECTOR_BYTES = 32\nWARP = 32  # definition\n"
    assert list(typed_constants(text)) == []
