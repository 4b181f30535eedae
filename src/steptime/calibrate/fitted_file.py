"""Write one set of fitted parameters with where it came from."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

SCHEMA = "steptime.fitted/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class FitError:
    """Absolute and signed relative errors of a fit on rows that it did not see."""

    held_out_rows: int
    mean: float
    median: float
    p90: float
    bias: float

    @classmethod
    def of(cls, predicted: ArrayLike, measured: ArrayLike) -> FitError:
        """Compare predictions with measurements, both of shape (rows,) in the same unit."""
        signed = np.asarray(predicted, dtype=float) / np.asarray(measured, dtype=float) - 1.0
        size = np.abs(signed)
        return cls(
            held_out_rows=int(size.size),
            mean=round(float(size.mean()), 5),
            median=round(float(np.median(size)), 5),
            p90=round(float(np.quantile(size, 0.9)), 5),
            bias=round(float(signed.mean()), 5),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedSet:
    """One formula's parameters for one accelerator and dtype; a set is whole and never blended."""

    formula: str
    accelerator: str
    dtype: str
    values: Mapping[str, float | Sequence[float]]
    sources: Sequence[Mapping[str, Any]]
    command: str
    error: FitError | None
    valid: Mapping[str, Sequence[float]]
    note: str = ""
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())


def source_of(path: Path, rows: int) -> dict[str, Any]:
    """Name a table that was fitted on: file name, digest, and how many of its rows were used."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"file": path.name, "sha256": digest, "rows": rows}


def write(fitted: FittedSet, folder: Path) -> Path:
    """Write ``fitted`` as ``folder/<accelerator>.<dtype>.json`` in lower case; return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{fitted.accelerator.lower()}.{fitted.dtype}.json"
    content = {"schema": SCHEMA, **asdict(fitted)}
    content["from"] = content.pop("sources")
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path
