"""Turn a workload captured in one precision into another, where the operators stay the same.

fp32     -> tf32         products of fp32 run on tensor cores; nothing else changes
fp32     -> bf16, fp16   every floating tensor halves (a model cast as a whole)
amp-fp16 <-> amp-bf16    another name for the 16-bit tensors
amp, 16-bit -> fp8       matrix products of linear layers in fp8, with the casts that feed them
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steptime.errors import InputError
from steptime.workload.operator import NUM_DIMS, Direction, Kind
from steptime.workload.table import Affine, OperatorTable, StorageTable, StrArray, Workload

_HALVES = ("fp16", "bf16")
FP8_MULTIPLE = 16  # fp8 products need dimensions that are multiples of 16 (cuBLASLt); others stay in 16 bits


def source_precision(precision: str) -> str:
    """Return the precision whose capture gives the operators of ``precision``."""
    if precision in {"fp32", "tf32", "fp16", "bf16"}:
        return "fp32"
    return "amp-fp16"


def to_precision(workload: Workload, precision: str) -> Workload:
    """Return ``workload`` as it would run in ``precision``.

    Raises
    ------
    InputError
        When the operators differ between the two, so that a new capture is needed.
    """
    have = workload.precision
    if have == precision:
        return workload
    if have == "fp32" and precision == "tf32":
        return _with_dtype(workload, precision, _tensor_core_fp32(workload.operators))
    if have == "fp32" and precision in _HALVES:
        return _halved(workload, precision)
    sixteen = have.removeprefix("amp-") in _HALVES
    same_style = have.startswith("amp-") == precision.startswith("amp-")
    if sixteen and same_style and precision.removeprefix("amp-") in _HALVES:
        return _renamed(workload, precision)
    if sixteen and precision == "fp8":
        return _fp8(_renamed(workload, "amp-bf16" if have.startswith("amp-") else "bf16"))
    raise InputError(f"A capture in {have} cannot be read as {precision}: capture the model in {precision}.")


def _with_dtype(workload: Workload, precision: str, dtype: StrArray) -> Workload:
    return replace(workload, precision=precision, operators=replace(workload.operators, dtype=dtype))


def _tensor_core_fp32(table: OperatorTable) -> StrArray:
    products = np.isin(table.kind, (Kind.GEMM, Kind.CONVOLUTION, Kind.ATTENTION, Kind.RECURRENT))
    return np.where(products & (table.dtype == "fp32"), "tf32", table.dtype)


def _renamed(workload: Workload, precision: str) -> Workload:
    new = precision.removeprefix("amp-")
    dtype = np.where(np.isin(workload.operators.dtype, _HALVES), new, workload.operators.dtype)
    groups = tuple(replace(p, dtype=new) if p.dtype in _HALVES else p for p in workload.parameters)
    return replace(_with_dtype(workload, precision, dtype), parameters=groups)


def _halved(workload: Workload, precision: str) -> Workload:
    table = workload.operators
    factor = np.where(table.dtype == "fp32", 0.5, 1.0)
    shrunk = {
        name: getattr(table, name).scaled(factor)
        for name in ("bytes_read", "bytes_written", "saved_bytes", "fused_bytes_read", "fused_bytes_written")
    }
    dtype = np.where(table.dtype == "fp32", precision, table.dtype)
    storages = replace(workload.storages, size_bytes=_halved_sizes(workload.storages))
    groups = tuple(replace(p, dtype=precision) if p.dtype == "fp32" else p for p in workload.parameters)
    notes = (*workload.notes, "every floating tensor is taken at half its fp32 size, masks and indices too")
    return replace(
        workload, precision=precision, operators=replace(table, dtype=dtype, **shrunk),
        storages=storages, parameters=groups, notes=notes,
    )  # fmt: skip


def _halved_sizes(storages: StorageTable) -> Affine:
    return storages.size_bytes.scaled(np.where(storages.role == "input", 1.0, 0.5))


def _fp8(workload: Workload) -> Workload:
    """Run linear layers' products in fp8 and add the casts of their two operands.

    Assumption: each operand is cast once where it is used (read 2 bytes, write 1), as Transformer Engine does
    with delayed scaling; what would settle it: a kernel trace of a TE layer.
    """
    table = workload.operators
    # a dimension that grows with the batch is aligned where the batch is: whoever runs fp8 pads it
    sizes = table.dims.at(float(workload.fixed_batch or FP8_MULTIPLE))[:, 1:4]
    aligned = ((sizes % FP8_MULTIPLE) == 0).all(axis=1)
    linear = (table.kind == Kind.GEMM) & np.isin(table.dtype, _HALVES) & (table.dims.base[:, 0] == 1)
    chosen = linear & aligned & (table.dims.per_sample[:, 0] == 0)
    products = table.take(chosen)
    operands = _operand_elements(products)
    casts = replace(
        products,
        kind=np.full(len(products), str(Kind.COPY)), name=np.full(len(products), "fp8_cast"),
        direction=np.full(len(products), str(Direction.FORWARD)),
        launches=np.full(len(products), 2.0), dims=_first_dim(operands),
        bytes_read=operands.scaled(2.0), bytes_written=operands, saved_bytes=operands.scaled(0.0),
        fused_launches=np.full(len(products), 2.0), fused_bytes_read=operands.scaled(2.0),
        fused_bytes_written=operands,
    )  # fmt: skip
    dtype = np.where(chosen, "fp8", table.dtype)
    joined = OperatorTable.concatenate([replace(table, dtype=dtype), casts])
    cast_of = np.full(len(table), -1)
    cast_of[chosen] = len(table) + np.arange(len(products))
    sequence, forward_end, moved = _with_casts(workload, cast_of)
    storages = replace(
        workload.storages,
        birth=np.where(workload.storages.birth < 0, -1, moved[np.maximum(workload.storages.birth, 0)]),
        death=moved[workload.storages.death],
    )
    return replace(
        workload,
        precision="fp8",
        operators=joined,
        sequence=sequence,
        forward_end=forward_end,
        storages=storages,
    )


def _operand_elements(products: OperatorTable) -> Affine:
    """Elements of both matrices, m·k + k·n, at most one of whose sides grows with the batch."""
    base, slope = products.dims.base.T, products.dims.per_sample.T
    elements = (base[1] + base[2]) * base[3]
    growth = (base[1] + base[2]) * slope[3] + (slope[1] + slope[2]) * base[3]
    return Affine(base=elements, per_sample=growth)


def _first_dim(elements: Affine) -> Affine:
    base, slope = np.zeros((len(elements.base), NUM_DIMS)), np.zeros((len(elements.base), NUM_DIMS))
    base[:, 0], slope[:, 0] = elements.base, elements.per_sample
    return Affine(base=base, per_sample=slope)


def _with_casts(workload: Workload, cast_of: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
    """Insert each product's cast before it; return sequence, end of forward, and where positions moved to."""
    added = cast_of[workload.sequence] >= 0
    before = np.concatenate([[0], np.cumsum(added)])
    moved = np.arange(len(workload.sequence) + 1) + before
    sequence = np.insert(workload.sequence, np.flatnonzero(added), cast_of[workload.sequence][added])
    return sequence, int(moved[workload.forward_end]), moved
