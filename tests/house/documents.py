"""Run the examples of README and guides as a reader would: block by block, in one empty folder.

A fenced block takes part when its first line says so:

    ```console runnable          each line that begins with `$ ` must succeed
    ```console runnable exact    ... and print what follows it, `...` standing for anything
    ```python runnable           runs as a script
    ```python save=train.py      becomes a file that later blocks use

`needs-torch` keeps a block, and so its document, away from machines without torch.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from house.places import ROOT

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One fenced block that takes part."""

    language: str
    words: tuple[str, ...]
    body: str
    line: int

    @property
    def save_as(self) -> str:
        """The file that the block becomes, or ''."""
        return next((w.removeprefix("save=") for w in self.words if w.startswith("save=")), "")


def documents() -> list[Path]:
    """Return README and the guides that have a block to run."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [p for p in found if p.exists() and blocks(p.read_text(encoding="utf-8"))]


def blocks(text: str) -> list[Block]:
    """Return the blocks of a document that take part, in their order."""
    found = []
    for match in _FENCE.finditer(text):
        language, *words = match["info"].split() or [""]
        if "runnable" in words or any(w.startswith("save=") for w in words):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(language=language, words=tuple(words), body=match["body"], line=line))
    return found


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output that is printed below it."""
    joined = block.body.replace("\\\n", " ")
    for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command.strip(), output.strip("\n")


def faults_of_block(block: Block, folder: Path) -> Iterator[str]:
    """Carry out ``block`` in ``folder``; yield what went wrong."""
    if block.save_as:
        (folder / block.save_as).write_text(block.body, encoding="utf-8")
    if "runnable" not in block.words:
        return
    if block.language == "python":
        yield from _faults_of_run("python -", "", block.body, folder)
        return
    found = list(commands(block))
    if not found:
        yield "has no line that begins with '$ '"
    for command, output in found:
        yield from _faults_of_run(command, output if "exact" in block.words else "", "", folder)


def _faults_of_run(command: str, expected: str, stdin: str, folder: Path) -> Iterator[str]:
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": here + os.pathsep + os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, input=stdin,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        yield f"{shlex.quote(command)} ends with code {done.returncode}:\n{done.stdout}{done.stderr}"
    elif expected and not _printed(expected, done.stdout):
        yield f"{shlex.quote(command)} does not print what the document shows, but:\n{done.stdout}"


def _printed(expected: str, output: str) -> bool:
    """Tell whether ``output`` is as ``expected``, in which `...` stands for anything and spaces are loose."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in expected.split("...")]
    return re.fullmatch(r"\s*" + r".*?".join(rf"\s*{p}\s*" for p in parts), output, re.DOTALL) is not None
