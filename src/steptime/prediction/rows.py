"""Lay rows of one kind against accelerators and call their formula: (rows, 1) × (accelerators,)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime import kernels
from steptime.prediction.fits import Choice
from steptime.prediction.peaks import ELEMENT_BYTES, Machines
from steptime.workload.operator import DIMS, Direction, Kind, causal_fraction
from steptime.workload.table import Operators

FloatArray = NDArray[np.float64]

# The folder of data/fitted whose parameters a kind uses; all others move memory.
FOLDERS: Mapping[str, str] = {
    Kind.GEMM: "gemm", Kind.CONVOLUTION: "convolution", Kind.ATTENTION: "attention", Kind.RECURRENT: "recurrent",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Rows of one kind and dtype; every array of shape (rows, 1)."""

    kind: str
    dims: Mapping[str, FloatArray]
    direction: NDArray[np.str_]
    bytes_read: FloatArray
    bytes_written: FloatArray
    fused_bytes_read: FloatArray
    fused_bytes_written: FloatArray
    fused_launches: FloatArray
    along_rows: bool = True

    @classmethod
    def of(cls, operators: Operators, rows: NDArray[np.int64]) -> Block:
        """Take ``rows`` of a table, all of one kind."""
        kind = Kind(str(operators.kind[rows[0]]))
        dims = {name: operators.dims[rows, i, None] for i, name in enumerate(DIMS[kind])}
        columns = {
            n: getattr(operators, n)[rows, None]
            for n in (
                "direction",
                "bytes_read",
                "bytes_written",
                "fused_bytes_read",
                "fused_bytes_written",
                "fused_launches",
            )
        }
        along_rows = "batch_norm" not in str(operators.name[rows[0]])
        return cls(kind=kind, dims=dims, along_rows=along_rows, **columns)


def gemm(
    block: Block, machines: Machines, dtype: str, fit: Choice, *, energy_j: FloatArray, **_run: object
) -> FloatArray:
    """Time matrix products at the clock that the power limit leaves a long run."""
    d = block.dims
    outputs = np.maximum(d["batch"] * d["m"] * d["n"], 1)
    size = ELEMENT_BYTES[dtype]
    ratio = kernels.sustained_clock_ratio(
        machines.peak(dtype), power_limit_w=machines.power_limit_w,
        compute_efficiency_ratio=fit.values["compute_efficiency_ratio"], flop_energy_j=energy_j,
    )  # fmt: skip
    return kernels.gemm_time_s(
        d["batch"], d["m"], d["n"], d["k"], element_bytes=size,
        output_bytes=np.clip(block.bytes_written / outputs, size, 4),
        peak_flops_per_s=machines.peak(dtype), bandwidth_bytes_per_s=machines.bandwidth_bytes_per_s,
        l2_bytes=machines.l2_bytes, num_units=machines.num_units, clock_hz=machines.clock_hz, clock_ratio=ratio, **fit.values,
    )  # fmt: skip


def convolution(
    block: Block,
    machines: Machines,
    dtype: str,
    fit: Choice,
    *,
    channels_last: bool,
    fused: bool,
    **_run: object,
) -> FloatArray:
    """Time convolutions and their gradients; a compiler lays images out in channels_last by itself."""
    return kernels.convolution_time_s(
        *block.dims.values(), direction=block.direction, element_bytes=ELEMENT_BYTES[dtype],
        channels_last=channels_last or fused,
        tensor_cores=machines.tensor_cores(dtype), peak_flops_per_s=machines.peak(dtype),
        vector_peak_flops_per_s=machines.vector_peak(), bandwidth_bytes_per_s=machines.bandwidth_bytes_per_s,
        l2_bytes=machines.l2_bytes, num_units=machines.num_units, **fit.values,
    )  # fmt: skip


def attention(
    block: Block, machines: Machines, dtype: str, fit: Choice, *, serving: bool = False, **_run: object
) -> FloatArray:
    """Time fused attention, forward and backward, of training libraries or of a serving engine."""
    d = dict(block.dims)
    fraction = causal_fraction(d.pop("causal"), d["seq_q"], d["seq_kv"])
    return kernels.attention_time_s(
        **d, causal_fraction=fraction, element_bytes=ELEMENT_BYTES[dtype],
        backward=block.direction == Direction.BACKWARD, peak_flops_per_s=machines.peak(dtype),
        bandwidth_bytes_per_s=machines.bandwidth_bytes_per_s, l2_bytes=machines.l2_bytes,
        num_units=machines.num_units, serving=serving, **fit.values,
    )  # fmt: skip


def recurrent(block: Block, machines: Machines, dtype: str, fit: Choice, **_run: object) -> FloatArray:
    """Time recurrent layers; their backward row stands for both gradients."""
    return kernels.recurrent_time_s(
        *block.dims.values(), direction=block.direction, element_bytes=ELEMENT_BYTES[dtype],
        peak_flops_per_s=machines.peak(dtype), bandwidth_bytes_per_s=machines.bandwidth_bytes_per_s,
        l2_bytes=machines.l2_bytes, num_units=machines.num_units, **fit.values,
    )  # fmt: skip


_CLASS = {Kind.SOFTMAX: "softmax", Kind.GATHER: "gather"}


def _class_of(block: Block, *, fused: bool) -> str:
    """Name the class of kernels that runs a kind.

    A batch norm works along the batch, point by point; only norms along a row have the row's reductions.
    """
    if block.kind == Kind.NORMALISATION and block.along_rows:
        backward = bool((block.direction == Direction.BACKWARD).all())
        return f"{'compiled_' if fused else ''}normalisation{'_backward' if backward else ''}"
    return _CLASS.get(Kind(block.kind), "elementwise")


def memory_bound(
    block: Block, machines: Machines, dtype: str, fit: Choice, *, fused: bool, **_run: object
) -> FloatArray:
    """Time everything that only moves memory; what a compiler merged away takes no time of its own."""
    read = block.fused_bytes_read if fused else block.bytes_read
    written = block.fused_bytes_written if fused else block.bytes_written
    gone = fused & (block.fused_launches == 0)
    rows = block.dims["rows"] if "rows" in block.dims else block.dims["elements"]
    return kernels.kernel_time_s(
        read, written, kernel_class=_class_of(block, fused=fused), rows=np.where(gone, 0.0, rows),
        columns=block.dims.get("columns", 1.0), element_bytes=ELEMENT_BYTES[dtype],
        bandwidth_bytes_per_s=machines.bandwidth_bytes_per_s, l1_bytes=machines.l1_bytes,
        l2_bytes=machines.l2_bytes, num_units=machines.num_units, clock_hz=machines.clock_hz,
        cached_fraction=1.0, fitted={**fit.values, "floor_s": np.where(gone, 0.0, fit.values["floor_s"])},
    )  # fmt: skip
