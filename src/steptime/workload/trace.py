"""Record operators in their order, with the storages they touch; two traces make an affine workload.

Capture and the builders of transformers both write into a ``Trace``; what follows (fusion, merging of equal
rows, growth with the batch) is the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from steptime.errors import CaptureError
from steptime.workload.fusion import fuse
from steptime.workload.operator import NUM_DIMS, Direction, Kind, Phase
from steptime.workload.table import Affine, OperatorTable, ParameterGroup, StorageTable, Workload

ALIVE = -1  # death of a storage that outlives the step


class Touch(NamedTuple):
    """Bytes that an operator reads from or writes to one storage."""

    storage: int
    size_bytes: int


@dataclass(slots=True)
class Event:
    """One occurrence of an operator."""

    kind: Kind
    name: str
    phase: Phase
    direction: Direction
    dtype: str
    module: str
    dims: tuple[float, ...]
    reads: tuple[Touch, ...]
    writes: tuple[Touch, ...]
    launches: int = 1
    recomputed: bool = False
    shape: tuple[int, ...] = ()


@dataclass(slots=True)
class Storage:
    """One block of memory and its life, in positions of the sequence."""

    size_bytes: int
    role: str
    module: str
    birth: int
    death: int = ALIVE


@dataclass(slots=True)
class Trace:
    """The sequence of one step at one batch size."""

    events: list[Event] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    forward_end: int = 0

    @property
    def position(self) -> int:
        """The position that the next operator will have."""
        return len(self.events)

    def allocate(self, size_bytes: int, role: str, module: str = "", *, before: bool = False) -> int:
        """Register a storage born now, or ``before`` the step; return its identifier."""
        self.storages.append(Storage(size_bytes, role, module, -1 if before else self.position))
        return len(self.storages) - 1

    def free(self, storage: int) -> None:
        """End a storage's life now."""
        self.storages[storage].death = self.position

    def record(self, event: Event) -> None:
        """Append an operator."""
        self.events.append(event)


_AFFINE_FIELDS = (
    "dims",
    "bytes_read",
    "bytes_written",
    "saved_bytes",
    "fused_bytes_read",
    "fused_bytes_written",
)


def _columns(trace: Trace) -> dict[str, Any]:
    """Turn a trace into columns, one row per occurrence."""
    events = trace.events
    fused = fuse(trace)
    dims = np.zeros((len(events), NUM_DIMS))
    for i, event in enumerate(events):
        dims[i, : len(event.dims)] = event.dims
    saved = np.zeros(len(events))
    for s in trace.storages:
        if (
            s.role == "activation"
            and 0 <= s.birth < trace.forward_end
            and (s.death == ALIVE or s.death > trace.forward_end)
        ):
            saved[min(s.birth, len(events) - 1)] += s.size_bytes
    columns: dict[str, Any] = {
        name: np.array([str(getattr(e, name)) for e in events], dtype=str)
        for name in ("kind", "name", "phase", "direction", "dtype", "module")
    }
    columns["launches"] = np.array([e.launches for e in events], dtype=float)
    columns["recomputed"] = np.array([e.recomputed for e in events], dtype=bool)
    columns["dims"] = dims
    columns["bytes_read"] = np.array([sum(t.size_bytes for t in e.reads) for e in events], dtype=float)
    columns["bytes_written"] = np.array([sum(t.size_bytes for t in e.writes) for e in events], dtype=float)
    columns["saved_bytes"] = saved
    columns["fused_launches"] = fused.launches
    columns["fused_bytes_read"] = fused.bytes_read
    columns["fused_bytes_written"] = fused.bytes_written
    return columns


def same_structure(first: Trace, second: Trace) -> bool:
    """Tell whether two traces have the same operators and storages in the same order."""
    return not _difference(first, second)


def _difference(first: Trace, second: Trace) -> str:
    """Say what two traces do differently; nothing when one is the other at another batch."""
    for a, b in zip(first.events, second.events, strict=False):
        if (a.name, a.phase, a.module, a.dtype) != (b.name, b.phase, b.module, b.dtype):
            return f"runs other operators at another batch (first {_where(a)} against {_where(b)})"
        if sum(x != y for x, y in zip(a.shape, b.shape, strict=False)) > 1:
            return f"makes a tensor that grows with the square of the batch ({_where(a)})"
    if len(first.events) != len(second.events):
        return f"runs other operators at another batch ({len(first.events)} of them against {len(second.events)})"
    if len(first.storages) != len(second.storages):
        return "keeps other tensors at another batch"
    return ""


def _where(event: Event) -> str:
    return f"{event.name} in {event.module}" if event.module else event.name


def _affine(at_first: Any, at_second: Any, batches: tuple[int, int]) -> Affine:
    slope = (np.asarray(at_second, float) - np.asarray(at_first, float)) / (batches[1] - batches[0])
    return Affine(base=np.asarray(at_first, float) - slope * batches[0], per_sample=slope)


def _distinct(columns: dict[str, Any], affine: dict[str, Affine]) -> tuple[Any, Any]:
    """Return the index of the first occurrence of each distinct row, and each occurrence's row."""
    keys: dict[tuple[Any, ...], int] = {}
    first: list[int] = []
    inverse = np.empty(len(columns["kind"]), dtype=np.int64)
    numbers = np.concatenate(
        [
            np.column_stack([a.base.reshape(len(inverse), -1), a.per_sample.reshape(len(inverse), -1)])
            for a in affine.values()
        ],
        axis=1,
    ).round(6)
    labels = list(
        zip(*(columns[c] for c in ("kind", "name", "phase", "direction", "dtype", "module")), strict=True)
    )
    for i, label in enumerate(labels):
        key = (
            label,
            columns["launches"][i],
            columns["recomputed"][i],
            columns["fused_launches"][i],
            numbers[i].tobytes(),
        )
        if key not in keys:
            keys[key] = len(first)
            first.append(i)
        inverse[i] = keys[key]
    return np.asarray(first, dtype=np.int64), inverse


def _storages(traces: Sequence[Trace], batches: tuple[int, int]) -> StorageTable:
    main, other = traces[0], traces[-1]
    end = len(main.events)
    sizes = [[s.size_bytes for s in t.storages] for t in (main, other)]
    death = [end if s.death == ALIVE else s.death for s in main.storages]
    return StorageTable(
        birth=np.array([s.birth for s in main.storages], dtype=np.int64),
        death=np.array(death, dtype=np.int64),
        role=np.array([s.role for s in main.storages], dtype=str),
        module=np.array([s.module for s in main.storages], dtype=str),
        size_bytes=_affine(sizes[0], sizes[1], batches),
    )


def merge(traces: Sequence[Trace], batches: Sequence[int], *, model: str, task: str, precision: str,
          parameters: Sequence[ParameterGroup], **facts: Any) -> Workload:  # fmt: skip
    """Make a workload of one trace (valid for its batch alone) or of two (affine in the batch).

    Raises
    ------
    CaptureError
        When two traces differ in structure: capture at the batch that is wanted instead.
    """
    difference = _difference(traces[0], traces[1]) if len(traces) == 2 else ""
    if difference:
        raise CaptureError(
            f"{model} {difference}, so that one capture cannot serve every batch; "
            "capture it at the batch that you want (--batch N --fixed-batch)."
        )
    first, second = traces[0], traces[-1]
    pair = (int(batches[0]), int(batches[-1])) if len(traces) == 2 else (int(batches[0]), int(batches[0]) + 1)
    columns, others = _columns(first), _columns(second) if len(traces) == 2 else None
    affine = {f: _affine(columns[f], (others or columns)[f], pair) for f in _AFFINE_FIELDS}
    rows, inverse = _distinct(columns, affine)
    plain: Mapping[str, Any] = {c: v[rows] for c, v in columns.items() if c not in affine}
    growing: dict[str, Any] = {f: a.take(rows) for f, a in affine.items()}
    table = OperatorTable(
        **plain,
        **growing,
        count=np.bincount(inverse, minlength=len(rows)).astype(float),
    )
    return Workload(
        model=model, task=task, precision=precision, operators=table, storages=_storages(traces, pair),
        sequence=inverse, forward_end=first.forward_end, parameters=tuple(parameters),
        fixed_batch=0 if len(traces) == 2 else int(batches[0]), **facts,
    )  # fmt: skip
