"""Imports go down the stairs, and the contract that says so refuses what it should."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from house.places import PHYSICS, ROOT, SOURCE

# Beside the standard library, all that a formula may see. What a row means is the workload's word.
PHYSICS_MAY_IMPORT = {"numpy", "steptime.errors", "steptime.workload"}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_stairs_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("kernels/planted.py", "import steptime.memory"),
        ("memory/planted.py", "import steptime.kernels"),
        ("calibrate/planted.py", "import steptime.scoreboard"),
        ("workload/planted.py", "import steptime.prediction"),
        ("hardware/planted.py", "import steptime.workload"),
        ("kernels/planted.py", "import torch"),
        ("attic/__init__.py", "ROOM = 'that nobody drew'"),
    ],
)
def test_a_planted_violation_is_refused(file: str, line: str, tmp_path: Path) -> None:
    shutil.copytree(
        SOURCE, tmp_path / "src" / "steptime", ignore=shutil.ignore_patterns("data", "__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    planted = tmp_path / "src" / "steptime" / file
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(f'"""Planted."""\n\n{line}\n')
    done = lint_imports(tmp_path)
    assert done.returncode != 0
    room = f"steptime.{file.partition('/')[0]}"
    assert re.search(rf"{room}\b|{file.partition('/')[0]}\b", done.stdout + done.stderr)


def foreign_imports(text: str, room: str) -> Iterator[str]:
    """Yield what a file of a physics room imports from outside the standard library, numpy and itself."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for name in names:
            allowed = any(name == a or name.startswith(f"{a}.") for a in (*PHYSICS_MAY_IMPORT, room))
            if not allowed and name.partition(".")[0] not in sys.stdlib_module_names:
                yield name


@pytest.mark.parametrize("room", PHYSICS)
def test_physics_knows_arrays_and_nothing_else(room: str) -> None:
    folder = SOURCE / room.rpartition(".")[2]
    found = {
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in folder.rglob("*.py")
        for name in foreign_imports(path.read_text(encoding="utf-8"), room)
    }
    assert not found, "\n".join(sorted(found))


def test_a_foreign_import_is_found() -> None:
    text = "import json\nimport numpy\nimport steptime.hardware\ndef f():\n    from scipy import optimize\n"
    assert sorted(foreign_imports(text, "steptime.kernels")) == ["scipy", "steptime.hardware"]
