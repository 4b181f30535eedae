"""Fit the parameters of recurrent layers: python -m steptime.calibrate.recurrent FOLDER

DeepBench measured six NVIDIA cards of 2015 to 2017 in fp32, with an input that is added as it is. One set is
fitted to all of them, each card's speed being free, and from there the set of the one in the catalogue.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.calibrate.convolution_tables import UNLISTED, card_facts
from steptime.calibrate.fitted_file import FitError, FittedSet, source_of, write
from steptime.calibrate.split import is_held_out
from steptime.errors import CatalogueError
from steptime.kernels.recurrent import recurrent_time_s
from steptime.workload.operator import Direction

FloatArray = NDArray[np.float64]
FORMULA = "steptime.kernels.recurrent.recurrent_time_s"
COMMAND = "steptime calibrate recurrent"
SHELF = Path(__file__).parents[1] / "data" / "fitted" / "recurrent"
TABLE = "rnn.csv"
GATES = {"vanilla": 1.0, "gru": 3.0, "lstm": 4.0}
DIRECTIONS = {
    "fwd": Direction.FORWARD,
    "bwd_data": Direction.DATA_GRADIENT,
    "bwd_weight": Direction.WEIGHT_GRADIENT,
}
LISTED = "P100-PCIE-16GB"
# Where every fit starts, and how far it may go. A value whose ends are equal is assumed, not fitted.
START: Mapping[str, tuple[float, float, float]] = {
    "step_latency_s": (2e-5, 2e-6, 1e-4),
    "gemm_peak_fraction": (0.9, 0.3, 1.0),
    "small_tile_penalty": (1.0, 0.05, 20.0),
    "k_overhead": (30.0, 1.0, 1000.0),
    "k_split_least": (512.0, 512.0, 512.0),
    "weight_gradient_ratio": (0.9, 0.3, 1.5),
    "data_gradient_ratio": (0.6, 0.05, 1.5),
    "bandwidth_fraction": (0.7, 0.2, 1.0),
    "l2_usable_fraction": (0.3, 0.3, 0.3),
    "l2_bandwidth_ratio": (3.0, 3.0, 3.0),
}
FREE = tuple(name for name, (_, low, high) in START.items() if low < high)
# Nothing newer than Pascal was measured: a step there waits for two or three launches of a newer driver.
ASSUMED_LATENCY_S = 1.5e-5
# Tiles of tensor cores as matrix products ask for; steps of small states stay bound by latency and bandwidth.
ASSUMED_ON_TENSOR_CORES = {
    "step_latency_s": ASSUMED_LATENCY_S, "small_tile_penalty": 2.0, "k_overhead": 200.0,
    "weight_gradient_ratio": 1.0, "data_gradient_ratio": 0.9,
}  # fmt: skip
ASSUMED = (("A100-SXM4-80GB", "fp32"), ("A100-SXM4-80GB", "fp16"), ("V100-SXM2-16GB", "fp16"))


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentTable:
    """Measured recurrent layers of one accelerator in fp32, in columns of shape (rows,)."""

    accelerator: str
    path: Path
    shape: Mapping[str, NDArray[Any]]
    facts: Mapping[str, float]
    measured_s: FloatArray
    held_out: NDArray[np.bool_]


def recurrent_tables(data_dir: Path) -> list[RecurrentTable]:
    """Read DeepBench's fp32 trainings on NVIDIA's cards."""
    import pandas as pd

    path = data_dir / "measured" / TABLE
    if not path.exists():
        raise CatalogueError(f"{path.name} is missing; name the folder that holds the measured tables.")
    table, facts = pd.read_csv(path), card_facts(data_dir)
    table = table[(table.dtype == "fp32") & table.direction.isin(list(DIRECTIONS)) & (table.phase == "train")]
    keys = table[["cell", "hidden", "batch", "timesteps"]].astype(str).agg(",".join, axis=1)
    table = table.assign(held_out=is_held_out(keys))
    return [
        _table(path, name, table[table.accelerator == name], facts[(name, "fp32")])
        for name in (LISTED, *UNLISTED)
    ]


def _table(path: Path, accelerator: str, part: Any, facts: Mapping[str, float]) -> RecurrentTable:
    ones = np.ones(len(part))
    shape: dict[str, NDArray[Any]] = {
        "layers": ones, "directions": ones, "steps": part.timesteps.to_numpy(float),
        "batch": part.batch.to_numpy(float), "input_size": 0 * ones, "hidden": part.hidden.to_numpy(float),
        "gates": part.cell.map(GATES).to_numpy(float),
        "direction": part.direction.map(DIRECTIONS).to_numpy(str),
    }  # fmt: skip
    needed = ("peak_flops_per_s", "bandwidth_bytes_per_s", "l2_bytes", "num_units")
    return RecurrentTable(
        accelerator=accelerator, path=path, shape=shape,
        facts={"element_bytes": 4.0, **{n: facts[n] for n in needed}},
        measured_s=part.latency_us.to_numpy(float) * 1e-6, held_out=part.held_out.to_numpy(bool),
    )  # fmt: skip


def fit_recurrent(data_dir: Path) -> list[FittedSet]:
    """Fit the sets that the table below ``data_dir`` allows, and state the assumed ones."""
    tables = recurrent_tables(data_dir)
    center = _fit(tables, _start(), speed=True)
    own = next(t for t in tables if t.accelerator == LISTED)
    values = _fit([own], center, pull=0.3)
    note = "the input is added as it is; latency holds the launches of CUDA 8; batch 32 runs backward unsplit"
    sets = [_set(own, values, _error(own, values), note=note)]
    for accelerator, dtype in ASSUMED:
        changed = {"step_latency_s": ASSUMED_LATENCY_S} if dtype == "fp32" else ASSUMED_ON_TENSOR_CORES
        note = "assumption: the fit of older cards with fewer, faster launches" + (
            "" if dtype == "fp32" else " and tiles of tensor cores"
        )
        assumed = {**center, **changed}
        sets.append(_set(own, assumed, None, note=note, accelerator=accelerator, dtype=dtype))
    return sets


def leave_one_out(data_dir: Path) -> dict[str, FitError]:
    """Predict the held-out rows of each card from the fit of the others."""
    tables = recurrent_tables(data_dir)
    return {
        t.accelerator: _error(t, _fit([o for o in tables if o is not t], _start(), speed=True))
        for t in tables
    }


def _start() -> dict[str, float]:
    return {name: start for name, (start, _, _) in START.items()}


def _set(
    table: RecurrentTable, values: Mapping[str, float], error: FitError | None, *, note: str,
    accelerator: str = "", dtype: str = "fp32",
) -> FittedSet:  # fmt: skip
    numbers = {n: v for n, v in table.shape.items() if v.dtype.kind == "f"}
    return FittedSet(
        formula=FORMULA, accelerator=accelerator or table.accelerator, dtype=dtype,
        values={name: float(f"{values[name]:.4g}") for name in START},
        sources=[source_of(table.path, int((~table.held_out).sum()))], command=COMMAND, error=error,
        valid={n: [float(v.min()), float(v.max())] for n, v in numbers.items()}, note=note,
    )  # fmt: skip


def _predict(table: RecurrentTable, values: Mapping[str, float], speed: float = 1.0) -> FloatArray:
    facts = {**table.facts, "peak_flops_per_s": table.facts["peak_flops_per_s"] * speed}
    arguments: dict[str, Any] = {**table.shape, **facts, **values}
    return recurrent_time_s(**arguments)


def _error(table: RecurrentTable, values: Mapping[str, float]) -> FitError:
    return FitError.of(_predict(table, values)[table.held_out], table.measured_s[table.held_out])


def _fit(
    tables: Sequence[RecurrentTable], start: dict[str, float], *, speed: bool = False, pull: float = 0.1
) -> dict[str, float]:
    """Fit the free values to all tables at once, each with a speed of its own where asked.

    ``pull`` draws the logarithms of all values towards where they start: few rows leave them there.
    """
    from scipy.optimize import least_squares

    first = np.log([start[n] for n in FREE] + [1.0] * len(tables) * speed)
    ends = [START[n][1:] for n in FREE] + [(0.7, 1.4)] * len(tables) * speed
    low, high = np.log(np.array(ends, dtype=float)).T + np.array([[-1e-9], [1e-9]])

    def residuals(x: FloatArray) -> FloatArray:
        numbers = np.exp(x)
        values = start | dict(zip(FREE, numbers, strict=False))
        speeds = numbers[len(FREE) :] if speed else np.ones(len(tables))
        pairs = zip(tables, speeds, strict=True)
        errors = [np.log(_predict(t, values, s) / t.measured_s)[~t.held_out] for t, s in pairs]
        count = sum(len(e) for e in errors)
        return np.concatenate([*errors, pull * 0.15 * np.sqrt(count / 100) * (x - first)])

    x = np.clip(first, low, high)
    for step in (0.05, 0.01):
        x = least_squares(
            residuals,
            x,
            bounds=(low, high),
            loss="soft_l1",
            f_scale=0.15,
            diff_step=np.array(step),
            max_nfev=60,
        ).x
    return start | {n: float(v) for n, v in zip(FREE, np.exp(x), strict=False)}


def main(arguments: Sequence[str], say: Callable[[str], None] = print) -> None:
    """Fit and write every set; say how far each is from rows that it did not see."""
    data_dir = Path(arguments[0])
    for fitted in fit_recurrent(data_dir):
        path = write(fitted, SHELF)
        say(f"{path.name:30} {fitted.error}")
    for name, error in leave_one_out(data_dir).items():
        say(f"without itself: {name:20} {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
