"""``steptime``: mounts the verbs, and turns every error into one sentence and exit code 2."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, NoReturn

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


class _Interrupted(BaseException):
    """Ctrl-C, as nothing between here and the command catches it."""


def _interrupt(_signal: int, _frame: object) -> None:
    raise _Interrupted


def main() -> None:
    """Run the command line; errors that a user can mend end with one sentence and exit code 2."""
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        app()
    except StepTimeError as error:
        _end(str(error), code=2)
    except _Interrupted:
        _end("interrupted", code=130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has gone: nobody is left to tell
        sys.exit(0)
    except MemoryError:
        _end(
            "there is not enough memory on this machine for that; ask for a smaller step or accumulation.",
            code=2,
        )
    except Exception as error:
        if os.environ.get("STEPTIME_DEBUG"):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        _end(
            f"this is a fault of steptime ({what}); please report it with what STEPTIME_DEBUG=1 prints.",
            code=1,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def _end(sentence: str, *, code: int) -> NoReturn:
    typer.secho(f"steptime: {sentence}", err=True, fg="red")
    sys.exit(code)
