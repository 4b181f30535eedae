"""Find the fitted parameters for an accelerator, or those of its nearest relative, and say which."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.errors import CatalogueError
from steptime.hardware import Accelerator, similarity
from steptime.units import parse

SCHEMA = "steptime.fitted/1"
# When nothing was fitted in a dtype, the nearest one in how the units compute.
_DTYPE_CHAIN = {
    "bf16": ("bf16", "fp16"), "fp16": ("fp16", "bf16"), "tf32": ("tf32", "bf16", "fp16"),
    "fp8": ("fp8", "bf16"), "fp4": ("fp4", "fp8"), "int8": ("int8", "fp8", "bf16"),
    "fp32": ("fp32", "tf32", "bf16"), "fp64": ("fp64", "fp32", "bf16"), "int": ("fp32", "bf16"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Parameters per accelerator, each value of shape (accelerators,), and where each came from."""

    values: Mapping[str, NDArray[np.float64]]
    origin: tuple[str, ...]  # per accelerator: name of the accelerator whose fit is used
    dtype: tuple[str, ...]
    date: tuple[str, ...]


@lru_cache(maxsize=1)
def load_fits() -> dict[str, list[dict[str, Any]]]:
    """Return all fitted sets on the shelf by formula folder, user's own first.

    Raises
    ------
    CatalogueError
        When a file is damaged or of another schema.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for folder in resources.files("steptime").joinpath("data", "fitted").iterdir():
        if folder.is_dir():
            found[folder.name] = [
                _read(f) for f in sorted(folder.iterdir(), key=lambda f: f.name) if f.name.endswith(".json")
            ]
    return found


def _read(path: Any) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CatalogueError(
            f"The fitted file {path} is damaged ({error}); refit it with 'steptime calibrate'."
        ) from None
    if content.get("schema") != SCHEMA:
        raise CatalogueError(
            f"The fitted file {path} has schema {content.get('schema')!r}, expected {SCHEMA!r}."
        )
    return content


def choose(
    formula: str,
    accelerators: Sequence[Accelerator],
    dtypes: Sequence[str],
    by_name: Mapping[str, Accelerator],
) -> Choice:
    """Pick a whole fitted set for each accelerator: its own, else its nearest relative's.

    Parameters
    ----------
    formula : str
        A folder of ``data/fitted``.
    accelerators : sequence of Accelerator
    dtypes : sequence of str
        The dtype in which each of them computes.
    by_name : mapping
        The catalogue, to judge how near a fitted accelerator is.

    Raises
    ------
    CatalogueError
        When nothing was fitted, or sets of one formula have different parameters.
    """
    sets = load_fits().get(formula, [])
    picked = [_nearest(sets, a, d, by_name, formula) for a, d in zip(accelerators, dtypes, strict=True)]
    names = sorted(picked[0]["values"])
    if any(sorted(p["values"]) != names for p in picked):
        raise CatalogueError(
            f"Fitted sets of {formula} have different parameters; refit them all with 'steptime calibrate'."
        )
    return Choice(
        values={n: np.array([p["values"][n] for p in picked], dtype=float) for n in names},
        origin=tuple(p["accelerator"] for p in picked),
        dtype=tuple(p["dtype"] for p in picked),
        date=tuple(p["date"] for p in picked),
    )


@lru_cache(maxsize=1)
def _host_shelf() -> dict[str, dict[str, str]]:
    text = resources.files("steptime").joinpath("data", "published", "host.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def choose_host(mode: str) -> dict[str, float]:
    """Return the host's costs of one operator in an execution mode."""
    costs = _host_shelf()[mode]
    return {
        f"{name}_s": parse(costs[name], "s") for name in ("forward_dispatch", "backward_dispatch", "launch")
    }


# Sets fitted on several accelerators at once, for relatives of none of them: by how tensor cores get their operands.
_POOLS = {"9": "pooled-asynchronous", "10": "pooled-asynchronous"}
_OTHER_POOL = "pooled-synchronous"


def _nearest(
    sets: Sequence[dict[str, Any]],
    accelerator: Accelerator,
    dtype: str,
    by_name: Mapping[str, Accelerator],
    formula: str,
) -> dict[str, Any]:
    # memory is moved alike in every dtype, and alike by memory controllers of one time
    if formula == "memory_bound":
        return min(sets, key=lambda s: _years_apart(accelerator, by_name[s["accelerator"]]))
    for wanted in _DTYPE_CHAIN.get(dtype, (dtype, "fp32")):
        usable = [s for s in sets if s["dtype"] == wanted]
        own = [s for s in usable if s["accelerator"] in by_name]
        if not own:
            continue
        best = max(own, key=lambda s: similarity(accelerator, by_name[s["accelerator"]]))
        pool = _POOLS.get(accelerator.compute_capability.split(".")[0], _OTHER_POOL)
        pooled = [s for s in usable if s["accelerator"] == pool]
        same_chip = by_name[best["accelerator"]].compute_capability == accelerator.compute_capability != ""
        return pooled[0] if pooled and not same_chip else best
    raise CatalogueError(f"Nothing was fitted for {formula} in {dtype}; run 'steptime calibrate {formula}'.")


def _years_apart(one: Accelerator, other: Accelerator) -> tuple[bool, int, tuple[int, ...]]:
    near = similarity(one, other)
    return one.name != other.name, abs(one.year - other.year), tuple(-n for n in near)
