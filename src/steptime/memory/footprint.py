"""What a workload takes on one accelerator: live tensors with their parts, and what the allocator reserves."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from steptime.memory.activations import Lives
from steptime.memory.allocator import CachingAllocator, NoMemoryError
from steptime.memory.demands import Machine, demands_of, lives_of, multiplies_fp32_as_tf32
from steptime.memory.facts import load_memory_facts
from steptime.memory.peak import Peak, peak_of
from steptime.memory.replay import Demands, replayed_reserved_bytes
from steptime.workload.operator import Kind
from steptime.workload.recipe import Recipe
from steptime.workload.table import Workload


@dataclass(frozen=True, kw_only=True)
class MemoryPrediction:
    """Peak memory in bytes; ``parts`` add up to the allocated peak, ``phases`` are the peaks of each phase.

    ``device_bytes`` is what device tools show: reserved memory and the driver's context. ``fits`` says whether
    training goes on, ``tight`` that it does so only by giving cached segments back now and then.
    """

    peak_allocated_bytes: float
    peak_reserved_bytes: float
    context_bytes: float
    device_bytes: float
    phase: str
    parts: dict[str, float]
    phases: dict[str, float]
    by_module: dict[str, float]
    fits: bool
    tight: bool = False
    fallbacks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class _Footprint:
    """What does not depend on the accelerator, but for how it multiplies: arrays, fullest moment, replay."""

    lives: Lives
    demands: Demands
    peak: Peak
    reserved_bytes: float
    convolves: bool
    fallbacks: tuple[str, ...]


class _Same:
    """A workload as a key: arrays have no hash, and the same object is asked about many accelerators."""

    __slots__ = ("workload",)

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def __hash__(self) -> int:
        return id(self.workload)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.workload is self.workload


def memory_of(workload: Workload, recipe: Recipe, accelerator: Machine) -> MemoryPrediction:
    """Predict the memory of a workload under a recipe.

    Parameters
    ----------
    workload : Workload
        In the precision of the recipe.
    recipe : Recipe
    accelerator : Machine
    """
    whole = _footprint(_Same(workload), recipe, multiplies_fp32_as_tf32(workload, accelerator))
    facts, capability = load_memory_facts(), accelerator.compute_capability
    extra = facts.extra_matrix_workspace_bytes(capability) if whole.demands.library_bytes else 0.0
    context = facts.context_bytes(capability, convolutions=whole.convolves)
    reserved, peak = whole.reserved_bytes + extra, whole.peak
    room = accelerator.usable_memory_bytes - context
    fits = reserved <= room or _fits(whole, recipe, room - extra)
    return MemoryPrediction(
        peak_allocated_bytes=peak.allocated_bytes + extra, peak_reserved_bytes=reserved, context_bytes=context,
        device_bytes=reserved + context, phase=peak.phase, by_module=peak.by_module, fits=fits,
        tight=fits and reserved > room, phases={name: size + extra for name, size in peak.phases.items()},
        parts=peak.parts | ({"workspace": peak.parts["workspace"] + extra} if extra else {}),
        fallbacks=whole.fallbacks,
    )  # fmt: skip


@lru_cache(maxsize=8)
def _footprint(same: _Same, recipe: Recipe, fast_fp32: bool) -> _Footprint:
    workload = same.workload
    lives, demands = lives_of(workload, recipe), demands_of(workload, recipe, fast_fp32=fast_fp32)
    peak = peak_of(lives, demands)
    reserved = replayed_reserved_bytes(lives, demands, _allocator(recipe))
    return _Footprint(
        lives=lives, demands=demands, peak=peak, reserved_bytes=max(reserved, float(np.ceil(peak.allocated_bytes))),
        convolves=bool((workload.operators.kind == Kind.CONVOLUTION).any()), fallbacks=_fallbacks(workload, lives),
    )  # fmt: skip


def _fallbacks(workload: Workload, lives: Lives) -> tuple[str, ...]:
    if workload.task in {"prefill", "decode"} and not lives.of_role("kv_cache").any():
        return (
            "keys and values that are kept are not counted: attention runs as separate products (--attention sdpa)",
        )
    return ()


def _allocator(recipe: Recipe, limit_bytes: float = float("inf")) -> CachingAllocator:
    facts = load_memory_facts().allocator
    return CachingAllocator(facts, limit_bytes=limit_bytes, expandable=recipe.expandable_segments)


def _fits(whole: _Footprint, recipe: Recipe, room_bytes: float) -> bool:
    """Replay with a limit: a request that the driver refuses frees the cache before it fails."""
    if whole.peak.without_scratch_bytes > room_bytes:
        return False
    try:
        replayed_reserved_bytes(whole.lives, whole.demands, _allocator(recipe, room_bytes))
    except NoMemoryError:
        return False
    return True


def largest_batch_that_fits(
    workload: Workload, recipe: Recipe, accelerator: Machine, *, limit: int = 1024 * 1024
) -> int:
    """Return the largest batch that fits, 0 when not even one sample does.

    Parameters
    ----------
    workload : Workload
    recipe : Recipe
        Its batch is ignored.
    accelerator : Machine
    limit : int
        Where to stop looking.
    """

    def fits(batch: int) -> bool:
        return memory_of(workload, replace(recipe, batch=batch), accelerator).fits

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
