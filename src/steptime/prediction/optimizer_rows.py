"""Make the optimizer's rows from the shapes of the parameters, as CUDA would run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.prediction.peaks import ELEMENT_BYTES
from steptime.workload.operator import NUM_DIMS, Direction, Kind, Phase
from steptime.workload.optimizer import OptimizerFacts, find_optimizer
from steptime.workload.recipe import Recipe
from steptime.workload.table import Operators, ParameterGroup

# Tensors that one multi-tensor launch takes. Source: PyTorch 2.13, ATen/native/cuda/MultiTensorApply.cuh
# (depth 4: 30 tensors, 320 blocks of 65,536 elements).
TENSORS_PER_LAUNCH, ELEMENTS_PER_LAUNCH = 30, 320 * 65536


def with_optimizer(
    operators: Operators, sequence: NDArray[np.int64], groups: Sequence[ParameterGroup], recipe: Recipe
) -> tuple[Operators, NDArray[np.int64]]:
    """Append the optimizer step to a table and its sequence."""
    facts = find_optimizer(recipe.optimizer)
    trained = [g for g in groups if g.trainable]
    if not trained or facts.reads == 0:
        return operators, sequence
    rows = _rows(facts, trained, recipe.implementation)
    start = len(operators)
    added = _operators(rows, facts.name)
    order = np.repeat(start + np.arange(len(rows)), [int(r["count"]) for r in rows])
    return _stack(operators, added), np.concatenate([sequence, order])


def _rows(
    facts: OptimizerFacts, groups: Sequence[ParameterGroup], implementation: str
) -> list[dict[str, Any]]:
    """Return one row per kind of kernel: elements, bytes in and out, launches, how often."""
    elements = float(sum(g.num_parameters for g in groups))
    tensors = sum(g.count for g in groups)
    width = sum(g.num_parameters * ELEMENT_BYTES.get(g.dtype, 4) for g in groups) / elements
    if implementation == "fused":
        kernels = max(np.ceil(tensors / TENSORS_PER_LAUNCH), np.ceil(elements / ELEMENTS_PER_LAUNCH))
        return [_row(elements / kernels, facts.reads * width, facts.writes * width, kernels)]
    passes = max(facts.foreach_kernels, 1)
    moved = facts.foreach_traffic * width / passes  # what one of the unfused kernels moves for each element
    if implementation == "foreach":
        kernels = passes * max(np.ceil(tensors / TENSORS_PER_LAUNCH), np.ceil(elements / ELEMENTS_PER_LAUNCH))
        return [_row(elements * passes / kernels, moved * 2 / 3, moved / 3, kernels)]
    return [
        _row(float(np.prod(g.shape, dtype=float)), moved * 2 / 3, moved / 3, passes * g.count) for g in groups
    ]


def _row(elements: float, read_bytes: float, written_bytes: float, count: float) -> dict[str, Any]:
    return {
        "elements": elements,
        "read": elements * read_bytes,
        "written": elements * written_bytes,
        "count": float(count),
    }


def _operators(rows: Sequence[dict[str, Any]], name: str) -> Operators:
    n = len(rows)
    dims = np.zeros((n, NUM_DIMS))
    dims[:, 0] = [r["elements"] for r in rows]

    def column(key: str) -> NDArray[np.float64]:
        return np.array([r[key] for r in rows], dtype=float)

    def text(value: str) -> NDArray[np.str_]:
        return np.full(n, str(value))

    return Operators(
        kind=text(Kind.OPTIMIZER), name=text(name), phase=text(Phase.OPTIMIZER), direction=text(Direction.FORWARD),
        dtype=text("fp32"), module=text("optimizer"), count=column("count"), launches=np.ones(n),
        recomputed=np.zeros(n, dtype=bool), dims=dims, bytes_read=column("read"), bytes_written=column("written"),
        saved_bytes=np.zeros(n), fused_launches=np.ones(n), fused_bytes_read=column("read"),
        fused_bytes_written=column("written"),
    )  # fmt: skip


def _stack(first: Operators, second: Operators) -> Operators:
    names = Operators.__dataclass_fields__
    return Operators(**{n: np.concatenate([getattr(first, n), getattr(second, n)]) for n in names})
