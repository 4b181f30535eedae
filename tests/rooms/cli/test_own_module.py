"""A person's own module in a file: what works, and what is said when it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rooms.cli.refusal import refusal_of
from steptime.cli.main import app

pytestmark = pytest.mark.needs_torch
RUN = CliRunner()
SOURCE = """
import torch
from torch import nn


class Raises(nn.Module):
    def forward(self, x):
        raise RuntimeError("the flux is too high")


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else x


def good():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))


def raises():
    return Raises()


def branches():
    return Branches()
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    return path


def test_a_factory_of_ones_own_is_predicted(source: Path) -> None:
    done = RUN.invoke(app, ["predict", f"{source}:good", "--input-shape", "32", "--on", "a100", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["num_parameters"] == 32 * 64 + 64 + 64 * 8 + 8


@pytest.mark.parametrize(
    ("factory", "shape", "words"),
    [
        ("raises", "32", "the flux is too high"),
        ("branches", "32", "train.py"),
        ("good", "33", "same reduction dim"),
        ("missing", "32", "missing"),
    ],
)
def test_what_cannot_be_captured_says_why(source: Path, factory: str, shape: str, words: str) -> None:
    told = refusal_of("predict", f"{source}:{factory}", "--input-shape", shape, "--on", "a100")
    assert words in told
