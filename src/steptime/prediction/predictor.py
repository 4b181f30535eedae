"""The conductor: from a workload, a recipe and accelerators to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steptime.errors import InputError
from steptime.hardware import Accelerator, Match, load_catalogue
from steptime.kernels import finish_time_s, issue_time_s, roofline_time_s
from steptime.memory import largest_batch_that_fits, memory_of
from steptime.prediction.device_times import DeviceTimes, device_times
from steptime.prediction.fits import Choice, choose_host
from steptime.prediction.in_step import mode_of
from steptime.prediction.interval import step_time_interval
from steptime.prediction.optimizer_rows import with_optimizer
from steptime.prediction.peaks import check_precision, peak_of
from steptime.prediction.prediction import OperatorTimes, Prediction
from steptime.prediction.provenance import family_of, provenance_of, sources_of
from steptime.prediction.remarks import remarks_on
from steptime.workload.models import ModelRequest, load_workload
from steptime.workload.operator import Phase
from steptime.workload.precision import to_precision
from steptime.workload.recipe import Recipe, product_dtype
from steptime.workload.table import Operators, Workload

FloatArray = NDArray[np.float64]
MOST_OCCURRENCES = 20_000_000  # of operators in one step: arrays of some hundred MB
IN_STEP_DTYPES = ("fp16", "bf16")  # whole steps were measured in half precision


def predict_request(request: ModelRequest, recipe: Recipe, on: Sequence[str]) -> list[Prediction]:
    """Predict a model by name on accelerators by name.

    Parameters
    ----------
    request : ModelRequest
        Which model, on which shapes.
    recipe : Recipe
    on : sequence of str
        Accelerators as people type them.

    Raises
    ------
    StepTimeError
        Whatever names, captures or precisions cannot do, in one sentence.
    """
    if not on:
        raise InputError("Say on which accelerator (--on a100).")
    matches = [load_catalogue().find(name) for name in on]
    for match in matches:
        check_precision(match.accelerator, recipe.precision)
    workload = load_workload(request)
    return predict_workload(workload, recipe, [m.accelerator for m in matches], matches)


def predict_workload(
    workload: Workload, recipe: Recipe, accelerators: Sequence[Accelerator], matches: Sequence[Match] = ()
) -> list[Prediction]:
    """Predict a workload on every accelerator at once.

    Raises
    ------
    InputError
        When the workload was captured for another task or batch.
    """
    _check(workload, recipe)
    workload = to_precision(workload, recipe.precision)
    step = _step(workload, recipe)
    by_name = load_catalogue().by_name
    times = device_times(
        step.operators, accelerators, by_name, channels_last=recipe.channels_last, fused=recipe.mode == "compiled",
        in_step=mode_of(recipe.task, recipe.mode) if product_dtype(recipe.precision) in IN_STEP_DTYPES else "",
    )  # fmt: skip
    host = _host_times(step.operators, recipe)
    return [
        _prediction(step, recipe, a, times, i, host, matches[i].note if matches else "")
        for i, a in enumerate(accelerators)
    ]


def largest_batch_of(request: ModelRequest, recipe: Recipe, accelerator: Accelerator) -> int:
    """Return the largest micro-batch that fits, 0 when not even one does."""
    workload = to_precision(load_workload(request), recipe.precision)
    return largest_batch_that_fits(workload, recipe, accelerator)


@dataclass(frozen=True, kw_only=True)
class _Step:
    """A workload at its batch, optimizer rows included; ``sequence`` indexes the operators' rows."""

    workload: Workload
    operators: Operators
    sequence: NDArray[np.int64]


def _check(workload: Workload, recipe: Recipe) -> None:
    if workload.task != recipe.task:
        raise InputError(f"{workload.model} was captured for {workload.task}, not for {recipe.task}.")
    if workload.fixed_batch and workload.fixed_batch != recipe.batch:
        raise InputError(
            f"{workload.model} was captured at batch {workload.fixed_batch} and does not scale: capture it at {recipe.batch}."
        )


def _step(workload: Workload, recipe: Recipe) -> _Step:
    operators = workload.operators.at(recipe.batch)
    if recipe.accumulation * len(workload.sequence) > MOST_OCCURRENCES:
        most = MOST_OCCURRENCES // len(workload.sequence)
        raise InputError(
            f"An accumulation of {recipe.accumulation:,} is too long to lay out: {most:,} at most for {workload.model}; "
            "time per sample does not change beyond a few."
        )
    sequence = np.tile(workload.sequence, recipe.accumulation)
    operators = replace(operators, count=operators.count * recipe.accumulation)
    if recipe.trains:
        operators, sequence = with_optimizer(operators, sequence, workload.parameters, recipe)
    return _Step(workload=workload, operators=operators, sequence=sequence)


def _host_times(operators: Operators, recipe: Recipe) -> FloatArray:
    """Return the host's time for one occurrence of each row."""
    fit = choose_host(recipe.mode)
    launches = operators.fused_launches if recipe.mode == "compiled" else operators.launches
    return issue_time_s(launches, is_backward=operators.phase != Phase.FORWARD, **fit)


def _prediction(
    step: _Step,
    recipe: Recipe,
    accelerator: Accelerator,
    times: DeviceTimes,
    i: int,
    host: FloatArray,
    note: str,
) -> Prediction:
    operators, workload = step.operators, step.workload
    device = times.time_s[:, i]
    finished = finish_time_s(host[step.sequence], device[step.sequence])
    phases = _phase_times(operators, step.sequence, finished)
    step_s = float(finished[-1])
    memory = memory_of(workload, recipe, accelerator)
    peak, _ = peak_of(accelerator, product_dtype(recipe.precision))
    provenance = provenance_of(accelerator, operators, device, times.origins, i)
    low, high = step_time_interval(
        step_s,
        task=recipe.task,
        family=family_of(operators, device),
        provenance=provenance,
        dtype=product_dtype(recipe.precision),
    )
    traffic = float((operators.bytes_read + operators.bytes_written) @ operators.count)
    remarks = remarks_on(operators, recipe, accelerator, step_time_s=step_s, peak_flops_per_s=peak)
    return Prediction(
        model=workload.model, accelerator=accelerator, recipe=recipe, step_time_s=step_s, step_time_low_s=low,
        step_time_high_s=high, forward_s=phases[Phase.FORWARD], backward_s=phases[Phase.BACKWARD],
        optimizer_s=phases[Phase.OPTIMIZER], host_s=float(host @ operators.count),
        device_s=float(device @ operators.count),
        roofline_s=float(roofline_time_s(
            operators.total_flops, traffic, peak_flops_per_s=peak,
            bandwidth_bytes_per_s=accelerator.memory_bandwidth_bytes_per_s,
        )),
        flops=operators.total_flops, model_flops=operators.model_flops, peak_flops_per_s=peak,
        num_parameters=workload.num_parameters, num_trainable_parameters=workload.num_trainable_parameters,
        tokens_per_sample=workload.tokens_per_sample, memory=memory,
        fits=memory.fits, provenance=provenance,
        fallbacks=(*_fallbacks(workload, times, i, note, memory.fallbacks), *remarks), sources=sources_of(accelerator, times.origins, i),
        times=OperatorTimes(
            operators=operators, device_s=device, host_s=host, compute_floor_s=times.compute_floor_s[:, i],
            memory_floor_s=times.memory_floor_s[:, i],
        ),
        sequence=step.sequence,
    )  # fmt: skip


def _phase_times(
    operators: Operators, sequence: NDArray[np.int64], finished: FloatArray
) -> dict[Phase, float]:
    """Return the time that passes while each phase is the one that finishes."""
    passed = np.diff(finished, prepend=0.0)
    phase = operators.phase[sequence]
    return {p: float(passed[phase == p].sum()) for p in Phase}


def _fallbacks(
    workload: Workload, times: DeviceTimes, i: int, note: str, of_memory: Sequence[str]
) -> tuple[str, ...]:
    """List everything that was assumed in place of a fact."""
    unknown = [
        f"{name} is not known: costed as the memory traffic of its tensors"
        for name in workload.unknown_operators
    ]
    borrowed = dict.fromkeys(_borrowed(origin, choice, i, times) for origin, choice in times.origins.items())
    return tuple(filter(None, (note, *times.fallbacks[i], *borrowed, *unknown, *workload.notes, *of_memory)))


def _borrowed(origin: str, choice: Choice, i: int, times: DeviceTimes) -> str:
    del times
    folder, _, dtype = origin.partition("/")
    return (
        f"{folder.replace('_', ' ')} in {dtype}: parameters fitted on {choice.origin[i]} ({choice.dtype[i]})"
    )
