"""Fit fused attention to public tables, one set per accelerator."""

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
from steptime.kernels import attention_time_s
from steptime.workload.operator import causal_fraction

FORMULA = "steptime.kernels.attention.attention_time_s"
COMMAND = "steptime calibrate attention --data DIR"
FORWARD, TRAINING = "attention_forward.parquet", "attention_training.parquet"
_SAMPLE = 4000
# Where each parameter begins, and the range in which it means what its name says.
_RANGES = {
    "peak_fraction": (0.6, 0.2, 1.0), "narrow_exponent": (0.3, 0.01, 1.5), "wide_exponent": (0.1, 0.001, 1.5),
    "prologue_tiles": (1.0, 0.05, 8.0), "tile_latency_s": (3e-7, 3e-8, 3e-6), "idle_exponent": (2.0, 1.0, 8.0),
    "bandwidth_fraction": (0.5, 0.1, 0.95), "floor_s": (5e-6, 1e-6, 2e-5),
}  # fmt: skip
_DRIFT = 2.0  # keeps what an accelerator's rows do not determine (widths of heads it lacks) where it began
_SMALL_TILES = (16.0, 32.0, 64.0)
_BACKWARD_BACKENDS = ("cudnn", "flash2", "flash3", "flash_attention", "pyt_flash_attention", "pyt_cudnn", "cudnn_fe")
# FlashAttention-2's backward over its forward rate where no backward was measured. Source: [dao2023], figure 5.
_BACKWARD_DEFAULT = 0.8


def read_forward(path: Path) -> pd.DataFrame:
    """Read the forward table; the key says which shapes are held out on every accelerator."""
    table = pd.read_parquet(path)
    columns = ("batch", "seq_len", "heads", "kv_heads", "head_dim")
    keys = [",".join(map(str, values)) for values in zip(*(table[c] for c in columns), strict=True)]
    return table.assign(
        held_out=is_held_out(keys), q_len=table["seq_len"], kv_len=table["seq_len"], head_dim_v=table["head_dim"]
    )


def predict_table(table: pd.DataFrame, accelerator: Accelerator, values: Mapping[str, float], *, backward: bool) -> Any:
    """Predict a table's rows.  [s]"""
    q, kv = table["q_len"].to_numpy(float), table["kv_len"].to_numpy(float)
    return attention_time_s(
        *(table[c].to_numpy(float) for c in ("batch", "heads", "kv_heads")), q, kv,
        table["head_dim"].to_numpy(float), table["head_dim_v"].to_numpy(float),
        causal_fraction=causal_fraction(table["causal"].to_numpy(float), q, kv), backward=np.full(len(table), backward),
        element_bytes=2, peak_flops_per_s=accelerator.peak_flops_per_s["bf16"],
        bandwidth_bytes_per_s=accelerator.memory_bandwidth_bytes_per_s, num_units=accelerator.num_units or 1, **values,
    )  # fmt: skip


def _fit(table: pd.DataFrame, accelerator: Accelerator) -> dict[str, float]:
    sample = table.sample(min(_SAMPLE, len(table)), random_state=0)
    measured = sample["latency_us"].to_numpy() * 1e-6
    start, low, high = (np.log([r[i] for r in _RANGES.values()]) for i in range(3))
    tries = []
    for small in _SMALL_TILES:

        def values(x: Any, small: float = small) -> dict[str, float]:
            free = dict(zip(_RANGES, np.exp(x).tolist(), strict=True))
            return {**free, "small_tile": small, "backward_ratio": _BACKWARD_DEFAULT}

        def residual(x: Any, values: Callable[[Any], dict[str, float]] = values) -> Any:
            error = np.log(predict_table(sample, accelerator, values(x), backward=False) / measured)
            return np.concatenate([error, _DRIFT * (x - start)])

        found = least_squares(residual, start, bounds=(low, high), loss="soft_l1", f_scale=0.15)
        tries.append((float(found.cost), values(found.x)))
    return min(tries, key=lambda t: t[0])[1]


def _backward_ratio(path: Path, accelerator: Accelerator, values: dict[str, float]) -> float:
    """Return the backward rate over the forward one: the median over measured backward passes."""
    table = pd.read_parquet(path)
    rows = table[
        (table["accelerator"] == accelerator.name) & (table["direction"] == "bwd") & table["dtype"].isin(("bf16", "fp16"))
        & table["backend"].isin(_BACKWARD_BACKENDS) & ~(table["window"] > 0)
    ]  # fmt: skip
    if rows.empty:
        return _BACKWARD_DEFAULT
    alike = predict_table(rows, accelerator, {**values, "backward_ratio": 1.0}, backward=True)
    return float(np.clip(np.median(alike / (rows["latency_us"].to_numpy() * 1e-6)), 0.3, 1.3))


def fit_attention(data: Path, progress: Callable[[str], None] = lambda _: None) -> list[FittedSet]:
    """Fit every accelerator of the tables in ``data``; the same files give the same sets."""
    table, made = read_forward(data / FORWARD), []
    for name, rows in table.groupby("accelerator", sort=True):
        accelerator = load_catalogue().find(str(name)).accelerator
        progress(f"attention {accelerator.name}")
        seen, unseen = rows[~rows["held_out"]], rows[rows["held_out"]]
        values = _fit(seen, accelerator)
        values["backward_ratio"] = _backward_ratio(data / TRAINING, accelerator, values)
        made.append(
            FittedSet(
                formula=FORMULA, accelerator=accelerator.name, dtype="bf16", values=values,
                sources=[source_of(data / FORWARD, len(seen)), source_of(data / TRAINING, 0)], command=COMMAND,
                error=FitError.of(predict_table(unseen, accelerator, values, backward=False), unseen["latency_us"] * 1e-6),
                valid={"seq_len": [1, int(rows["seq_len"].max())], "head_dim": [64, int(rows["head_dim"].max())]},
                note="backward_ratio is the median over measured backward passes, or 0.8 where none was measured",
            )
        )  # fmt: skip
    return made
