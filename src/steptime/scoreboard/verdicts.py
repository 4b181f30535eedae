"""What judging a table gives: one verdict a row, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One measured row beside its prediction; seconds or bytes."""

    row: int
    dataset: str
    accelerator: str
    subject: str
    group: str  # class of residuals: task/family/provenance, or kernel/formula/provenance
    measured: float
    predicted: float
    roofline: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    rivals: dict[str, float] = field(default_factory=dict)

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class NotMapped:
    """A row that nothing of ours answers, and why."""

    row: int
    dataset: str
    accelerator: str
    reason: str


@dataclass(slots=True)
class Judgement:
    """All rows of one table."""

    verdicts: list[Verdict] = field(default_factory=list)
    not_mapped: list[NotMapped] = field(default_factory=list)

    def extend(self, other: Judgement) -> None:
        """Add another table's rows."""
        self.verdicts += other.verdicts
        self.not_mapped += other.not_mapped

    def reasons(self) -> dict[str, int]:
        """Count the rows that were not mapped by reason, most first."""
        names, counts = np.unique([n.reason for n in self.not_mapped], return_counts=True)
        order = np.argsort(-counts)
        return {str(names[i]): int(counts[i]) for i in order}
