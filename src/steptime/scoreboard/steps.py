"""Judge whole-model rows: step times and peak memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from steptime.errors import StepTimeError
from steptime.memory import memory_of
from steptime.prediction import Prediction, predict_workload
from steptime.prediction.provenance import family_of
from steptime.scoreboard.cases import Case, read_case
from steptime.scoreboard.verdicts import Judgement, NotMapped, Verdict
from steptime.workload.capture import CaptureRequest, capture_many
from steptime.workload.file import SUFFIX, load
from steptime.workload.models import ModelRequest, capture_request, load_workload, needs_capture
from steptime.workload.precision import to_precision
from steptime.workload.recipe import product_dtype
from steptime.workload.table import Workload

Progress = Callable[[str, int, int], None]


def judge_steps(rows: Sequence[Mapping[str, Any]], dataset: str, progress: Progress) -> Judgement:
    """Predict every row that can be mapped; captures each model once."""
    judgement, cases = Judgement(), []
    for index, row in enumerate(rows):
        try:
            cases.append(read_case(row, index, dataset))
        except StepTimeError as reason:
            judgement.not_mapped.append(_refused(index, dataset, row, str(reason)))
    by_request: dict[ModelRequest, list[Case]] = {}
    for case in cases:
        by_request.setdefault(case.request, []).append(case)
    for done, (request, workload) in enumerate(_workloads(list(by_request))):
        progress(request.name, done + 1, len(by_request))
        for case in by_request[request]:
            if isinstance(workload, str):
                judgement.not_mapped.append(_refused(case.row, dataset, rows[case.row], workload))
                continue
            try:
                judgement.verdicts.append(_verdict(case, workload))
            except StepTimeError as reason:
                judgement.not_mapped.append(_refused(case.row, dataset, rows[case.row], str(reason)))
    return judgement


def _refused(index: int, dataset: str, row: Mapping[str, Any], reason: str) -> NotMapped:
    return NotMapped(row=index, dataset=dataset, accelerator=str(row.get("accelerator", "")), reason=reason)


def _workloads(requests: Sequence[ModelRequest]) -> Iterable[tuple[ModelRequest, Workload | str]]:
    """Yield each request's workload, or why there is none; what must be captured shares one child process."""
    shelf = {r: path for r in requests if (path := _judge_shelf(r)) is not None}
    captured = [r for r in requests if r not in shelf and needs_capture(r)]
    for request in requests:
        if request in captured:
            continue
        try:
            yield request, _read(shelf[request], request) if request in shelf else load_workload(request)
        except StepTimeError as reason:
            yield request, str(reason)
    wanted: dict[CaptureRequest, list[ModelRequest]] = {}
    for request in captured:
        wanted.setdefault(capture_request(request), []).append(request)
    for capture, workload in capture_many(list(wanted)):
        for request in wanted[capture]:
            yield request, workload if isinstance(workload, str) else _asked(workload, request)


def _asked(workload: Workload, request: ModelRequest) -> Workload | str:
    try:
        return replace(to_precision(workload, request.precision), model=request.name)
    except StepTimeError as reason:
        return str(reason)


def judge_name(request: ModelRequest) -> str:
    """Name the file of a bundled judge workload."""
    parts = (
        request.name.replace("/", "_"),
        str(request.image_size),
        request.task,
        request.precision,
        request.attention,
    )
    return ".".join(parts) + SUFFIX


def _judge_shelf(request: ModelRequest) -> Path | None:
    path = Path(str(resources.files("steptime").joinpath("data", "captured", "judge", judge_name(request))))
    return path if path.is_file() else None


def _read(path: Path, request: ModelRequest) -> Workload:
    return replace(to_precision(load(path), request.precision), model=request.name)


def _verdict(case: Case, workload: Workload) -> Verdict:
    if case.metric == "step_time_s":
        prediction = predict_workload(workload, case.recipe, [case.accelerator])[0]
        return _step_verdict(case, prediction)
    memory = memory_of(to_precision(workload, case.recipe.precision), case.recipe, case.accelerator)
    return Verdict(
        row=case.row, dataset=case.dataset, accelerator=case.accelerator.name, subject=case.request.name,
        group=f"memory/{case.metric}", measured=case.measured,
        predicted=memory.device_bytes if case.metric == "device_bytes" else memory.peak_allocated_bytes,
    )  # fmt: skip


def _step_verdict(case: Case, p: Prediction) -> Verdict:
    family = family_of(p.times.operators, p.times.device_s)
    return Verdict(
        row=case.row, dataset=case.dataset, accelerator=case.accelerator.name, subject=case.request.name,
        group=f"{case.recipe.task}/{family}/{p.provenance}/{product_dtype(case.recipe.precision)}", measured=case.measured, predicted=p.step_time_s,
        roofline=p.roofline_s, low=p.step_time_low_s, high=p.step_time_high_s, rivals=dict(case.rivals),
    )  # fmt: skip
