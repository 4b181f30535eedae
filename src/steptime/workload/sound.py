"""What makes a workload that was read from a file one that can be predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from steptime.workload.operator import Direction, Kind, Phase
from steptime.workload.recipe import PRECISIONS, TASKS
from steptime.workload.table import Affine, Workload


def faults_of(workload: Workload) -> Iterator[str]:
    """Yield what is wrong with a workload, the first reason first."""
    yield from _faults_of_facts(workload)
    table, lives, sequence = workload.operators, workload.storages, workload.sequence
    if sequence.ndim != 1 or not len(sequence):
        yield "its sequence is empty"
        return
    if sequence.min() < 0 or sequence.max() >= len(table):
        yield "its sequence names rows that the table does not have"
    if not 0 <= workload.forward_end <= len(sequence):
        yield "its forward pass ends outside the sequence"
    if (lives.birth < -1).any() or (lives.death > len(sequence)).any():
        yield "its storages live outside the sequence"
    yield from _faults_of_columns(workload)


def _faults_of_columns(workload: Workload) -> Iterator[str]:
    for column, known in (("kind", Kind), ("phase", Phase), ("direction", Direction)):
        strange = set(getattr(workload.operators, column).tolist()) - {str(k) for k in known}
        if strange:
            yield f"'{min(strange)}' is no {column} of an operator"
    for part in (workload.operators, workload.storages):
        for f in fields(part):
            if not _is_finite(getattr(part, f.name)):
                yield f"its column {f.name} has numbers that are not finite"


def _faults_of_facts(w: Workload) -> Iterator[str]:
    if w.precision not in PRECISIONS:
        yield f"{w.precision!r} is no precision"
    if w.task not in TASKS:
        yield f"{w.task!r} is no task"
    if not isinstance(w.model, str):
        yield "its model has no name"
    for name in ("image_size", "tokens_per_sample", "fixed_batch", "forward_end"):
        value: Any = getattr(w, name)
        if not isinstance(value, int) or value < 0:
            yield f"its {name.replace('_', ' ')} is {value!r}"


def _is_finite(column: Any) -> bool:
    if isinstance(column, Affine):
        return _is_finite(column.base) and _is_finite(column.per_sample)
    return column.dtype.kind not in "fc" or bool(np.isfinite(column).all())
