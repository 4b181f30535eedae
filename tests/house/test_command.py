"""Every command and every option of the command line says what it is for."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

COMMANDS = {"predict", "compare", "capture", "catalogue list", "catalogue show", "validate", "calibrate"}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every command below ``command``, groups too, with the words that call it."""
    yield " ".join(path), command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


def faults_of_command(words: str, command: Any) -> Iterator[str]:
    if not (command.help or "").strip():
        yield f"{words}: has no help"
    for parameter in command.params:
        if not (getattr(parameter, "help", None) or "").strip():
            yield f"{words}: {parameter.name} has no help"


@pytest.fixture
def app() -> typer.Typer:
    if importlib.util.find_spec("steptime.cli.main") is None:
        pytest.skip("the command is not written yet")
    from steptime.cli.main import app

    return app


def test_the_promised_commands_exist(app: typer.Typer) -> None:
    missing = COMMANDS - {words for words, _ in commands(typer.main.get_command(app))}
    assert not missing


def test_every_command_and_option_has_help(app: typer.Typer) -> None:
    faults = [f for words, c in commands(typer.main.get_command(app)) for f in faults_of_command(words, c)]
    assert not faults, "\n".join(faults)


def test_help_is_printed_for_every_command(app: typer.Typer) -> None:
    for words, _ in commands(typer.main.get_command(app)):
        result = CliRunner().invoke(app, [*words.split(), "--help"])
        assert result.exit_code == 0, f"{words}: {result.output}"
        assert "Usage" in result.output


def test_an_unknown_option_ends_with_code_2(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["predict", "--no-such-option"]).exit_code == 2


def test_a_command_without_help_is_found() -> None:
    planted = typer.Typer()

    @planted.command()
    def silent(batch: int = 1) -> None: ...

    @planted.command()
    def spoken(batch: int = typer.Option(1, help="Samples.")) -> None:
        """Say something."""

    tree = typer.main.get_command(planted)
    faults = [f for words, c in commands(tree) for f in faults_of_command(words, c) if words]
    assert "silent: has no help" in faults
    assert "silent: batch has no help" in faults
    assert not any(f.startswith("spoken") for f in faults)
