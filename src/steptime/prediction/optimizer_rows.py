"""Make the optimizer's rows from the shapes of the parameters, as CUDA would run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.kernels.optimizer import (
    ELEMENTS_OF_A_LAUNCH,
    optimizer_bytes_per_parameter,
    optimizer_num_launches,
    tensors_of_a_launch,
)
from steptime.prediction.peaks import ELEMENT_BYTES
from steptime.workload.operator import NUM_DIMS, Direction, Kind, Phase
from steptime.workload.optimizer import OptimizerFacts, find_optimizer
from steptime.workload.recipe import Recipe
from steptime.workload.table import Operators, ParameterGroup


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
    fused = implementation == "fused"
    read, written = optimizer_bytes_per_parameter(
        facts.reads if fused else facts.foreach_reads, facts.writes if fused else facts.foreach_writes,
        num_states=facts.states, parameter_bytes=width, gradient_bytes=width, state_bytes=facts.state_bytes or width,
    )  # fmt: skip
    if implementation == "for-loop":
        kernels = facts.kernels_per_tensor
        sizes = [float(np.prod(g.shape, dtype=float)) for g in groups]
        return [
            _row(size / kernels, float(read), float(written), kernels * g.count)
            for size, g in zip(sizes, groups, strict=True)
        ]
    depths = (2 + facts.states,) if fused else facts.foreach_depths
    launches = optimizer_num_launches(
        tensors,
        elements,
        tensors_per_launch=tensors_of_a_launch(depths),
        elements_per_launch=ELEMENTS_OF_A_LAUNCH,
    ).sum() + (0 if fused else facts.tensor_kernels * tensors)
    return [_row(elements / launches, float(read), float(written), float(launches))]


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
