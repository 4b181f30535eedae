"""Hand the rows of each kind and dtype to the formula that knows them, on all accelerators at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.hardware import Accelerator
from steptime.prediction import rows
from steptime.prediction.fits import Choice, choose
from steptime.prediction.in_step import in_step_ratio
from steptime.prediction.peaks import Machines
from steptime.prediction.sustained import flop_energy_j
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
# Leave to use TF32 takes no kernel away: a library still has those of fp32, and runs what is faster.
_DTYPES_TRIED = {"tf32": ("tf32", "fp32")}


def device_times(
    operators: Operators,
    accelerators: Sequence[Accelerator],
    by_name: Mapping[str, Accelerator],
    *,
    in_step: str,
    **run: Any,
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
    in_step : str
        Which ratios of whole steps to kernels apply; none when empty.
    """
    machines = Machines.of(accelerators)
    shape = (len(operators), len(accelerators))
    time_s, compute_s = np.zeros(shape), np.zeros(shape)
    ledger = _Ledger(notes=[{} for _ in accelerators])
    for kind, dtype, chosen in _blocks(operators):
        block = rows.Block.of(operators, chosen)
        times = [
            _times_of(kind, block, machines, d, by_name, run) for d in _DTYPES_TRIED.get(dtype, (dtype,))
        ]
        time_s[chosen], fit = np.minimum.reduce([t for t, _ in times]), times[0][1]
        if kind in _FORMULAS:
            compute_s[chosen] = operators.flops[chosen, None] / machines.peak(dtype)
            ledger.add(machines, dtype)
        ledger.origins[f"{_folder(kind)}/{dtype}"] = fit
    if in_step:
        ratio, borrowed = in_step_ratio(operators, accelerators, ledger.origins, in_step, by_name)
        time_s *= ratio
        for notes, told in zip(ledger.notes, borrowed, strict=True):
            notes.update({told: None} if told else {})
    traffic = (operators.bytes_read + operators.bytes_written)[:, None]
    return DeviceTimes(
        time_s=time_s, compute_floor_s=compute_s, memory_floor_s=traffic / machines.bandwidth_bytes_per_s,
        origins=ledger.origins, fallbacks=tuple(tuple(n) for n in ledger.notes),
    )  # fmt: skip


def _times_of(
    kind: str, block: rows.Block, machines: Machines, dtype: str, by_name: Mapping[str, Accelerator],
    run: Mapping[str, Any],
) -> tuple[FloatArray, Choice]:  # fmt: skip
    """Time rows of one kind as if in ``dtype``, with the fit that was used."""
    # only products need units for a dtype
    dtypes = machines.effective_dtypes(dtype) if kind in _FORMULAS else [dtype] * len(machines.accelerators)
    fit = choose(_folder(kind), machines.accelerators, dtypes, by_name)
    energy = {"energy_j": flop_energy_j(machines.accelerators, dtypes, by_name)} if kind == Kind.GEMM else {}
    return _FORMULAS.get(kind, rows.memory_bound)(block, machines, dtype, fit, **run, **energy), fit


def _folder(kind: str) -> str:
    return rows.FOLDERS.get(kind, "memory_bound")


def _blocks(operators: Operators) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    """Yield the rows of each kind and dtype; batch norms apart from norms along rows, forward from backward."""
    apart = np.where(np.char.find(operators.name, "batch_norm") >= 0, "batch", operators.direction)
    keys = zip(operators.kind.tolist(), operators.dtype.tolist(), apart.tolist(), strict=True)
    numbers: dict[tuple[str, str, str], list[int]] = {}
    for row, key in enumerate(keys):
        numbers.setdefault(key, []).append(row)
    for (kind, dtype, _), chosen in sorted(numbers.items()):
        yield kind, dtype, np.asarray(chosen)
