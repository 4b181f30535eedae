"""The package and the help of its command load nothing heavy."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "torchvision", "pandas", "pyarrow", "scipy", "transformers", "timm", "matplotlib")

_REPORT = (
    "import atexit, json, sys; atexit.register(lambda: print('LOADED', json.dumps(sorted(sys.modules))))\n"
)


def heavy_modules(code: str) -> list[str]:
    """Run ``code`` in a fresh interpreter; return which heavy packages it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", _REPORT + code], capture_output=True, text=True, timeout=120, check=False
    )
    marks = [line for line in done.stdout.splitlines() if line.startswith("LOADED ")]
    assert marks, done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    return [name for name in json.loads(marks[-1].removeprefix("LOADED ")) if name in HEAVY]


def test_the_package_is_light() -> None:
    assert heavy_modules("import steptime") == []


def test_the_public_names_are_listed_without_loading_them() -> None:
    assert heavy_modules("import steptime; dir(steptime)") == []


@pytest.mark.parametrize("arguments", [["--help"], ["predict", "--help"], ["catalogue", "list"]])
def test_the_command_is_light(arguments: list[str]) -> None:
    if importlib.util.find_spec("steptime.cli.main") is None:
        pytest.skip("the command is not written yet")
    code = f"import sys; sys.argv = ['steptime', *{arguments!r}]\nfrom steptime.cli.main import main; main()"
    assert heavy_modules(code) == []


def test_a_heavy_import_is_found() -> None:
    assert heavy_modules("import steptime, scipy") == ["scipy"]
