"""``steptime``: mounts the verbs, and turns every error into one sentence and exit code 2."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from steptime.cli import catalogue, verbs
from steptime.errors import StepTimeError

app = typer.Typer(
    name="steptime",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Predict step time, memory, throughput and energy of deep learning on any accelerator, without a GPU.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"steptime {version('steptime')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Predict deep learning on any accelerator, without a GPU."""


verbs.mount(app)
app.add_typer(catalogue.app, name="catalogue")


def main() -> None:
    """Run the command line; errors that a user can mend end with one sentence and exit code 2."""
    try:
        app()
    except StepTimeError as error:
        typer.secho(f"steptime: {error}", err=True, fg="red")
        sys.exit(2)
    except KeyboardInterrupt:
        typer.secho("steptime: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has gone: nobody is left to tell
        sys.exit(0)
