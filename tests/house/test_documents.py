"""What README and the guides tell a reader to type works."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from house.documents import blocks, commands, documents, faults_of_block
from house.places import ROOT

HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.mark.parametrize("path", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_document_does_what_it_says(path: Path, tmp_path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8")):
        if "needs-torch" in block.words and not HAS_TORCH:
            pytest.skip("needs torch: pip install 'steptime[torch]'")
        faults = list(faults_of_block(block, tmp_path))
        assert not faults, f"{path.name}, block at line {block.line}: " + "\n".join(faults)


def faults(text: str, folder: Path) -> list[str]:
    return [fault for block in blocks(text) for fault in faults_of_block(block, folder)]


SOUND = """
```python save=numbers.txt
1 2 3
```

```console
$ a command that is only shown
```

```console runnable exact
$ wc -w \\
    numbers.txt
3 ...
$ echo done
done
```

```python runnable
assert open("numbers.txt").read().split() == ["1", "2", "3"]
```
"""


def test_a_sound_document_has_no_fault(tmp_path: Path) -> None:
    assert faults(SOUND, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```console runnable\n$ no-such-command\n```\n", "ends with code 127"),
        ("```console runnable exact\n$ echo 1\n2\n```\n", "does not print"),
        ("```console runnable\nsteptime predict\n```\n", "no line that begins"),
        ("```python runnable\nassert False\n```\n", "ends with code 1"),
    ],
)
def test_a_faulty_document_is_found(text: str, fault: str, tmp_path: Path) -> None:
    assert any(fault in f for f in faults(text, tmp_path))


def test_an_output_belongs_to_the_command_above_it() -> None:
    (block,) = blocks("```console runnable\n$ a\nx\ny\n$ b\n```\n")
    assert list(commands(block)) == [("a", "x\ny"), ("b", "")]
