"""What a workload takes on one accelerator: live tensors with their parts, and what the allocator reserves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steptime.memory.allocator import CachingAllocator
from steptime.memory.facts import load_memory_facts
from steptime.memory.live import live_bytes
from steptime.memory.workspace import convolution_workspace_bytes
from steptime.workload.operator import Kind
from steptime.workload.optimizer import OptimizerFacts, find_optimizer
from steptime.workload.recipe import Recipe
from steptime.workload.table import Workload

_ELEMENT_BYTES = {"fp32": 4, "tf32": 4, "fp64": 8, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


class Machine(Protocol):
    """What memory asks of an accelerator."""

    @property
    def compute_capability(self) -> str:
        """Version of the chip, which libraries size their workspaces by."""

    @property
    def usable_memory_bytes(self) -> float:
        """What a process can use."""


@dataclass(frozen=True, kw_only=True)
class MemoryPrediction:
    """Peak memory in bytes; ``parts`` add up to the allocated peak. ``device_bytes`` is what nvidia-smi shows."""

    peak_allocated_bytes: float
    peak_reserved_bytes: float
    device_bytes: float
    phase: str
    parts: dict[str, float]
    by_module: dict[str, float]
    fallbacks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class _Step:
    """Storages of one step with absolute sizes, and what stays alive around it."""

    birth: NDArray[np.int64]
    death: NDArray[np.int64]
    size_bytes: NDArray[np.float64]
    role: NDArray[np.str_]
    module: NDArray[np.str_]
    state_bytes: float
    temporary_bytes: float
    num_positions: int
    forward_end: int


def _element_bytes(workload: Workload) -> float:
    """Return the size of a trainable parameter (all of a model's parameters have one dtype, or nearly)."""
    trained = [g for g in workload.parameters if g.trainable] or list(workload.parameters)
    total = sum(g.num_parameters for g in trained)
    return sum(g.num_parameters * _ELEMENT_BYTES.get(g.dtype, 4) for g in trained) / max(total, 1)


def _temporaries(workload: Workload, optimizer: OptimizerFacts, recipe: Recipe) -> float:
    """Return what the optimizer step makes for its own use: whole lists in multi-tensor code."""
    if recipe.implementation == "fused":
        return 0.0
    size = _element_bytes(workload)
    if recipe.implementation == "foreach":
        return optimizer.foreach_temporaries * size * workload.num_trainable_parameters
    largest = max((g.num_parameters / g.count for g in workload.parameters if g.trainable), default=0)
    return optimizer.foreach_temporaries * size * largest


def _step(workload: Workload, recipe: Recipe) -> _Step:
    storages = workload.storages
    size = storages.size_bytes.at(recipe.batch)
    n = len(workload.sequence)
    birth, role = storages.birth.copy(), storages.role
    if recipe.trains and recipe.accumulation > 1:
        birth = np.where(
            role == "gradient", -1, birth
        )  # gradients of earlier micro-batches are there from the start
    optimizer = find_optimizer(recipe.optimizer if recipe.trains else "none")
    return _Step(
        birth=birth, death=storages.death, size_bytes=size, role=role, module=storages.module,
        state_bytes=optimizer.state_size_bytes(workload.parameters, _element_bytes(workload)),
        temporary_bytes=_temporaries(workload, optimizer, recipe), num_positions=n, forward_end=workload.forward_end,
    )  # fmt: skip


def _workspaces(workload: Workload, recipe: Recipe, accelerator: Machine) -> NDArray[np.float64]:
    """Return the scratch memory of each position's operator."""
    rows = workload.operators.at(recipe.batch)
    needed = np.zeros(len(rows))
    chosen = rows.kind == Kind.CONVOLUTION
    if chosen.any():
        d = rows.dims[chosen].T
        needed[chosen] = convolution_workspace_bytes(
            *d, direction=rows.direction[chosen], element_bytes=np.array([_ELEMENT_BYTES.get(t, 4) for t in rows.dtype[chosen]]),
            channels_last=recipe.channels_last, tensor_cores=np.isin(rows.dtype[chosen], ("tf32", "fp16", "bf16", "fp8")),
            limit_bytes=load_memory_facts().convolution_workspace_limit_bytes,
        )  # fmt: skip
    del accelerator
    return needed[workload.sequence]


def memory_of(workload: Workload, recipe: Recipe, accelerator: Machine) -> MemoryPrediction:
    """Predict the memory of a workload under a recipe.

    Parameters
    ----------
    workload : Workload
        In the precision of the recipe.
    recipe : Recipe
    accelerator : Machine
    """
    step, facts = _step(workload, recipe), load_memory_facts()
    scratch = _workspaces(workload, recipe, accelerator)
    library = facts.matrix_workspace_bytes(accelerator.compute_capability) if _multiplies(workload) else 0.0
    live = live_bytes(step.birth, step.death, step.size_bytes, num_positions=step.num_positions)
    busy = live[: step.num_positions] + scratch
    always = step.state_bytes + library
    at = int(np.argmax(busy))
    in_step = float(busy[at]) + always
    at_update = float(_surviving(step)) + always + step.temporary_bytes
    updating = recipe.trains and at_update > in_step
    parts, by_module = _parts(step, at, updating=updating)
    parts |= {"optimizer": step.state_bytes, "workspace": library + (0.0 if updating else float(scratch[at]))}
    if updating:
        parts["optimizer_temporaries"] = step.temporary_bytes
    allocated = max(in_step, at_update if recipe.trains else 0.0)
    reserved = _reserved(step, scratch, library, recipe, allocated)
    context = facts.context_bytes(accelerator.compute_capability)
    phase = "optimizer" if updating else "forward" if at < step.forward_end else "backward"
    return MemoryPrediction(
        peak_allocated_bytes=allocated, peak_reserved_bytes=reserved, device_bytes=reserved + context, phase=phase,
        parts={k: v for k, v in parts.items() if v}, by_module=by_module,
    )  # fmt: skip


def _multiplies(workload: Workload) -> bool:
    return bool((workload.operators.kind == Kind.GEMM).any())


_TOP_MODULES = 10  # by definition of the report: as many as a person reads
_LARGEST_BATCH = 2**20  # by definition: where the search gives up
_OUTLIVE = ("parameter", "buffer", "input", "gradient")


def _surviving(step: _Step) -> float:
    return float(step.size_bytes[np.isin(step.role, _OUTLIVE)].sum())


_NAMES = {"parameter": "parameters", "buffer": "buffers", "input": "inputs", "gradient": "gradients",
          "activation": "activations", "temporary": "temporaries", "weight_cast": "weight_casts"}  # fmt: skip


def _parts(step: _Step, at: int, *, updating: bool) -> tuple[dict[str, float], dict[str, float]]:
    born = np.maximum(step.birth, 0)
    alive = (
        np.isin(step.role, _OUTLIVE) if updating else (born <= at) & (np.maximum(step.death, born + 1) > at)
    )
    parts = {
        _NAMES.get(str(r), str(r)): float(step.size_bytes[alive & (step.role == r)].sum())
        for r in np.unique(step.role)
    }
    saved = alive & (step.role == "activation")
    names, inverse = np.unique(step.module[saved], return_inverse=True)
    sums = np.bincount(inverse, weights=step.size_bytes[saved], minlength=len(names))
    order = np.argsort(-sums)[:_TOP_MODULES]
    return parts, {str(names[i]): float(sums[i]) for i in order}


def _reserved(
    step: _Step, scratch: NDArray[np.float64], library: float, recipe: Recipe, allocated: float
) -> float:
    """Replay two steps through the allocator: the second one meets gradients and states of the first."""
    if recipe.expandable_segments:
        return allocated + load_memory_facts().page_bytes
    allocator = CachingAllocator()
    before = np.flatnonzero(step.birth < 0)
    held = {int(i): allocator.allocate(int(step.size_bytes[i])) for i in before if step.size_bytes[i] > 0}
    if library:
        allocator.allocate(int(library))
    events = _events(step)
    for number in range(2 if recipe.trains else 1):
        for i in [k for k in held if step.birth[k] >= 0]:
            allocator.release(held.pop(i))  # zero_grad(set_to_none=True), and what the last step returned
        _replay(allocator, events, step, scratch, held)
        if number == 0 and step.state_bytes:
            _allocate_states(allocator, step)
    if step.temporary_bytes:
        _allocate_states(allocator, step, step.temporary_bytes)
    return float(allocator.reserved_bytes)


def _allocate_states(allocator: CachingAllocator, step: _Step, total: float | None = None) -> None:
    """Allocate lists of tensors that are as large as the gradients, scaled to the total wanted."""
    sizes = step.size_bytes[step.role == "gradient"]
    whole = float(sizes.sum())
    wanted = step.state_bytes if total is None else total
    lists = max(1, round(wanted / whole)) if whole else 1
    for size in np.repeat(sizes, lists) if whole else np.array([wanted]):
        allocator.allocate(int(size * wanted / (whole * lists)) if whole else int(size))


def _events(step: _Step) -> list[tuple[int, int, int]]:
    """Return (position, 0 for birth and 1 for death, storage), sorted."""
    inside = np.flatnonzero((step.birth >= 0) & (step.size_bytes > 0))
    births = [(int(step.birth[i]), 0, int(i)) for i in inside]
    deaths = [
        (max(int(step.death[i]), int(step.birth[i]) + 1), 1, int(i))
        for i in inside
        if step.death[i] < step.num_positions
    ]
    return sorted(births + deaths, key=lambda e: (e[0], -e[1]))


def _replay(
    allocator: CachingAllocator,
    events: Sequence[tuple[int, int, int]],
    step: _Step,
    scratch: NDArray[np.float64],
    held: dict[int, Any],
) -> None:
    """Run one step's births and deaths; the order is the input, so this is a loop."""
    place = -1
    for position, dies, i in events:
        if position != place and 0 <= place < len(scratch) and scratch[place] > 0:
            allocator.release(allocator.allocate(int(scratch[place])))
        place = position
        if dies:
            allocator.release(held.pop(i))
        else:
            held[i] = allocator.allocate(int(step.size_bytes[i]))


def largest_batch_that_fits(
    workload: Workload, recipe: Recipe, accelerator: Machine, *, limit: int = _LARGEST_BATCH
) -> int:
    """Return the largest batch whose reserved memory fits, 0 when not even one sample does.

    Parameters
    ----------
    workload : Workload
    recipe : Recipe
        Its batch is ignored.
    accelerator : Machine
    limit : int
        Where to stop looking.
    """
    from dataclasses import replace

    def fits(batch: int) -> bool:
        need = memory_of(workload, replace(recipe, batch=batch), accelerator).peak_reserved_bytes
        return need <= accelerator.usable_memory_bytes

    if workload.fixed_batch:
        return workload.fixed_batch if fits(workload.fixed_batch) else 0
    if not fits(1):
        return 0
    high = 2
    while high < limit and fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
