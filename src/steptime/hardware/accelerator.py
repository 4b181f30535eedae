"""One accelerator: what its vendor states, in SI units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Label of a memory over what torch can use of it, where no figure was read from a machine.
USABLE_FRACTION = 0.985


@dataclass(frozen=True, kw_only=True, slots=True)
class Accelerator:
    """One SKU. Absent facts are None; peaks are dense, by dtype, without structured sparsity."""

    name: str
    vendor: str
    architecture: str
    year: int
    peak_flops_per_s: Mapping[str, float]
    memory_capacity_bytes: float
    memory_bandwidth_bytes_per_s: float
    form: str
    source: str
    confidence: str
    num_units: int | None = None
    unit_kind: str = ""
    boost_clock_hz: float | None = None
    max_clock_hz: float | None = None
    memory_usable_bytes: float | None = None
    memory_type: str = ""
    l2_bytes: float | None = None
    last_level_cache_bytes: float | None = None
    shared_memory_per_unit_bytes: float | None = None
    register_file_per_unit_bytes: float | None = None
    link: str = ""
    link_bandwidth_bytes_per_s: float | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    power_limit_w: float | None = None
    compute_capability: str = ""
    aliases: tuple[str, ...] = ()
    default_for: tuple[str, ...] = ()
    note: str = ""
    retrieved: str = ""
    file: str = field(default="", compare=False)

    @property
    def usable_memory_bytes(self) -> float:
        """What a process can use: as read from a machine, else the label less what is kept back."""
        return self.memory_usable_bytes or self.memory_capacity_bytes * USABLE_FRACTION

    @property
    def supported_precisions(self) -> tuple[str, ...]:
        """The dtypes that it has a rate for."""
        return tuple(self.peak_flops_per_s)


_SAME_CAPABILITY, _SAME_ARCHITECTURE, _SAME_VENDOR, _SAME_MEMORY, _PER_YEAR = 16.0, 8.0, 6.0, 3.0, 0.5


def similarity(one: Accelerator, other: Accelerator) -> float:
    """Judge how well parameters of one accelerator serve another; larger is nearer.

    Same name, then same compute capability, architecture, vendor, kind of memory, and years apart: a visible
    rule, not a fit.
    """
    if one.name == other.name:
        return float("inf")
    score = -_PER_YEAR * abs(one.year - other.year)
    score += _SAME_CAPABILITY * (one.compute_capability == other.compute_capability != "")
    score += _SAME_ARCHITECTURE * (one.architecture == other.architecture)
    score += _SAME_VENDOR * (one.vendor == other.vendor)
    score += _SAME_MEMORY * (_memory_class(one) == _memory_class(other))
    return score


def _memory_class(a: Accelerator) -> str:
    return "hbm" if "HBM" in a.memory_type.upper() else "gddr" if "GDDR" in a.memory_type.upper() else a.memory_type
