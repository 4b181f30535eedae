"""A workload: the table of operators of one step, what lives in memory when, and the parameters.

Every number that depends on the batch is affine in it: ``value(batch) = base + per_sample * batch``, so that
one capture serves every batch size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from steptime.workload.operator import flops as count_flops

FloatArray = NDArray[np.float64]
StrArray = NDArray[np.str_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Affine:
    """A column that grows linearly with the batch; shape (rows,) or (rows, dims)."""

    base: FloatArray
    per_sample: FloatArray

    def at(self, batch: float) -> FloatArray:
        """Return the column's values at ``batch`` samples."""
        return self.base + self.per_sample * batch

    def take(self, rows: Any) -> Affine:
        """Return the rows that an index or mask selects."""
        return Affine(base=self.base[rows], per_sample=self.per_sample[rows])

    def scaled(self, factor: FloatArray | float) -> Affine:
        """Return the column times a constant per row."""
        return Affine(base=self.base * factor, per_sample=self.per_sample * factor)

    @classmethod
    def concatenate(cls, parts: list[Affine]) -> Affine:
        """Stack columns, first to last."""
        return cls(
            base=np.concatenate([p.base for p in parts]),
            per_sample=np.concatenate([p.per_sample for p in parts]),
        )


class _Columns:
    """Row selection and stacking for dataclasses whose fields are all columns of one length."""

    __slots__ = ()

    def take(self, rows: Any) -> Self:
        """Return the rows that an index or mask selects."""
        picked = {}
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            picked[f.name] = value.take(rows) if isinstance(value, Affine) else value[rows]
        return type(self)(**picked)

    @classmethod
    def concatenate(cls, parts: list[Self]) -> Self:
        """Stack tables, first to last."""
        joined: dict[str, Any] = {}
        for f in fields(cls):  # type: ignore[arg-type]
            values = [getattr(p, f.name) for p in parts]
            join = Affine.concatenate if isinstance(values[0], Affine) else np.concatenate
            joined[f.name] = join(values)
        return cls(**joined)


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorTable(_Columns):
    """One row per distinct operator, with its number of occurrences.

    ``fused_*`` columns say what is left of the row when a compiler merges it with its neighbours.
    ``recomputed`` marks forward work that activation checkpointing repeats in the backward pass.
    """

    kind: StrArray
    name: StrArray
    phase: StrArray
    direction: StrArray
    dtype: StrArray
    module: StrArray
    count: FloatArray
    launches: FloatArray
    recomputed: NDArray[np.bool_]
    dims: Affine
    bytes_read: Affine
    bytes_written: Affine
    saved_bytes: Affine
    fused_launches: FloatArray
    fused_bytes_read: Affine
    fused_bytes_written: Affine

    def __len__(self) -> int:
        return len(self.kind)

    def at(self, batch: float) -> Operators:
        """Evaluate every column at ``batch`` samples."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        evaluated: dict[str, Any] = {
            k: v.at(batch) if isinstance(v, Affine) else v for k, v in values.items()
        }
        return Operators(**evaluated)


@dataclass(frozen=True, kw_only=True)
class Operators:
    """An operator table at one batch size: plain columns, shape (rows,), dims (rows, 12)."""

    kind: StrArray
    name: StrArray
    phase: StrArray
    direction: StrArray
    dtype: StrArray
    module: StrArray
    count: FloatArray
    launches: FloatArray
    recomputed: NDArray[np.bool_]
    dims: FloatArray
    bytes_read: FloatArray
    bytes_written: FloatArray
    saved_bytes: FloatArray
    fused_launches: FloatArray
    fused_bytes_read: FloatArray
    fused_bytes_written: FloatArray

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def flops(self) -> FloatArray:
        """FLOPs of one occurrence of each row."""
        return count_flops(self.kind, self.direction, self.dims)

    @property
    def total_flops(self) -> float:
        """FLOPs of all occurrences, recomputation included."""
        return float(self.flops @ self.count)

    @property
    def model_flops(self) -> float:
        """FLOPs that the model's mathematics needs: recomputation left out."""
        return float((self.flops * self.count)[~self.recomputed].sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageTable(_Columns):
    """One row per tensor storage: when it is born and dies (operator positions), how large it is.

    ``birth`` is -1 for what exists before the step; ``death`` is the length of the sequence for what
    outlives it. ``role`` is parameter, buffer, input, gradient, activation, temporary or weight_cast.
    """

    birth: NDArray[np.int64]
    death: NDArray[np.int64]
    role: StrArray
    module: StrArray
    size_bytes: Affine


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterGroup:
    """Parameters of one shape: ``count`` tensors, trainable or frozen, of ``dtype``."""

    shape: tuple[int, ...]
    count: int
    trainable: bool
    dtype: str

    @property
    def num_parameters(self) -> int:
        """Elements of all tensors of the group."""
        return self.count * int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The operators of one training step or one inference, with memory and parameters.

    ``sequence`` gives the order of execution: indices of operator rows, one per occurrence;
    ``forward_end`` is the position at which the forward pass ends. ``fixed_batch`` is set when
    the model does not scale with the batch and the table holds for that batch alone.
    ``tokens_per_sample`` is 0 for models that do not work on tokens.
    """

    model: str
    task: str
    precision: str
    operators: OperatorTable
    storages: StorageTable
    sequence: NDArray[np.int64]
    forward_end: int
    parameters: tuple[ParameterGroup, ...]
    image_size: int = 0
    tokens_per_sample: int = 0
    fixed_batch: int = 0
    unknown_operators: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_parameters(self) -> int:
        """Elements of all parameters; tied ones once."""
        return sum(g.num_parameters for g in self.parameters)

    @property
    def num_trainable_parameters(self) -> int:
        """Elements of the parameters that get a gradient."""
        return sum(g.num_parameters for g in self.parameters if g.trainable)

    def with_operators(self, operators: OperatorTable, **changes: Any) -> Workload:
        """Return the workload with another table of the same length and order."""
        return replace(self, operators=operators, **changes)
