"""Where things are: what every check of the house walks over."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "steptime"
DATA = SOURCE / "data"
PHYSICS = ("steptime.kernels", "steptime.memory")

# Ending of a name -> how a card writes its unit, in brackets. Longest first: `_flops_per_s` is no `_s`.
UNIT_OF_ENDING = {
    "_bytes_per_flop": "byte/flop",
    "_flops_per_byte": "flop/byte",
    "_flops_per_s": "flop/s",
    "_bytes_per_s": "byte/s",
    "_fraction": "1",
    "_ratio": "1",
    "_bytes": "byte",
    "_flops": "flop",
    "_hz": "Hz",
    "_s": "s",
    "_w": "W",
    "_j": "J",
}


def unit_of_name(name: str) -> str | None:
    """Return the unit that the ending of ``name`` promises, or None when it promises none."""
    if name.startswith("num_"):
        return "1"
    if len(name) <= 2:  # the symbol of a paper: `s` is a sequence, not a second
        return None
    return next((u for ending, u in UNIT_OF_ENDING.items() if f"_{name}".endswith(ending)), None)


def modules(package: str) -> Iterator[ModuleType]:
    """Import ``package`` and every public module below it."""
    face = importlib.import_module(package)
    yield face
    for found in pkgutil.walk_packages(face.__path__, f"{package}."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            yield importlib.import_module(found.name)


def public_functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions that ``module`` defines and does not hide."""
    for name, value in vars(module).items():
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__:
            yield name, value


def formulas() -> dict[str, Callable[..., Any]]:
    """Return the public functions of the physics rooms whose name ends in a unit, by full name."""
    return {
        f"{module.__name__}.{name}": function
        for room in PHYSICS
        for module in modules(room)
        for name, function in public_functions(module)
        if unit_of_name(name) is not None and not name.startswith("num_")
    }


def text_files() -> Iterator[Path]:
    """Yield the files that people write: code, tests, documents and settings."""
    suffixes = {".py", ".md", ".toml", ".json", ".csv", ".bib", ".yml", ".yaml", ".cfg", ".sh", ".txt"}
    folders = ("src", "tests", "docs", "benchmarks", "zoo", "changelog.d", ".ci")
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and (path.suffix in suffixes or folder == ".ci"):
                yield path
    for path in sorted(ROOT.iterdir()):
        if path.is_file() and (path.suffix in suffixes or path.name == "Makefile"):
            yield path
