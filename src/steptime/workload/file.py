"""Workloads on disk: gzipped JSON, columns as lists, one schema."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from steptime.errors import InputError, WorkloadError
from steptime.workload.operator import NUM_DIMS
from steptime.workload.sound import faults_of
from steptime.workload.table import Affine, OperatorTable, ParameterGroup, StorageTable, Workload

SCHEMA = "steptime.workload/1"
SUFFIX = ".workload.json.gz"


def _numbers(values: Any) -> list[Any]:
    """Write whole numbers without a decimal point."""
    return [int(v) if float(v).is_integer() else float(v) for v in np.asarray(values, dtype=float).ravel()]


def _encode(value: Any) -> Any:
    if isinstance(value, Affine):
        return {"base": _encode(value.base), "per_sample": _encode(value.per_sample)}
    if value.dtype.kind == "U":
        names, codes = np.unique(value, return_inverse=True)
        return {"names": names.tolist(), "codes": codes.tolist()}
    if value.ndim == 2:  # most dimensions are zero: keep the columns that are not
        return {str(i): _numbers(value[:, i]) for i in range(value.shape[1]) if value[:, i].any()}
    return _numbers(value)


def _decode(encoded: Any, annotation: str, rows: int) -> Any:
    if annotation == "Affine":
        two = "base" in encoded and any(not isinstance(encoded[k], list) for k in ("base", "per_sample"))
        read = _matrix if two else _column
        return Affine(base=read(encoded["base"], rows), per_sample=read(encoded["per_sample"], rows))
    if annotation == "StrArray":
        return np.asarray(encoded["names"], dtype=str)[np.asarray(encoded["codes"], dtype=np.int64)]
    column = np.asarray(encoded, dtype=float)
    if len(column) != rows:
        raise ValueError("columns of unequal length")
    return (
        column.astype(bool)
        if "bool" in annotation
        else column.astype(np.int64)
        if "int64" in annotation
        else column
    )


def _column(values: Any, rows: int) -> Any:
    column = np.asarray(values, dtype=float)
    if column.shape != (rows,):
        raise ValueError("columns of unequal length")
    return column


def _matrix(columns: Any, rows: int) -> Any:
    matrix = np.zeros((rows, NUM_DIMS))
    for place, values in columns.items():
        matrix[:, int(place)] = values
    return matrix


def _table(cls: Any, content: dict[str, Any]) -> Any:
    rows = len(next(v["codes"] for v in content.values() if isinstance(v, dict) and "codes" in v))
    return cls(**{f.name: _decode(content[f.name], str(f.type), rows) for f in fields(cls)})


_FACTS = ("model", "task", "precision", "forward_end", "image_size", "tokens_per_sample", "fixed_batch")


def save(workload: Workload, path: Path) -> None:
    """Write ``workload`` to ``path``; the same workload gives the same bytes.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    content: dict[str, Any] = {"schema": SCHEMA, **{f: getattr(workload, f) for f in _FACTS}}
    content["unknown_operators"], content["notes"] = list(workload.unknown_operators), list(workload.notes)
    content["origin"] = dict(workload.origin)
    content["parameters"] = [asdict(p) for p in workload.parameters]
    for name in ("operators", "storages"):
        table = getattr(workload, name)
        content[name] = {f.name: _encode(getattr(table, f.name)) for f in fields(table)}
    content["sequence"] = workload.sequence.tolist()
    text = json.dumps(content, separators=(",", ":")).encode()
    scratch = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(gzip.compress(text, 9, mtime=0))
        scratch.replace(path)
    except OSError as error:
        raise InputError(f"The workload cannot be written to {path}: {error.strerror or error}.") from None


def load(path: Path) -> Workload:
    """Read a workload.

    Raises
    ------
    WorkloadError
        When the file is missing, damaged, or of another schema.
    """
    try:
        content = json.loads(gzip.decompress(path.read_bytes()))
    except FileNotFoundError:
        raise WorkloadError(f"There is no workload file {path}.") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise WorkloadError(
            f"{path} is no workload file or is damaged ({error}); capture it again."
        ) from None
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise WorkloadError(f"{path} has schema {schema!r}, this version reads {SCHEMA!r}; capture it again.")
    try:
        workload = _workload(content)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration) as error:
        raise WorkloadError(
            f"{path} is damaged ({type(error).__name__}: {error}); capture it again."
        ) from None
    fault = next(faults_of(workload), "")
    if fault:
        raise WorkloadError(f"{path} is damaged ({fault}); capture it again.")
    return workload


def _workload(content: dict[str, Any]) -> Workload:
    groups = [ParameterGroup(**{**p, "shape": tuple(p["shape"])}) for p in content["parameters"]]
    return Workload(
        **{f: content[f] for f in _FACTS},
        operators=_table(OperatorTable, content["operators"]),
        storages=_table(StorageTable, content["storages"]),
        sequence=np.asarray(content["sequence"], dtype=np.int64),
        parameters=tuple(groups),
        unknown_operators=tuple(content["unknown_operators"]),
        notes=tuple(content["notes"]),
        origin=content["origin"],
    )
