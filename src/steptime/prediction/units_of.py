"""How many multiprocessors the formulas see, and at which clock, where a record does not say or counts other things.

The formulas divide work over multiprocessors. A NeuronCore or a TensorCore is as large as dozens of them, and some
vendors state no clock. Such a chip is taken as its nearest relative that has both, scaled to its own peak: by

    n = n_r · (P / P_r) · (f_r / f)

with count n, peak P and clock f, and r the relative. Assumption; what would settle it: kernels timed on such a chip.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from steptime.hardware import Accelerator, load_catalogue, relatives

_MULTIPROCESSORS = ("SM", "CU", "")
_COMPARED = ("bf16", "fp16", "fp32", "fp8", "int8")


@dataclass(frozen=True, kw_only=True, slots=True)
class Units:
    """Multiprocessors, their clock, and what was assumed in place of a fact (empty: nothing)."""

    num_units: float
    clock_hz: float
    note: str = ""


@lru_cache(maxsize=256)
def units_of(accelerator: Accelerator) -> Units:
    """Return the multiprocessors of an accelerator as the formulas count them."""
    own = accelerator.num_units if accelerator.unit_kind in _MULTIPROCESSORS else None
    clock_hz = accelerator.boost_clock_hz
    if own is not None and clock_hz is not None:
        return Units(num_units=own, clock_hz=clock_hz)
    relative, ratio = _relative(accelerator)
    assert relative.num_units is not None
    assert relative.boost_clock_hz is not None
    clock_hz = clock_hz or relative.boost_clock_hz
    scaled = max(round(relative.num_units * ratio * relative.boost_clock_hz / clock_hz), 1)
    missing = [
        *(("the number of multiprocessors",) if own is None else ()),
        *(("the clock",) if not accelerator.boost_clock_hz else ()),
    ]
    note = f"{' and '.join(missing)} of {accelerator.name} come from {relative.name} by their peaks: an assumption"
    return Units(num_units=own or scaled, clock_hz=clock_hz, note=note)


def _relative(accelerator: Accelerator) -> tuple[Accelerator, float]:
    """Return the nearest accelerator that has what is missing, and the ratio of the peaks to its own."""
    known = [
        a for a in load_catalogue().accelerators
        if a.name != accelerator.name and a.num_units and a.boost_clock_hz and a.unit_kind in _MULTIPROCESSORS
    ]  # fmt: skip
    mine = accelerator.peak_flops_per_s
    for other in relatives(accelerator, known):
        for dtype in _COMPARED:
            if dtype in mine and dtype in other.peak_flops_per_s:
                return other, mine[dtype] / other.peak_flops_per_s[dtype]
    return known[0], 1.0
