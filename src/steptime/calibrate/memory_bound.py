"""Fit memory-bound kernels to public tables, one set per accelerator and dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from steptime.calibrate.fitted_file import FitError, FittedSet, source_of
from steptime.calibrate.split import is_held_out
from steptime.hardware import Accelerator, load_catalogue, relatives
from steptime.kernels.memory_bound import kernel_time_s
from steptime.kernels.row_blocks import KERNEL_SHAPES
from steptime.records.kernel_names import kernel_class

FloatArray = NDArray[np.float64]
FORMULA = "steptime.kernels.memory_bound.memory_bound_time_s"
COMMAND = "steptime calibrate memory-bound --data DIR"
TABLES = ("memory_bound_fp32.csv", "memory_bound_half.parquet")
_PULL, _ROBUST_SCALE = 0.05, 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class _Start:
    """Where a search begins, what it may not leave, and how strongly it is held where it began."""

    value: float
    low: float = 1e-9
    high: float = 1e9
    pull: float = 1.0


# Shared by all classes of an accelerator. `unit_threads` and `miss_sharpness` are assumptions, never fitted.
_DEVICE = {
    "bandwidth_fraction": _Start(value=0.87, low=0.5, high=0.93, pull=60),
    "floor_s": _Start(value=1.8e-6, low=1e-6, high=2.5e-6),
    "overlap_exponent": _Start(value=3.0, low=1.2, high=8.0, pull=4),
    "l1_row_fraction": _Start(value=1.0),
    "l2_row_fraction": _Start(value=0.45),
    "l2_usable_fraction": _Start(value=0.4, low=0.05, high=1.0, pull=4),
    "l2_bandwidth_ratio": _Start(value=1.5, low=1.2, high=6.0, pull=4),
    "lone_block_fraction": _Start(value=0.7, low=0.05, high=1.0),
}
_ASSUMED = {"unit_threads": 2048.0, "miss_sharpness": 6.0, "elementwise_element_cycles": 0.0}
# What a table can tell: sweeps over operands far above the cache say nothing of floors and hits in it.
_TOLD_BY_LONG_SWEEPS = ("bandwidth_fraction", "overlap_exponent", "l1_row_fraction", "l2_row_fraction")
_TOLD_BY_SHORT_KERNELS = (
    "bandwidth_fraction", "floor_s", "l2_usable_fraction", "l2_bandwidth_ratio", "lone_block_fraction",
)  # fmt: skip
# Cycles per class; where an accelerator has no rows of a class these stand: near what an A100 takes.
_CYCLES = {
    "gather_element_cycles": 1.6, "compiled_normalisation_element_cycles": 0.1,
    "compiled_normalisation_backward_element_cycles": 0.6, "library_normalisation_element_cycles": 0.1,
    "library_normalisation_backward_element_cycles": 0.3,
    "normalisation_block_cycles": 2500.0, "normalisation_round_cycles": 2500.0,
    "normalisation_backward_block_cycles": 3000.0, "normalisation_backward_round_cycles": 5000.0,
    "softmax_block_cycles": 3500.0, "softmax_round_cycles": 2500.0,
    "serving_normalisation_block_cycles": 500.0, "serving_normalisation_round_cycles": 1000.0,
    "serving_activation_block_cycles": 950.0, "serving_activation_round_cycles": 150.0,
    "serving_gated_activation_block_cycles": 250.0, "serving_gated_activation_round_cycles": 750.0,
    "serving_rotary_block_cycles": 20.0, "serving_rotary_round_cycles": 1300.0,
}  # fmt: skip
# What the loop around single calls adds, by series of one table; other tables hold kernels alone.
_LOOPS = {f"{s}_harness_s": 2e-5 for s in ("elementwise", "normalisation", "normalisation_random", "softmax")}
_TWO_INPUTS = ("add", "mul", "div", "pow")


def read_table(path: Path) -> pd.DataFrame:
    """Read one table into rows with bytes, class and time of a kernel; ``held_out`` marks the judges."""
    table = _read_half(path) if path.suffix == ".parquet" else _read_fp32(path)
    keys = table["op"] + "," + table["rows"].astype(str) + "," + table["columns"].astype(int).astype(str)
    return table.assign(held_out=is_held_out(keys))


def _read_fp32(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path)
    written = table["rows"] * table["columns"] * 4.0
    classes = np.array([kernel_class(op) for op in table["op"]])
    # layer norms were timed in two series: round numbers of rows, and random ones in another loop
    random = (table["op"] == "ln") & (table["rows"] % 1024 != 0)
    return table.assign(
        dtype="fp32", element_bytes=4.0, kernel_class=classes, cached_fraction=0.0,
        time_s=table["latency_us"] * 1e-6,
        loop=np.where(random, "normalisation_random", classes),
        bytes_read=written * np.where(table["op"].isin(_TWO_INPUTS), 2, 1), bytes_written=written,
    )  # fmt: skip


def _read_half(path: Path) -> pd.DataFrame:
    table = pd.read_parquet(path)
    flushed = table["clock"].str.contains("flushed")
    named = zip(table["op"], table["provider"], table["direction"] == "bwd", strict=True)
    # a layer with parallel attention and MLP adds both to its input: two kernels in one measurement
    twice = (table["op"] == "add") & table["source_path"].str.contains("phi-2")
    return table.assign(
        dtype=table["dtype"].replace({"float16": "fp16", "bfloat16": "bf16"}), element_bytes=2.0, loop="",
        kernel_class=[kernel_class(op, provider=by, backward=back) for op, by, back in named],
        cached_fraction=np.where(flushed, 0.0, 1.0),
        time_s=table["latency_us"] * 1e-6 / np.where(twice, 2, 1),
    )  # fmt: skip


def predict_table(table: pd.DataFrame, accelerator: Accelerator, values: Mapping[str, float]) -> FloatArray:
    """Predict a table's rows in the loop that measured them: the kernel plus what the loop adds.  [s]"""
    time_s = np.array([values.get(f"{s}_harness_s", 0.0) for s in table["loop"]])
    for name, rows in table.groupby(table["kernel_class"].to_numpy()):
        chosen = (table["kernel_class"] == name).to_numpy()
        column: dict[str, Any] = {
            n: rows[n].to_numpy(dtype=float) for n in ("rows", "columns", "cached_fraction")
        }
        if not KERNEL_SHAPES[str(name)].has_rows:
            outputs = rows["bytes_written"].to_numpy() / rows["element_bytes"].to_numpy()
            column |= {"rows": outputs, "columns": 1.0}
        time_s[chosen] += kernel_time_s(
            rows["bytes_read"].to_numpy(), rows["bytes_written"].to_numpy(), kernel_class=str(name),
            element_bytes=rows["element_bytes"].to_numpy(), fitted=values, **column, **_facts(accelerator),
        )  # fmt: skip
    return time_s


def _facts(accelerator: Accelerator) -> dict[str, float]:
    return {
        "bandwidth_bytes_per_s": accelerator.memory_bandwidth_bytes_per_s,
        "l1_bytes": accelerator.shared_memory_per_unit_bytes or 0.0, "l2_bytes": accelerator.l2_bytes or 0.0,
        "num_units": float(accelerator.num_units or 1), "clock_hz": accelerator.boost_clock_hz or np.nan,
    }  # fmt: skip


def _starts() -> dict[str, _Start]:
    plain = {n: _Start(value=v) for n, v in (_CYCLES | _LOOPS).items()}
    return _DEVICE | plain


def _free(table: pd.DataFrame) -> list[str]:
    """Name the parameters that the rows of a table can tell."""
    classes, loops = set(table["kernel_class"]), set(table["loop"])
    names = list(_TOLD_BY_LONG_SWEEPS if loops - {""} else _TOLD_BY_SHORT_KERNELS)
    cycles = ("element_cycles", "block_cycles", "round_cycles")
    names += [n for n in _CYCLES if any(n == f"{c}_{cycle}" for c in classes for cycle in cycles)]
    return names + [n for n in _LOOPS if n.removesuffix("_harness_s") in loops]


def _fit(table: pd.DataFrame, accelerator: Accelerator) -> dict[str, float]:
    starts = _starts()
    free = _free(table)
    measured = table["time_s"].to_numpy()
    pull = np.array([_PULL * starts[n].pull for n in free])
    begin, low, high = (np.log([getattr(starts[n], f) for n in free]) for f in ("value", "low", "high"))
    fixed = {n: 0.0 if n in _LOOPS else s.value for n, s in starts.items()} | _ASSUMED

    def values(x: FloatArray) -> dict[str, float]:
        return {**fixed, **dict(zip(free, np.exp(x).tolist(), strict=True))}

    def residual(x: FloatArray) -> FloatArray:
        error = np.log(predict_table(table, accelerator, values(x)) / measured)
        return np.concatenate([error, pull * (x - begin)])

    found = least_squares(residual, begin, bounds=(low, high), loss="soft_l1", f_scale=_ROBUST_SCALE).x
    return {n: _rounded(v) for n, v in values(found).items()}


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _without_rows(values: Mapping[str, float], accelerator: Accelerator) -> dict[str, float]:
    """Return the fractions of bandwidth for a caller that knows bytes but no rows, from typical rows."""
    facts = _facts(accelerator)

    def ratio_to_stream(name: str, columns: float) -> float:
        size = 4.0 * 32768 * columns
        time_s = kernel_time_s(size, size, kernel_class=name, rows=32768.0, columns=columns,
                               element_bytes=4.0, cached_fraction=0.0, fitted=values, **facts)  # fmt: skip
        stream_s = 2 * size / (facts["bandwidth_bytes_per_s"] * values["bandwidth_fraction"])
        return float((time_s - values["floor_s"]) / stream_s)

    cache = max(facts["l1_bytes"] * values["l1_row_fraction"],
                facts["l2_bytes"] * values["l2_row_fraction"] / facts["num_units"])  # fmt: skip
    fraction = values["bandwidth_fraction"]
    return {
        "elementwise_fraction": fraction, "softmax_fraction": fraction,
        "normalisation_fraction": fraction / ratio_to_stream("normalisation", 1024.0),
        "warp_columns": 1024.0, "block_columns": 2048.0 * max(ratio_to_stream("softmax", 2048.0) - 1.0, 0.0),
        "shared_columns": cache / 4.0 / 4.0, "extra_pass_ratio": 1.0,
    }  # fmt: skip


def fit_memory_bound(data: Path, progress: Callable[[str], None] = lambda _: None) -> list[FittedSet]:
    """Fit every accelerator and dtype of the tables in ``data``; the same files give the same sets."""
    made = []
    for path in (data / name for name in TABLES):
        table = read_table(path)
        for (name, dtype), rows in table.groupby(["accelerator", "dtype"], sort=True):
            accelerator = load_catalogue().find(str(name)).accelerator
            progress(f"memory-bound {accelerator.name} {dtype}")
            seen, unseen = rows[~rows["held_out"]], rows[rows["held_out"]]
            values = _fit(seen, accelerator)
            told = set(_free(seen))
            assumed = sorted(set(_DEVICE | _CYCLES) - told)
            made.append(
                FittedSet(
                    formula=FORMULA, accelerator=accelerator.name, dtype=str(dtype),
                    values=values | {n: _rounded(v) for n, v in _without_rows(values, accelerator).items()},
                    sources=[source_of(path, len(seen))], command=COMMAND,
                    error=FitError.of(predict_table(unseen, accelerator, values), unseen["time_s"]),
                    valid={"rows": [int(rows["rows"].min()), int(rows["rows"].max())],
                           "columns": [int(rows["columns"].min()), int(rows["columns"].max())]},
                    note="*_harness_s is what the loop adds, not the kernel. Without rows of its own, so "
                    f"assumed as on an A100: unit_threads, miss_sharpness, {', '.join(assumed)}",
                )
            )  # fmt: skip
    return made


def leave_one_out(data: Path) -> pd.DataFrame:
    """Predict each accelerator with the sets of its nearest relatives in the same dtype.

    What the loop adds belongs to the host that measured, so it stays as fitted on the accelerator's own rows.

    Returns
    -------
    DataFrame
        One row per accelerator, dtype and relative: mean, median, p90 and bias of the relative error.
    """
    sets = {(s.accelerator, s.dtype): s for s in fit_memory_bound(data)}
    catalogue = load_catalogue()
    found = []
    for table in (read_table(data / name) for name in TABLES):
        for (name, dtype), rows in table.groupby(["accelerator", "dtype"], sort=True):
            accelerator = catalogue.find(str(name)).accelerator
            others = [catalogue.find(a).accelerator for a, d in sets if d == dtype and a != accelerator.name]
            for other in relatives(accelerator, others)[:2]:
                own = {n: v for n, v in sets[accelerator.name, str(dtype)].values.items() if n in _LOOPS}
                borrowed: dict[str, Any] = {**sets[other.name, str(dtype)].values, **own}
                error = FitError.of(predict_table(rows, accelerator, borrowed), rows["time_s"])
                found.append({"accelerator": accelerator.name, "dtype": dtype, "from": other.name,
                              "mean": error.mean, "median": error.median, "p90": error.p90,
                              "bias": error.bias})  # fmt: skip
    return pd.DataFrame(found)
