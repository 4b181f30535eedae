"""``steptime validate``: predictions against measurements that no fit has seen."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from steptime.cli.options import Json
from steptime.cli.output import console, say
from steptime.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from steptime.scoreboard.score import Score

TOLERANCE = 0.005


def validate_command(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Tables of measurements (.csv, .parquet); our own when none.")
    ] = None,
    held_out: Annotated[bool, typer.Option("--held-out", help="Only rows that no fit has seen.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", help="At most so many rows of each file, by a fixed seed.")
    ] = 0,
    rows: Annotated[
        Path | None, typer.Option("--rows", help="Write the prediction beside each row to a CSV file.")
    ] = None,
    write: Annotated[Path | None, typer.Option("--write", help="Write the report as Markdown.")] = None,
    write_residuals: Annotated[
        bool, typer.Option("--write-residuals", help="Renew the residuals that give intervals.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Fail when a data set is worse than recorded.")
    ] = False,
    record: Annotated[bool, typer.Option("--record", help="Record the errors reached, for --check.")] = False,
    as_json: Json = False,
) -> None:
    """Score predictions against tables of measurements."""
    if limit < 0:
        raise InputError("--limit cannot be negative.")
    try:
        from steptime.scoreboard import board, report, tables
    except ImportError as error:
        if error.name and error.name.startswith("steptime"):
            raise
        raise MissingExtraError("Reading tables of measurements", "calibrate") from None
    from steptime.scoreboard.verdicts import Judgement

    judgement = Judgement()
    for path in files or tables.own_tables():
        with _progress(path.name) as progress:
            judgement.extend(board.judge_file(path, held_out=held_out, limit=limit, progress=progress)[0])
    shelf = Path(str(resources.files("steptime").joinpath("data", "fitted")))
    outputs = (
        (rows, lambda p: board.write_rows(judgement, p)),
        (write, lambda p: report.write(judgement, p)),
        (
            shelf / "residuals.json" if write_residuals else None,
            lambda p: board.write_residuals(judgement, p),
        ),
    )
    for path_of_output, act in outputs:
        _written(path_of_output, act)
    _show(board.scores(judgement), judgement.reasons(), as_json=as_json)
    _ratchet(board.totals(judgement), record=record, check=check)


def _show(found: list[Score], reasons: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([s.to_dict() for s in found], indent=2))
        return
    _print(found)
    for reason, count in reasons.items():
        say(f"not mapped, {count} rows: {reason}")


def _written(path: Path | None, act: Any) -> None:
    """Write an output that was asked for."""
    if path is None:
        return
    try:
        act(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None


@contextmanager
def _progress(name: str) -> Iterator[Any]:
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda what, done, total: bar.update(
            task, completed=done, total=total, description=f"{name}: {what}"
        )


def _print(found: list[Score]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in (
        "data set",
        "accelerator",
        "rows",
        "mean",
        "median",
        "p90",
        "bias",
        "in interval",
        "roofline",
        "others",
    ):
        table.add_column(name, justify="left" if name in {"data set", "accelerator", "others"} else "right")
    for s in found:
        others = ", ".join(f"{n} {e:.1%}" for n, e in s.rivals.items())
        table.add_row(
            s.dataset, s.accelerator, str(s.rows), f"{s.mean_error:.1%}", f"{s.median_error:.1%}", f"{s.p90_error:.1%}",
            f"{s.bias:+.1%}", "" if s.coverage is None else f"{s.coverage:.0%}",
            "" if s.baseline_roofline_error is None else f"{s.baseline_roofline_error:.0%}", others,
        )  # fmt: skip
    console.print(table)


def _ratchet(found: list[Score], *, record: bool, check: bool) -> None:
    """Compare with the recorded errors, or record new ones."""
    path = Path(str(resources.files("steptime").joinpath("data", "measured", "recorded.json")))
    reached = {s.dataset: round(s.mean_error, 5) for s in found}
    if record:
        path.write_text(json.dumps(reached, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if not check:
        return
    recorded = json.loads(path.read_text(encoding="utf-8"))
    worse = [
        f"{n} {reached[n]:.2%} (recorded {e:.2%})"
        for n, e in recorded.items()
        if n in reached and reached[n] > e + TOLERANCE
    ]
    if worse:
        say(f"worse than recorded: {', '.join(worse)}", quiet=True)
        raise typer.Exit(1)
    say("no data set is worse than recorded", quiet=True)
