"""Fit fused attention to public tables, one set per accelerator.

The forward table is of a serving engine; how much faster a training library's kernels are, and its backward
ones, comes from a table of training libraries. Each accelerator in either gets a set, and a few relatives do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from steptime.calibrate.fitted_file import FitError, FittedSet, source_of
from steptime.calibrate.split import is_held_out
from steptime.hardware import Accelerator, load_catalogue, similarity
from steptime.kernels import attention_time_s
from steptime.workload.operator import causal_fraction

FORMULA = "steptime.kernels.attention.attention_time_s"
COMMAND = "steptime calibrate attention --data DIR"
FORWARD, TRAINING = "attention_forward.parquet", "attention_training.parquet"
_SAMPLE = 4000
# Products of more elements than this overflow an offset in the engine's kernels: the rows are too fast.
_MOST_ELEMENTS = 2**30
# Where each parameter begins, and the range in which it means what its name says.
_RANGES = {
    "peak_fraction": (0.6, 0.2, 1.0), "width_64_ratio": (0.8, 0.4, 1.1), "width_256_ratio": (1.0, 0.5, 1.5),
    "width_512_ratio": (0.7, 0.3, 1.2), "block_start_s": (1e-6, 1e-7, 1e-5),
    "block_move_s": (1e-6, 1e-8, 1e-5), "block_start_exponent": (0.4, 0.01, 1.5),
    "tail_fraction": (0.8, 0.1, 2.0), "bandwidth_fraction": (0.8, 0.4, 0.95),
    "l2_bandwidth_ratio": (2.0, 1.0, 8.0), "l2_usable_fraction": (0.6, 0.2, 2.0),
    "floor_s": (4e-6, 5e-7, 1e-5),
}  # fmt: skip
_WIDTHS = {64: "width_64_ratio", 256: "width_256_ratio", 512: "width_512_ratio"}
# How kernels may be cut: block_rows, small_block_rows, width_step, packed_width.
_CUTS = tuple(itertools.product((64.0, 128.0, 256.0), (16.0, 64.0), (64.0, 256.0), (0.0, 128.0)))
# The kernels that torch and Transformer Engine run, by compute capability; the rest of the table is rivals.
_LIBRARY = {8: ("flash2",), 9: ("cudnn", "flash3"), 10: ("cudnn", "bf16", "fp8", "cudnn_fe")}
_RATIO_RANGE = (0.4, 1.8)
# The backward rate over the forward one where they were not timed apart: on the A100, 63 % of peak and 73 %.
# Source: [dao2023], section 4.1.
_BACKWARD_OVER_FORWARD = 0.86
# Cards without FlashAttention run a memory-efficient kernel: this part of a relative's rate. Assumption.
_MEMORY_EFFICIENT = {"V100-SXM2-16GB": ("A100-SXM4-80GB", 0.6), "T4": ("L40S", 0.6)}
# Blackwell cards without its new tensor memory run the kernels of Ada, with products at half the rate and the
# softmax at the same. Assumption.
_HALF_RATE = {"RTX-5090": "L40S"}
# Cards whose fp8 kernels were not timed: as much slower against the peak as those of the B200. Assumption.
_FP8_LIKE_B200 = ("H100-SXM5-80GB", "L40S")
_B200 = "B200-SXM-180GB"


def read_forward(path: Path) -> pd.DataFrame:
    """Read the forward table; a shape is held out on every accelerator at once."""
    table = pd.read_parquet(path)
    columns = ("batch", "seq_len", "heads", "kv_heads", "head_dim")
    table = table.assign(q_len=table["seq_len"], kv_len=table["seq_len"], head_dim_v=table["head_dim"])
    return table.assign(held_out=_held_out(table, columns))


def read_training(path: Path) -> pd.DataFrame:
    """Read the rows of the training libraries' own kernels in the table of training."""
    table = pd.read_parquet(path)
    table = table[np.isfinite(table["latency_us"]) & table["direction"].isin(("fwd", "bwd", "fwd+bwd"))]
    generation = {n: _generation(_accelerator(n)) for n in table["accelerator"].unique()}
    own = [
        b in _LIBRARY.get(generation[a], ())
        for b, a in zip(table["backend"], table["accelerator"], strict=True)
    ]
    table = pd.DataFrame(table[np.asarray(own) & ~(table["window"] > 0)])
    columns = ("batch", "q_len", "heads", "kv_heads", "head_dim")
    return table.assign(held_out=_held_out(table, columns), dtype=table["dtype"].replace({"fp16": "bf16"}))


def predict_table(
    table: pd.DataFrame,
    accelerator: Accelerator,
    values: Mapping[str, float],
    *,
    serving: bool,
    dtype: str = "bf16",
) -> Any:
    """Predict a table's rows.  [s]"""
    q, kv = table["q_len"].to_numpy(float), table["kv_len"].to_numpy(float)
    batch, heads, kv_heads = (table[c].to_numpy(float) for c in ("batch", "heads", "kv_heads"))
    d, dv = (table[c].to_numpy(float) for c in ("head_dim", "head_dim_v"))
    fraction = causal_fraction(table["causal"].to_numpy(float), q, kv)

    def time_s(backward: bool) -> Any:
        return attention_time_s(
            batch, heads, kv_heads, q, kv, d, dv, causal_fraction=fraction, backward=backward,
            element_bytes=2 if dtype == "bf16" else 1, num_units=accelerator.num_units or 1,
            peak_flops_per_s=accelerator.peak_flops_per_s[dtype],
            bandwidth_bytes_per_s=accelerator.memory_bandwidth_bytes_per_s,
            l2_bytes=accelerator.l2_bytes or 0.0, serving=serving, **values,
        )  # fmt: skip

    direction = table["direction"].to_numpy() if "direction" in table else np.full(len(table), "fwd")
    return np.where(direction == "bwd", 0.0, time_s(False)) + np.where(direction == "fwd", 0.0, time_s(True))


def fit_engine(table: pd.DataFrame, accelerator: Accelerator) -> dict[str, float]:
    """Fit the forward kernel of a serving engine to the rows of ``table``, cut by cut."""
    rows = table[table["batch"] * table["heads"] * table["seq_len"] * table["head_dim"] < _MOST_ELEMENTS]
    rows = rows.sample(min(_SAMPLE, len(rows)), random_state=0)
    few = rows.head(_SAMPLE // 2)
    start = np.log([r[0] for r in _RANGES.values()])
    tries = [(*_descend(few, accelerator, cut, start, 40), cut) for cut in _CUTS]
    _, x, cut = min(tries, key=lambda t: t[0])
    return _values(_descend(rows, accelerator, cut, x, 100)[1], cut)


def _descend(
    rows: pd.DataFrame, accelerator: Accelerator, cut: Sequence[float], start: Any, steps: int
) -> tuple[float, Any]:
    low, high = (np.log([r[i] for r in _RANGES.values()]) for i in (1, 2))
    measured = rows["latency_us"].to_numpy() * 1e-6

    def residual(x: Any) -> Any:
        return np.log(predict_table(rows, accelerator, _values(x, cut), serving=True) / measured)

    found = least_squares(residual, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, max_nfev=steps)
    return float(np.abs(np.expm1(residual(found.x))).mean()), found.x


def _values(x: Any, cut: Sequence[float]) -> dict[str, float]:
    names = ("block_rows", "small_block_rows", "width_step", "packed_width")
    free = dict(zip(_RANGES, np.exp(x).tolist(), strict=True))
    return {**free, **dict(zip(names, cut, strict=True)), "training_ratio": 1.0, "backward_ratio": 1.0}


def fit_training(
    rows: pd.DataFrame, accelerator: Accelerator, values: Mapping[str, float], dtype: str
) -> dict[str, float]:
    """Fit the rates of a training library's two kernels over that of the serving engine's."""
    measured = rows["latency_us"].to_numpy() * 1e-6
    apart = {"fwd", "bwd"} <= set(rows["direction"])

    def both(x: Any) -> dict[str, float]:
        backward = x[1] if apart else x[0] * _BACKWARD_OVER_FORWARD
        return {**values, "training_ratio": float(x[0]), "backward_ratio": float(backward)}

    def residual(x: Any) -> Any:
        return np.log(predict_table(rows, accelerator, both(x), serving=False, dtype=dtype) / measured)

    start = (1.0, 0.9) if apart else (1.0,)
    return both(least_squares(residual, start, bounds=_RATIO_RANGE, loss="soft_l1", f_scale=0.1).x)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tables:
    forward: pd.DataFrame
    training: pd.DataFrame
    data: Path

    def engine(self, name: str) -> pd.DataFrame:
        return self.forward[self.forward["accelerator"] == name]

    def library(self, name: str, dtype: str) -> pd.DataFrame:
        return self.training[(self.training["accelerator"] == name) & (self.training["dtype"] == dtype)]

    def sources(self, engine: str, library: str, dtype: str) -> list[dict[str, Any]]:
        rows = {FORWARD: self.engine(engine), TRAINING: self.library(library, dtype)}
        return [source_of(self.data / f, int((~r["held_out"]).sum())) for f, r in rows.items() if not r.empty]


def fit_attention(data: Path, progress: Callable[[str], None] = lambda _: None) -> list[FittedSet]:
    """Fit every accelerator of the tables in ``data``; the same files give the same sets."""
    tables = _Tables(forward=read_forward(data / FORWARD), training=read_training(data / TRAINING), data=data)
    engines: dict[str, dict[str, float]] = {}
    for name in sorted(tables.forward["accelerator"].unique()):
        progress(f"attention {name}")
        rows = tables.engine(name)
        engines[name] = fit_engine(rows[~rows["held_out"]], _accelerator(name))
    _fill_widths(engines, tables)
    made = _fit_libraries(engines, tables)
    by_key = {(f.accelerator, f.dtype): f for f in made}
    made += [_slower(by_key[like, "bf16"], name, part) for name, (like, part) in _MEMORY_EFFICIENT.items()]
    made += [_half_rate(by_key[like, "bf16"], name) for name, like in _HALF_RATE.items()]
    fp8 = _number(by_key[_B200, "fp8"], "peak_fraction") / _number(by_key[_B200, "bf16"], "peak_fraction")
    made += [_as_fp8(by_key[name, "bf16"], fp8) for name in _FP8_LIKE_B200]
    return made


def leave_one_out(sets: Sequence[FittedSet], data: Path) -> dict[str, tuple[str, FitError]]:
    """Predict each accelerator's held-out forward rows with its nearest relative's set, and say whose."""
    table, found = read_forward(data / FORWARD), {}
    by_name = {f.accelerator: f for f in sets if f.dtype == "bf16" and f.error is not None}
    for name, all_rows in table.groupby("accelerator", sort=True):
        accelerator, rows = _accelerator(str(name)), all_rows[all_rows["held_out"]]
        others = [_accelerator(n) for n in by_name if n in set(table["accelerator"]) and n != name]
        donor = max(others, key=lambda o: similarity(accelerator, o)).name
        values = _scaled(by_name[donor], 1.0)
        predicted = predict_table(rows, accelerator, values, serving=True)
        found[str(name)] = (donor, FitError.of(predicted, rows["latency_us"] * 1e-6))
    return found


def _fill_widths(engines: dict[str, dict[str, float]], tables: _Tables) -> None:
    """Take ratios of widths that an accelerator was not timed with from the nearest that was."""
    timed = {name: set(tables.engine(name)["head_dim"]) for name in engines}
    for name, (width, key) in itertools.product(engines, _WIDTHS.items()):
        if width not in timed[name]:
            donor = max((n for n in engines if width in timed[n]), key=lambda n: _kinship(name, n))
            engines[name][key] = engines[donor][key]


def _fit_libraries(engines: Mapping[str, dict[str, float]], tables: _Tables) -> list[FittedSet]:
    """Fit training libraries where they were timed; elsewhere take the ratios of the nearest accelerator."""
    timed = sorted(set(tables.training["accelerator"]))
    ratios: dict[str, dict[str, float]] = {}
    made = []
    for name in timed + sorted(set(engines) - set(timed)):
        engine = max(engines, key=lambda n: _kinship(name, n))
        if name in timed:
            values = _library_values(name, engines[engine], tables, "bf16")
        else:
            donor = max(ratios, key=lambda n: _kinship(name, n))
            values = {**engines[engine], **ratios[donor]}
        ratios[name] = {k: values[k] for k in ("training_ratio", "backward_ratio")}
        made.append(_set_of(name, values, tables, engine, "bf16"))
        if not tables.library(name, "fp8").empty:
            made.append(_set_of(name, _fp8_values(name, values, tables), tables, engine, "fp8"))
    return made


def _library_values(name: str, values: Mapping[str, float], tables: _Tables, dtype: str) -> dict[str, float]:
    rows = tables.library(name, dtype)
    return fit_training(rows[~rows["held_out"]], _accelerator(name), values, dtype)


def _fp8_values(name: str, values: Mapping[str, float], tables: _Tables) -> dict[str, float]:
    """Lower the fraction of the fp8 peak until the ratio of training to serving is that of bf16."""
    first = _library_values(name, values, tables, "fp8")
    lowered = values["peak_fraction"] * first["training_ratio"] / values["training_ratio"]
    return _library_values(name, {**values, "peak_fraction": lowered}, tables, "fp8")


def _set_of(name: str, values: dict[str, float], tables: _Tables, engine: str, dtype: str) -> FittedSet:
    accelerator, engine_rows, rows = _accelerator(name), tables.engine(name), tables.library(name, dtype)
    serving = dtype == "bf16" and not engine_rows.empty
    judged = engine_rows if serving else rows
    judged = judged[judged["held_out"]]
    predicted = predict_table(judged, accelerator, values, serving=serving, dtype=dtype)
    error = FitError.of(predicted, judged["latency_us"] * 1e-6)
    used = judged if serving else rows
    return FittedSet(
        formula=FORMULA, accelerator=name, dtype=dtype, values=values, command=COMMAND,
        sources=tables.sources(engine, name, dtype), error=error,
        valid={"seq_len": [1 if serving else 512, int(used["q_len"].max())],
               "head_dim": [int(used["head_dim"].min()), int(used["head_dim"].max())]},
        note=_note(rows, accelerator, values, engine, dtype),
    )  # fmt: skip


def _note(
    rows: pd.DataFrame, accelerator: Accelerator, values: Mapping[str, float], engine: str, dtype: str
) -> str:
    said = "" if engine == accelerator.name else f"the serving engine's kernel was timed on {engine}; "
    if rows.empty:
        return (
            f"{said}training libraries were not timed here: their ratios are those of the nearest accelerator"
        )
    kept = rows[rows["held_out"]] if rows["held_out"].any() else rows
    which = "kept out" if rows["held_out"].any() else "fitted"
    predicted = predict_table(kept, accelerator, values, serving=False, dtype=dtype)
    error = FitError.of(predicted, kept["latency_us"] * 1e-6)
    if not {"fwd", "bwd"} <= set(rows["direction"]):
        said += f"backward over forward assumed {_BACKWARD_OVER_FORWARD}; "
    return f"{said}training libraries' rows {which}: {len(kept)}, mean error {error.mean:.1%}"


def _slower(like: FittedSet, name: str, part: float) -> FittedSet:
    note = f"assumption: a memory-efficient kernel at {part} of the rate of {like.accelerator}"
    return replace(like, accelerator=name, values=_scaled(like, part), error=None, note=note)


def _half_rate(like: FittedSet, name: str) -> FittedSet:
    reached = _number(like, "peak_fraction") * _number(like, "training_ratio")
    part = 2 / (1 + reached)  # 1 / (1 + (1 / reached - 1) / 2) over reached
    note = f"assumption: the kernels of {like.accelerator}, products at half their rate, the softmax as there"
    return replace(like, accelerator=name, values=_scaled(like, part), error=None, note=note)


def _as_fp8(like: FittedSet, part: float) -> FittedSet:
    note = f"assumption: the set in bf16, with {part:.2f} of its part of the peak, as on the {_B200}"
    return replace(like, dtype="fp8", values=_scaled(like, part), error=None, note=note)


def _scaled(like: FittedSet, part: float) -> dict[str, float]:
    values = {name: _number(like, name) for name in like.values}
    return {**values, "peak_fraction": values["peak_fraction"] * part}


def _number(fitted: FittedSet, name: str) -> float:
    value = fitted.values[name]
    assert isinstance(value, float)
    return value


def _kinship(name: str, other: str) -> tuple[Any, ...]:
    """Judge whether two accelerators run the same kernels: by generation, then as everywhere."""
    one, two = _accelerator(name), _accelerator(other)
    return (name == other, _generation(one) == _generation(two), similarity(one, two))


def _generation(accelerator: Accelerator) -> int:
    """Return the major compute capability: kernels are written for one."""
    return int(float(accelerator.compute_capability))


def _accelerator(name: str) -> Accelerator:
    return load_catalogue().find(name).accelerator


def _held_out(table: pd.DataFrame, columns: Sequence[str]) -> Any:
    keys = (",".join(map(str, values)) for values in zip(*(table[c] for c in columns), strict=True))
    return is_held_out(keys)
