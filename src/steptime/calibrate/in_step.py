"""Fit what whole steps take over the sum of their kernels, from published whole-model measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from steptime.calibrate.fitted_file import FitError, FittedSet, source_of
from steptime.calibrate.split import is_held_out
from steptime.hardware import load_catalogue
from steptime.prediction.device_times import device_times
from steptime.prediction.in_step import CLASSES, classes_of
from steptime.prediction.optimizer_rows import with_optimizer
from steptime.workload.capture import CaptureRequest, capture_many
from steptime.workload.recipe import Recipe
from steptime.workload.table import Operators, Workload

FORMULA = "steptime.prediction.in_step.in_step_ratio"
COMMAND = "steptime calibrate in-step --data DIR"
TABLE = "timm_single_gpu.parquet"
# Which rows give which set: accelerator, task, compiled. The 5090 is left out: it only judges.
_SETS = (
    ("RTX-3090", "train", False),
    ("RTX-3090", "infer", False),
    ("RTX-4090", "infer", False),
    ("RTX-4090", "infer", True),
)
_FIRST_FUSED_ATTENTION = "2.0"
# Ratios stay near 1 where the models do not tell classes apart; none may leave this range.
_PULL, _RANGE, _ROUNDS = 1.0, (0.2, 3.0), 8
_FLOOR = 0.05


@dataclass(frozen=True, kw_only=True)
class _Sums:
    """Seconds by class, shape (models, classes), beside what was measured."""

    predicted_s: NDArray[np.float64]
    measured_s: NDArray[np.float64]
    held_out: NDArray[np.bool_]


def _request(row: Any) -> CaptureRequest:
    eager = row.torch < _FIRST_FUSED_ATTENTION
    return CaptureRequest(model=row.model, precision="amp-fp16", task=row.task, image_size=int(row.image_size),
                          attention="eager" if eager else "sdpa")  # fmt: skip


def _operators(workload: Workload, row: Any) -> Operators:
    operators = workload.operators.at(row.batch)
    if row.task != "train":
        return operators
    implementation = "for-loop" if row.torch < _FIRST_FUSED_ATTENTION else "foreach"
    recipe = Recipe(
        precision="amp-fp16", batch=int(row.batch), optimizer="sgd-momentum", implementation=implementation
    )
    return with_optimizer(operators, workload.sequence, workload.parameters, recipe)[0]


def _captured(rows: pd.DataFrame, progress: Callable[[str], None]) -> Iterator[tuple[Any, Operators]]:
    """Yield each row whose model can be captured, with its operators."""
    requests = {r: _request(r) for r in rows.itertuples()}
    workloads = {}
    for request, workload in capture_many(list(dict.fromkeys(requests.values()))):
        progress(f"capturing {request.model}")
        if isinstance(workload, Workload):
            workloads[request] = workload
    for row, request in requests.items():
        if request in workloads:
            yield row, _operators(workloads[request], row)


def _sums(rows: pd.DataFrame, progress: Callable[[str], None]) -> _Sums:
    catalogue = load_catalogue()
    seconds, measured, models = [], [], []
    for row, operators in _captured(rows, progress):
        accelerator = catalogue.find(row.accelerator).accelerator
        times = device_times(operators, [accelerator], catalogue.by_name, in_step="",
                             channels_last=row.memory_format == "channels_last", fused=bool(row.compiled))  # fmt: skip
        classes = classes_of(operators)
        cost = times.time_s[:, 0] * operators.count
        seconds.append([float(cost[classes == c].sum()) for c in CLASSES])
        measured.append(row.step_ms / 1e3)
        models.append(row.model)
    return _Sums(predicted_s=np.array(seconds), measured_s=np.array(measured), held_out=is_held_out(models))


def _ratios(sums: _Sums) -> NDArray[np.float64]:
    """Solve for ratios by least absolute error: least squares, weights renewed, with a pull towards 1."""
    shares = (sums.predicted_s / sums.measured_s[:, None])[~sums.held_out]
    weight, ratio = np.ones(len(shares)), np.ones(len(CLASSES))
    for _ in range(_ROUNDS):
        left = np.concatenate([shares * weight[:, None], np.eye(len(CLASSES)) * _PULL])
        ratio = lsq_linear(left, np.concatenate([weight, np.full(len(CLASSES), _PULL)]), _RANGE).x
        weight = np.sqrt(0.1 / np.maximum(np.abs(shares @ ratio - 1), _FLOOR))
    return ratio


def fit_in_step(data: Path, progress: Callable[[str], None] = lambda _: None) -> list[FittedSet]:
    """Fit every set; captures some hundred models the first time (they are kept in the cache)."""
    table = pd.read_parquet(data / TABLE)
    made = []
    for accelerator, task, compiled in _SETS:
        rows = table[
            (table["accelerator"] == accelerator) & (table["task"] == task) & (table["compiled"] == compiled)
        ]
        sums = _sums(rows, progress)
        ratio = _ratios(sums)
        unseen = sums.held_out
        made.append(
            FittedSet(
                formula=FORMULA, accelerator=accelerator, dtype=f"{task}-{'compiled' if compiled else 'eager'}",
                values=dict(zip(CLASSES, ratio.round(4).tolist(), strict=True)),
                sources=[source_of(data / TABLE, int((~unseen).sum()))], command=COMMAND,
                error=FitError.of(sums.predicted_s[unseen] @ ratio, sums.measured_s[unseen]),
                valid={"batch": [int(rows["batch"].min()), int(rows["batch"].max())]},
                note="the dtype names task and mode; models held out by name; mixed precision in fp16",
            )
        )  # fmt: skip
    return made
