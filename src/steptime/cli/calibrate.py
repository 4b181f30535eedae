"""``steptime calibrate``: fit the formulas to tables of measurements anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steptime.cli.output import console, working
from steptime.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from steptime.calibrate.fitted_file import FittedSet


class Formula(StrEnum):
    """What can be fitted."""

    GEMM = "gemm"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    MEMORY_BOUND = "memory-bound"
    RECURRENT = "recurrent"
    IN_STEP = "in-step"


def _fitters() -> dict[Formula, Callable[[Path], Iterable[FittedSet]]]:
    try:
        from steptime.calibrate.attention import fit_attention
        from steptime.calibrate.convolution import fit_convolution
        from steptime.calibrate.gemm import fit_gemm
        from steptime.calibrate.in_step import fit_in_step
        from steptime.calibrate.memory_bound import fit_memory_bound
        from steptime.calibrate.recurrent import fit_recurrent
    except ImportError as error:
        if error.name and error.name.startswith("steptime"):
            raise
        raise MissingExtraError("Fitting formulas", "calibrate") from None
    return {
        Formula.GEMM: fit_gemm, Formula.CONVOLUTION: fit_convolution, Formula.ATTENTION: fit_attention,
        Formula.MEMORY_BOUND: fit_memory_bound, Formula.RECURRENT: fit_recurrent, Formula.IN_STEP: fit_in_step,
    }  # fmt: skip


def calibrate_command(
    formula: Annotated[Formula, typer.Argument(help="Which formula to fit.")],
    data: Annotated[Path, typer.Option("--data", help="Folder of the measured tables.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write below; the shelf of this installation.")
    ] = None,
) -> None:
    """Fit FORMULA to the tables in DATA and write its parameters with their provenance."""
    from importlib import resources

    if not data.is_dir():
        raise InputError(f"--data {data} is no folder.")
    fit = _fitters()[formula]
    from steptime.calibrate.fitted_file import write

    shelf = out or Path(str(resources.files("steptime").joinpath("data", "fitted")))
    try:
        with working(f"fitting {formula}"):
            sets = list(fit(data))
    except FileNotFoundError as error:
        raise InputError(f"A table is missing from {data}: {error.filename or error}.") from None
    for fitted in sets:
        path = write(fitted, shelf / _folder(fitted.formula))
        reached = (
            ""
            if fitted.error is None
            else f"held out: mean {fitted.error.mean:.1%}, p90 {fitted.error.p90:.1%}"
        )
        console.print(f"{fitted.accelerator} {fitted.dtype}: {reached}  [dim]{path.name}[/dim]")


_FOLDERS = {"sustained_clock_ratio": "sustained", "burst_clock_ratio": "burst", "in_step_ratio": "in_step"}


def _folder(formula: str) -> str:
    name = formula.rpartition(".")[2]
    return _FOLDERS.get(name, name.removesuffix("_time_s"))
