"""One accelerator: what its vendor states, in SI units; and how near two of them are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from steptime.errors import InputError

# What may stand in a table of dense peaks; fp64_matrix and fp16_accumulate_fp16 are rates of matrix units.
PRECISIONS = (
    "fp64",
    "fp64_matrix",
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "fp8",
    "fp4",
    "int8",
    "fp16_accumulate_fp16",
)
CONFIDENCES = ("high", "medium", "low")

# Labels count in GiB and call it GB. What a process gets of them, as drivers print it, runs from 0.92 (GDDR
# with ECC switched on) over 0.99 (HBM) to 1.00 (GDDR without ECC); this is for the others.
_USABLE_FRACTION = 0.985
_LABEL_BYTES = 2**30 / 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Accelerator:
    """One SKU. Absent facts are None; peaks are dense, by dtype, without structured sparsity.

    ``memory_capacity_bytes`` is the label ("80 GB"), ``memory_usable_bytes`` what a driver showed of it.
    """

    name: str
    vendor: str
    architecture: str
    year: int
    peak_flops_per_s: Mapping[str, float] = field(hash=False)
    memory_capacity_bytes: float
    memory_bandwidth_bytes_per_s: float
    source: str
    confidence: str = "medium"
    form: str = ""
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
    locator: str = ""
    retrieved: str = ""
    note: str = ""
    file: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Refuse what no accelerator can be.

        Raises
        ------
        InputError
            When the name is empty, a rate or size is not above zero, or a dtype or confidence is not known.
        """
        if not self.name.strip():
            raise InputError("An accelerator needs a name.")
        strange = sorted(set(self.peak_flops_per_s) - set(PRECISIONS))
        if strange:
            raise InputError(
                f"{self.name}: no dtype is called {strange[0]}; there are {', '.join(PRECISIONS)}."
            )
        if self.confidence not in CONFIDENCES:
            raise InputError(
                f"{self.name}: confidence is {self.confidence!r}, not one of {', '.join(CONFIDENCES)}."
            )
        quantities = [
            *self.peak_flops_per_s.values(),
            self.memory_capacity_bytes,
            self.memory_bandwidth_bytes_per_s,
        ]
        if not all(q > 0 for q in quantities):
            raise InputError(f"{self.name}: peaks, memory and bandwidth must be above zero.")

    @property
    def usable_memory_bytes(self) -> float:
        """What a process can use: as a driver showed it, else a fixed part of the label."""
        if self.memory_usable_bytes is not None:
            return self.memory_usable_bytes
        return self.memory_capacity_bytes * _LABEL_BYTES * _USABLE_FRACTION

    @property
    def supported_precisions(self) -> tuple[str, ...]:
        """The dtypes that it has a rate for."""
        return tuple(self.peak_flops_per_s)

    def to_dict(self) -> dict[str, Any]:
        """Return every known fact as plain values for JSON; absent ones are left out."""
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "file"}
        facts["peak_flops_per_s"] = dict(self.peak_flops_per_s)
        facts["usable_memory_bytes"] = self.usable_memory_bytes
        return {name: value for name, value in facts.items() if value not in (None, "", ())}


def similarity(one: Accelerator, other: Accelerator) -> tuple[int, ...]:
    """Judge how well fitted parameters of one accelerator serve another; larger is nearer.

    A visible order, not a fit: the same accelerator, the same compute capability, vendor, kind of memory,
    first digit of the capability, architecture, and the fewest years apart. Memory stands before architecture
    because one name covers two designs: an RTX-5090 (GDDR) computes as an RTX-4090 does, not as a B200 (HBM).
    """
    mine, theirs = one.compute_capability, other.compute_capability
    return (
        one.name == other.name,
        mine == theirs != "",
        one.vendor == other.vendor,
        _memory_kind(one) == _memory_kind(other),
        mine.partition(".")[0] == theirs.partition(".")[0] != "",
        one.architecture == other.architecture,
        -abs(one.year - other.year),
    )


def relatives(accelerator: Accelerator, others: Iterable[Accelerator]) -> list[Accelerator]:
    """Return ``others`` with the nearest first; of equally near ones the first stays first."""
    return sorted(others, key=lambda other: similarity(accelerator, other), reverse=True)


def _memory_kind(a: Accelerator) -> str:
    return a.memory_type.upper().rstrip("0123456789EX")
