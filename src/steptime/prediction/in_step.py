"""What a whole step takes over the sum of its kernels' formulas, by class of operator.

Formulas that were fitted on other accelerators are off by what those differ in: clocks above the catalogue's,
memory of another kind, libraries' choices. Whole-model measurements of an accelerator give one ratio per class
and mode; its relatives with the same kind of memory borrow them, other cards of the vendor those of kernels that
only move memory. Formulas fitted on the accelerator itself need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.hardware import Accelerator, similarity
from steptime.prediction.fits import Choice, load_fits
from steptime.prediction.rows import FOLDERS
from steptime.workload.operator import Kind
from steptime.workload.table import Operators

CLASSES = (
    "dense_convolution", "grouped_convolution", "depthwise_convolution", "batch_norm", "row_norm", "gemm", "attention",
    "elementwise", "copy", "softmax", "pooling", "other",
)  # fmt: skip
# Kernels that only move memory: their formula and its base are shared by all cards.
_MOVING = ("batch_norm", "row_norm", "elementwise", "copy", "softmax", "pooling", "other")
_PLAIN = {Kind.GEMM: "gemm", Kind.ATTENTION: "attention", Kind.ELEMENTWISE: "elementwise", Kind.COPY: "copy",
          Kind.SOFTMAX: "softmax", Kind.POOLING: "pooling"}  # fmt: skip


def classes_of(operators: Operators) -> NDArray[np.str_]:
    """Name the class of each row, shape (rows,)."""
    groups, channels = operators.dims[:, 3], operators.dims[:, 1]
    convolution = operators.kind == Kind.CONVOLUTION
    norm = operators.kind == Kind.NORMALISATION
    over_batch = np.char.find(operators.name, "batch_norm") >= 0
    plain = np.array([_PLAIN.get(Kind(str(k)), "other") for k in operators.kind])
    return np.select(
        [
            convolution & (groups == 1),
            convolution & (groups == channels),
            convolution,
            norm & over_batch,
            norm,
        ],
        ["dense_convolution", "depthwise_convolution", "grouped_convolution", "batch_norm", "row_norm"],
        plain,
    )


def mode_of(task: str, mode: str) -> str:
    """Name the set of ratios of a run."""
    return f"{'train' if task == 'train' else 'infer'}-{'compiled' if mode == 'compiled' else 'eager'}"


def in_step_ratio(
    operators: Operators, accelerators: Sequence[Accelerator], origins: Mapping[str, Choice], mode: str,
    by_name: Mapping[str, Accelerator],
) -> tuple[NDArray[np.float64], list[str]]:  # fmt: skip
    """Return the ratio of each row on each accelerator, and what was borrowed from where (empty: nothing).

    Parameters
    ----------
    operators : Operators
    accelerators : sequence of Accelerator
    origins : mapping
        Which fits the rows' formulas used, by folder and dtype.
    mode : str
        As ``mode_of`` names it.
    by_name : mapping
        The catalogue.
    """
    ratio = np.ones((len(operators), len(accelerators)))
    notes = [""] * len(accelerators)
    classes = classes_of(operators)
    keys = [
        f"{FOLDERS.get(str(k), 'memory_bound')}/{d}"
        for k, d in zip(operators.kind, operators.dtype, strict=True)
    ]
    for i, accelerator in enumerate(accelerators):
        chosen = _chosen(accelerator, mode, by_name)
        if chosen is None:
            continue
        own = np.array([origins[k].origin[i] == accelerator.name for k in keys])
        values = np.array([chosen["values"][c] for c in classes])
        measured_here = chosen["accelerator"] == accelerator.name
        alike = _memory(by_name[str(chosen["accelerator"])]) == _memory(accelerator)
        borrowed = np.isin(classes, _MOVING) if not alike else np.ones(len(classes), dtype=bool)
        ratio[:, i] = np.where((own & (not measured_here)) | ~borrowed, 1.0, values)
        notes[i] = f"ratios of whole steps to kernels ({mode}) measured on {chosen['accelerator']}"
    return ratio, notes


def _chosen(accelerator: Accelerator, mode: str, by_name: Mapping[str, Accelerator]) -> dict[str, Any] | None:
    sets = load_fits().get("in_step", [])
    for wanted in dict.fromkeys((mode, mode.replace("train-compiled", "train-eager"))):
        alike = [
            s for s in sets if s["dtype"] == wanted and by_name[s["accelerator"]].vendor == accelerator.vendor
        ]  # fmt: skip
        if alike:
            return max(alike, key=lambda s: similarity(accelerator, by_name[s["accelerator"]]))
    return None


def _memory(accelerator: Accelerator) -> str:
    return accelerator.memory_type.upper()[:4]
