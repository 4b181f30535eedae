"""Hand the rows of each kind and dtype to the formula that knows them, on all accelerators at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.hardware import Accelerator
from steptime.prediction import rows
from steptime.prediction.fits import Choice, choose
from steptime.prediction.peaks import Machines
from steptime.workload.operator import Kind
from steptime.workload.table import Operators

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class DeviceTimes:
    """Times of one occurrence of each row, shape (rows, accelerators), and what they rest on."""

    time_s: FloatArray
    compute_floor_s: FloatArray
    memory_floor_s: FloatArray
    origins: Mapping[str, Choice]
    fallbacks: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class _Ledger:
    """What was used in place of a fact, by accelerator, each said once."""

    notes: list[dict[str, None]]
    origins: dict[str, Choice] = field(default_factory=dict)

    def add(self, machines: Machines, dtype: str) -> None:
        for notes, told in zip(self.notes, machines.substitutes(dtype), strict=True):
            if told:
                notes[told] = None


_FORMULAS: Mapping[str, Callable[..., FloatArray]] = {
    Kind.GEMM: rows.gemm,
    Kind.CONVOLUTION: rows.convolution,
    Kind.ATTENTION: rows.attention,
    Kind.RECURRENT: rows.recurrent,
}


def device_times(
    operators: Operators, accelerators: Sequence[Accelerator], by_name: Mapping[str, Accelerator], **run: Any
) -> DeviceTimes:
    """Time every row on every accelerator.

    Parameters
    ----------
    operators : Operators
    accelerators : sequence of Accelerator
    by_name : mapping
        The whole catalogue: fitted sets of others stand in where an accelerator has none.
    **run
        What the formulas ask of the recipe: ``channels_last``, ``fused``.
    """
    machines = Machines.of(accelerators)
    shape = (len(operators), len(accelerators))
    time_s, compute_s = np.zeros(shape), np.zeros(shape)
    ledger = _Ledger(notes=[{} for _ in accelerators])
    for kind, dtype in sorted({(str(k), str(d)) for k, d in zip(operators.kind, operators.dtype, strict=True)}):
        chosen = np.flatnonzero((operators.kind == kind) & (operators.dtype == dtype))
        formula = _FORMULAS.get(kind, rows.memory_bound)
        folder = rows.FOLDERS.get(kind, "memory_bound")
        fit = choose(folder, accelerators, machines.effective_dtypes(dtype), by_name)
        block = rows.Block.of(operators, chosen)
        time_s[chosen] = formula(block, machines, dtype, fit, **run)
        if kind in _FORMULAS:
            compute_s[chosen] = operators.flops[chosen, None] / machines.peak(dtype)
            ledger.add(machines, dtype)
        ledger.origins[f"{folder}/{dtype}"] = fit
    traffic = (operators.bytes_read + operators.bytes_written)[:, None]
    return DeviceTimes(
        time_s=time_s, compute_floor_s=compute_s, memory_floor_s=traffic / machines.bandwidth_bytes_per_s,
        origins=ledger.origins, fallbacks=tuple(tuple(n) for n in ledger.notes),
    )  # fmt: skip
