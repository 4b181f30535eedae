"""Fit memory-bound kernels to public tables, one set per accelerator and dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from steptime.calibrate.fitted_file import FitError, FittedSet, source_of
from steptime.calibrate.split import is_held_out
from steptime.hardware import Accelerator, load_catalogue
from steptime.kernels import memory_bound_time_s, softmax_traffic_ratio

FORMULA = "steptime.kernels.memory_bound.memory_bound_time_s"
COMMAND = "steptime calibrate memory-bound --data DIR"
TABLES = ("memory_bound_fp32.csv",)  # the table in half precision times kernels of serving engines, not PyTorch's
_CLASSES = {"ln": "normalisation", "layer_norm": "normalisation", "rms_norm": "normalisation", "softmax": "softmax"}
_TWO_INPUTS = {"add", "mul", "div", "pow"}
# Cache and rows: physics that the tables cannot separate (their operands are far larger than the cache).
_ASSUMED = {"floor_s": 2.5e-6, "l2_usable_fraction": 0.4, "l2_bandwidth_ratio": 2.5, "warp_columns": 1024.0}
# Logarithms of: fractions of bandwidth by class, loop overheads by class, and the three numbers of softmax.
_START = {
    "elementwise_fraction": 0.85, "normalisation_fraction": 0.8, "softmax_fraction": 0.8,
    "elementwise_harness_s": 1e-5, "normalisation_harness_s": 3e-5, "softmax_harness_s": 1e-5,
    "block_columns": 300.0, "shared_columns": 12288.0, "extra_pass_ratio": 0.5,
}  # fmt: skip
_FIXED = {"shared_columns"}


def read_table(path: Path) -> pd.DataFrame:
    """Read one table into rows with bytes, class and dtype; the key says which rows are held out."""
    table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    if "bytes_read" not in table:
        elements = table["rows"] * table["columns"] * 4.0
        table = table.assign(dtype="fp32", bytes_written=elements,
                             bytes_read=elements * np.where(table["op"].isin(_TWO_INPUTS), 2, 1))  # fmt: skip
    table = table.assign(
        dtype=table["dtype"].replace({"float16": "fp16", "bfloat16": "bf16"}),
        kind=[_CLASSES.get(op, "elementwise") for op in table["op"]],
    )
    keys = table["op"] + "," + table["rows"].astype(str) + "," + table["columns"].astype(int).astype(str)
    return table.assign(held_out=is_held_out(keys))


def predict_table(table: pd.DataFrame, accelerator: Accelerator, values: Mapping[str, float]) -> np.ndarray[Any, Any]:
    """Predict a table's rows in the loop that measured them: the kernel plus what the loop adds.  [s]"""
    kinds = table["kind"].to_numpy(dtype=str)

    def by_kind(suffix: str) -> np.ndarray[Any, Any]:
        return np.array([values[f"{k}_{suffix}"] for k in kinds])

    ratio = np.where(kinds == "softmax", softmax_traffic_ratio(table["columns"].to_numpy(), **_softmax(values)), 1.0)
    return by_kind("harness_s") + memory_bound_time_s(
        table["bytes_read"].to_numpy() * ratio, table["bytes_written"].to_numpy() * ratio,
        bandwidth_bytes_per_s=accelerator.memory_bandwidth_bytes_per_s, l2_bytes=accelerator.l2_bytes or 0.0,
        bandwidth_fraction=by_kind("fraction"), **{n: values[n] for n in ("floor_s", "l2_usable_fraction", "l2_bandwidth_ratio")},
    )  # fmt: skip


def _softmax(values: Mapping[str, float]) -> dict[str, float]:
    return {n: values[n] for n in ("warp_columns", "block_columns", "shared_columns", "extra_pass_ratio")}


def _fit(table: pd.DataFrame, accelerator: Accelerator) -> dict[str, float]:
    free = [n for n in _START if n not in _FIXED]
    measured = table["latency_us"].to_numpy() * 1e-6

    def values(x: np.ndarray[Any, Any]) -> dict[str, float]:
        return {**_START, **_ASSUMED, **dict(zip(free, np.exp(x), strict=True))}

    def residual(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        drift = 0.02 * (x - start)  # keeps what the rows do not determine where it began
        return np.concatenate([np.log(predict_table(table, accelerator, values(x)) / measured), drift])

    start = np.log([_START[n] for n in free])
    return values(least_squares(residual, start, loss="soft_l1", f_scale=0.1).x)


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
            made.append(
                FittedSet(
                    formula=FORMULA, accelerator=accelerator.name, dtype=str(dtype), values=values,
                    sources=[source_of(path, len(seen))], command=COMMAND,
                    error=FitError.of(predict_table(unseen, accelerator, values), unseen["latency_us"] * 1e-6),
                    valid={"rows": [int(rows["rows"].min()), int(rows["rows"].max())],
                           "columns": [int(rows["columns"].min()), int(rows["columns"].max())]},
                    note="harness_s is what the measuring loop adds, not the kernel; floor_s, l2_* and warp_columns are assumptions",
                )
            )  # fmt: skip
    return made
