"""One interconnect: what its vendor states per direction, and what was seen of it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from steptime.errors import InputError
from steptime.hardware.accelerator import CONFIDENCES


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One link technology, switch system or network of a node. Absent facts are None.

    ``bandwidth_bytes_per_s`` is per direction, and per accelerator unless ``note`` says that it is a node's
    total. ``reached_bytes_per_s`` is what one direction carries between two ends in practice;
    ``all_reduce_bus_bytes_per_s`` is the bus bandwidth that was measured under ``condition``.
    """

    name: str
    kind: str
    bandwidth_bytes_per_s: float
    source: str
    confidence: str = "medium"
    lanes: str = ""
    reached_bytes_per_s: float | None = None
    all_reduce_bus_bytes_per_s: float | None = None
    all_reduce_bus_fraction: float | None = None
    condition: str = ""
    latency_s: float | None = None
    latency_basis: str = ""
    aliases: tuple[str, ...] = ()
    locator: str = ""
    retrieved: str = ""
    note: str = ""
    file: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Refuse what no link can be.

        Raises
        ------
        InputError
            When the bandwidth is not above zero or the confidence is not known.
        """
        if not self.bandwidth_bytes_per_s > 0:
            raise InputError(f"{self.name}: the bandwidth of a link must be above zero.")
        if self.confidence not in CONFIDENCES:
            raise InputError(
                f"{self.name}: confidence is {self.confidence!r}, not one of {', '.join(CONFIDENCES)}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return every known fact as plain values for JSON; absent ones are left out."""
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "file"}
        return {name: value for name, value in facts.items() if value not in (None, "", ())}
