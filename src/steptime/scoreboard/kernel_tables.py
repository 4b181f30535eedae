"""Judge tables of single kernels with the very formulas and fits that predictions use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steptime.errors import StepTimeError
from steptime.hardware import Accelerator, load_catalogue
from steptime.prediction.device_times import device_times
from steptime.prediction.peaks import peak_of
from steptime.records.split import is_held_out
from steptime.scoreboard.memory_tables import memory_bound_times_s, names_of
from steptime.scoreboard.product_tables import product_times_s
from steptime.scoreboard.verdicts import Judgement, NotMapped, Verdict
from steptime.workload.operator import NUM_DIMS, Direction, Kind, Phase
from steptime.workload.table import Operators

_SERVING = ("attention_forward",)  # timed in a serving engine
MEMORY = ("memory_bound_fp32", "memory_bound_half")
PRODUCTS = ("gemm", "matmul_fp32", "gemm_sustained")
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "nvfp4": "fp4"}
_SIZES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "fp4": 0.5, "int8": 1.0}
_NORMS = {
    "ln": Kind.NORMALISATION,
    "layer_norm": Kind.NORMALISATION,
    "rms_norm": Kind.NORMALISATION,
    "softmax": Kind.SOFTMAX,
}
_TWO_INPUTS = ("add", "mul", "div", "pow")
_DIRECTIONS = {"fwd": Direction.FORWARD, "bwd_data": Direction.DATA_GRADIENT, "bwd_weight": Direction.WEIGHT_GRADIENT,
               "bwd": Direction.BACKWARD}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """A table as operators, with the key that says which rows fits have not seen."""

    operators: Operators
    keys: list[str]
    harness_s: NDArray[np.float64]


def _column(table: pd.DataFrame, name: str, default: float = 0.0) -> NDArray[np.float64]:
    return table[name].to_numpy(dtype=float) if name in table else np.full(len(table), default)


def _dtypes(table: pd.DataFrame) -> NDArray[np.str_]:
    if "dtype" not in table:
        return np.full(len(table), "fp32")
    return np.array([_DTYPES.get(str(d), str(d)) for d in table["dtype"]])


def _operators(kind: Any, dims: list[NDArray[np.float64]], dtype: NDArray[np.str_], read: Any, written: Any,
               direction: Any = Direction.FORWARD, name: Any = "kernel") -> Operators:  # fmt: skip
    n = len(dtype)
    matrix = np.zeros((n, NUM_DIMS))
    for i, column in enumerate(dims):
        matrix[:, i] = column
    ones, read, written = (
        np.ones(n),
        np.broadcast_to(read, n).astype(float),
        np.broadcast_to(written, n).astype(float),
    )
    return Operators(
        kind=np.broadcast_to(np.asarray(kind, dtype=str), n), name=np.broadcast_to(np.asarray(name, dtype=str), n),
        phase=np.full(n, str(Phase.FORWARD)),
        direction=np.broadcast_to(np.asarray(direction, dtype=str), n), dtype=dtype, module=np.full(n, ""), count=ones,
        launches=ones, recomputed=np.zeros(n, dtype=bool), dims=matrix, bytes_read=read, bytes_written=written,
        saved_bytes=np.zeros(n), fused_launches=ones, fused_bytes_read=read, fused_bytes_written=written,
    )  # fmt: skip


def _keys(*columns: Any) -> list[str]:
    return [
        ",".join(str(int(v)) if isinstance(v, float | int | np.number) else str(v) for v in row)
        for row in zip(*columns, strict=True)
    ]


def _gemm(table: pd.DataFrame) -> _Rows:
    """Read products; the single fp32 products name the inner length n and the result's columns k."""
    batch, m, n, k = (_column(table, c, 1.0) for c in ("batch", "m", "n", "k"))
    keys = _keys(m, n, k)
    if "op" in table and "layout" not in table:
        linear = table["op"].to_numpy() == "linear"
        whole = _keys(batch, m, n, k)
        keys = [
            short if is_linear else long for short, long, is_linear in zip(keys, whole, linear, strict=True)
        ]
        n, k = k, n
    dtype = np.array([str(d).split("_")[0] for d in _dtypes(table)])
    size = np.array([_SIZES.get(d, 4.0) for d in dtype])
    out = np.maximum(size, 2.0)
    operators = _operators(
        Kind.GEMM, [batch, m, n, k], dtype, batch * (m * k + k * n) * size, batch * m * n * out, name="mm"
    )
    return _Rows(operators=operators, keys=keys, harness_s=np.zeros(len(table)))


def _attention(table: pd.DataFrame) -> _Rows:
    q = _column(table, "q_len") if "q_len" in table else _column(table, "seq_len")
    kv = _column(table, "kv_len") if "kv_len" in table else q
    batch, heads, kv_heads, width = (_column(table, c) for c in ("batch", "heads", "kv_heads", "head_dim"))
    width_v = _column(table, "head_dim_v") if "head_dim_v" in table else width
    causal = table["causal"].to_numpy(dtype=float)
    if "window" in table:
        window = table["window"].fillna(-1).to_numpy(dtype=float)
        causal = np.where((window > 0) & (causal > 0), window, causal)
    dtype = _dtypes(table)
    size = np.array([_SIZES.get(d, 2.0) for d in dtype])
    moved = size * batch * (heads * q + kv_heads * kv) * (width + width_v)
    direction = [
        _DIRECTIONS.get(str(d).removesuffix("_deterministic"), Direction.FORWARD)
        for d in table.get("direction", ["fwd"] * len(table))
    ]
    dims = [batch, heads, kv_heads, q, kv, width, width_v, causal]
    operators = _operators(Kind.ATTENTION, dims, dtype, moved, moved / 3, direction)
    return _Rows(
        operators=operators, keys=_keys(batch, q, heads, kv_heads, width), harness_s=np.zeros(len(table))
    )


# Host time that the measuring loop of these tables adds to every row. Source: the tables themselves: their smallest
# rows, and drift in row order that no kernel has; docs/physics/convolution.md shows errors with and without.
_CONVOLUTION_LOOP_S = 1.5e-4


def _convolution(table: pd.DataFrame) -> _Rows:
    dtype = _dtypes(table)
    size = np.array([_SIZES.get(d, 4.0) for d in dtype])
    direction: Any = Direction.FORWARD
    loop = 0.0
    if "kernel_size" in table:
        kernel, stride, padding, side = (
            _column(table, c) for c in ("kernel_size", "stride", "padding", "input_size")
        )
        out = np.floor((side + 2 * padding - kernel) / stride) + 1
        dims = [_column(table, "batch"), _column(table, "in_channels"), _column(table, "out_channels"), np.ones(len(table)),
                side, side, out, out, kernel, kernel, stride, stride]  # fmt: skip
        loop = _CONVOLUTION_LOOP_S
        names: tuple[str, ...] = (
            "batch",
            "in_channels",
            "out_channels",
            "kernel_size",
            "input_size",
            "stride",
            "padding",
        )
    else:
        names = (
            "batch",
            "in_channels",
            "out_channels",
            "groups",
            "in_h",
            "in_w",
            "out_h",
            "out_w",
            "kh",
            "kw",
            "stride_h",
            "stride_w",
        )
        dims = [_column(table, c) for c in names]
        direction = np.array([str(_DIRECTIONS[d]) for d in table["direction"]])
    images = size * dims[0] * (dims[1] * dims[4] * dims[5])
    outputs = size * dims[0] * dims[2] * dims[6] * dims[7]
    operators = _operators(Kind.CONVOLUTION, dims, dtype, images, outputs, direction, name="convolution")
    return _Rows(
        operators=operators,
        keys=_keys(*(_column(table, c) for c in names)),
        harness_s=np.full(len(table), loop),
    )


def _memory_bound(table: pd.DataFrame) -> _Rows:
    rows, columns = _column(table, "rows"), _column(table, "columns")
    dtype = _dtypes(table)
    size = np.array([_SIZES.get(d, 4.0) for d in dtype])
    elements = rows * columns * size
    inputs = np.where(table["op"].isin(_TWO_INPUTS), 2.0, 1.0)
    read = _column(table, "bytes_read") if "bytes_read" in table else elements * inputs
    written = _column(table, "bytes_written") if "bytes_written" in table else elements
    kind = np.array([str(_NORMS.get(op, Kind.ELEMENTWISE)) for op in table["op"]])
    operators = _operators(kind, [rows, columns], dtype, read, written, name=names_of(table))
    return _Rows(operators=operators, keys=_keys(table["op"], rows, columns), harness_s=np.zeros(len(table)))


READERS: Mapping[str, Callable[[pd.DataFrame], _Rows]] = {
    "gemm": _gemm, "matmul_fp32": _gemm, "gemm_sustained": _gemm, "attention_forward": _attention,
    "attention_training": _attention, "convolution_forward_fp32": _convolution, "convolution": _convolution,
    "memory_bound_fp32": _memory_bound, "memory_bound_half": _memory_bound,
}  # fmt: skip


def judge_kernels(table: pd.DataFrame, dataset: str, *, held_out: bool) -> Judgement:
    """Predict every row of a table of kernels; with ``held_out`` only those that no fit has seen."""
    judgement = Judgement()
    for name, part in table.groupby("accelerator", sort=True):
        try:
            accelerator = load_catalogue().find(str(name)).accelerator
            fused = _fused_only(part, dataset, accelerator.name, judgement)
            judgement.extend(
                _judge(fused, dataset, accelerator, held_out=held_out) if len(fused) else Judgement()
            )
        except StepTimeError as reason:
            judgement.not_mapped += [
                NotMapped(row=int(i), dataset=dataset, accelerator=str(name), reason=str(reason))
                for i in part.index
            ]
    return judgement


# Rows of the attention table that are no fused kernel: eager code, and both passes timed as one.
_NO_KERNEL = {
    "pyt_math": "eager attention is products and a softmax",
    "pytorch_math": "eager attention is products and a softmax",
}


def _fused_only(part: pd.DataFrame, dataset: str, accelerator: str, judgement: Judgement) -> pd.DataFrame:
    """Take the rows of the attention table that time one fused kernel."""
    if dataset != "attention_training":
        return part
    reason = part["backend"].map(_NO_KERNEL).fillna("")
    reason = reason.mask(part["direction"] == "fwd+bwd", "forward and backward timed as one")
    judgement.not_mapped += [
        NotMapped(row=int(i), dataset=dataset, accelerator=accelerator, reason=str(r))
        for i, r in reason[reason != ""].items()
    ]
    return part[reason == ""]


def _judge(part: pd.DataFrame, dataset: str, accelerator: Accelerator, *, held_out: bool) -> Judgement:
    rows = READERS[dataset](part)
    known = np.isin(rows.operators.dtype, list(_SIZES))
    wanted = known & (is_held_out(rows.keys) if held_out else True)
    judgement = Judgement(
        not_mapped=[
            NotMapped(row=int(part.index[i]), dataset=dataset, accelerator=accelerator.name,
                      reason=f"dtype {rows.operators.dtype[i]} is none that we predict")
            for i in np.flatnonzero(~known)
        ]
    )  # fmt: skip
    if not wanted.any():
        return judgement
    operators = _take(rows.operators, wanted)
    predicted, roof = _times_s(operators, dataset, accelerator, rows.harness_s[wanted])
    measured = part["latency_us"].to_numpy(dtype=float)[wanted] * 1e-6
    for i, row in enumerate(part.index[wanted]):
        judgement.verdicts.append(
            Verdict(
                row=int(row), dataset=f"{dataset} {operators.dtype[i]}", accelerator=accelerator.name,
                subject=rows.keys[np.flatnonzero(wanted)[i]], group=f"kernel/{dataset}/{accelerator.name}",
                measured=float(measured[i]), predicted=float(predicted[i]), roofline=float(roof[i]),
            )
        )  # fmt: skip
    return judgement


def _times_s(
    operators: Operators, dataset: str, accelerator: Accelerator, harness_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what the table's loop would report for each row, and the roofline of the kernel alone."""
    by_name = load_catalogue().by_name
    peak = {str(d): peak_of(accelerator, str(d))[0] for d in np.unique(operators.dtype)}
    traffic = operators.bytes_read + operators.bytes_written
    roof = np.maximum(
        operators.flops / np.array([peak[str(d)] for d in operators.dtype]),
        traffic / accelerator.memory_bandwidth_bytes_per_s,
    )
    if dataset in PRODUCTS:
        predicted = np.empty(len(operators))
        for dtype in np.unique(operators.dtype):
            mine = operators.dtype == dtype
            predicted[mine] = product_times_s(_take(operators, mine), dataset, accelerator, by_name)
        return predicted, roof
    if dataset in MEMORY:
        return memory_bound_times_s(operators, dataset, accelerator, by_name), roof
    times = device_times(
        operators,
        [accelerator],
        by_name,
        in_step="",
        channels_last=False,
        fused=False,
        serving=dataset in _SERVING,
    )
    return times.time_s[:, 0] + harness_s, roof


def _take(operators: Operators, wanted: NDArray[np.bool_]) -> Operators:
    return Operators(**{n: getattr(operators, n)[wanted] for n in Operators.__dataclass_fields__})
