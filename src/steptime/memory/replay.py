"""What the allocator reserves for a training: its steps, replayed until they repeat themselves.

The first step meets an empty cache and leaves gradients and optimizer states in the holes of its activations; the
second one finds them there. Order is the input here, so this is a loop over events and not a formula on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.memory.activations import Lives, live_bytes
from steptime.memory.allocator import CachingAllocator, NoMemoryError

_DIES, _COMES, _WORKS = 0, 1, 2
_STEPS = 3  # definition: the first step, the one that meets its leftovers, and one that should add nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Demands:
    """What a training asks for besides the storages of one step: sizes of single tensors."""

    scratch_bytes: NDArray[np.float64]
    library_bytes: float
    states_bytes: NDArray[np.float64]
    update_bytes: NDArray[np.float64]
    trains: bool


def replayed_reserved_bytes(lives: Lives, demands: Demands, allocator: CachingAllocator) -> float:
    """Memory that an allocator holds after some steps.

    Parameters
    ----------
    lives : Lives
    demands : Demands
    allocator : CachingAllocator
        A new one.

    Returns
    -------
    float
        The most that was reserved at a time. [byte]

    Raises
    ------
    NoMemoryError
        When a request exceeds the allocator's limit.

    Notes
    -----
    Valid: one stream. Small tensors are counted by their peak, which the replay leaves out: their segments of
    2 MiB are hardly fragmented.
    Source: derived here

    Examples
    --------
    >>> from steptime.memory.facts import load_memory_facts
    >>> lives = Lives(
    ...     birth=np.array([-1, 0]), death=np.array([2, 1]), size_bytes=np.array([3e6, 5e6]), num_positions=2,
    ...     role=np.array(["parameter", "activation"]), module=np.array(["", ""]), forward_end=1)
    >>> demands = Demands(
    ...     scratch_bytes=np.zeros(2), library_bytes=0.0, states_bytes=np.array([]), update_bytes=np.array([]),
    ...     trains=True)
    >>> replayed_reserved_bytes(lives, demands, CachingAllocator(load_memory_facts().allocator)) / 2**20
    20.0
    """
    limit = allocator.facts.small_limit_bytes
    large = lives.size_bytes > limit
    allocator.reserved_bytes = allocator.peak_reserved_bytes = _small_bytes(lives, demands, ~large, allocator)
    if demands.library_bytes:
        allocator.allocate(int(demands.library_bytes))
    sizes = np.ceil(lives.size_bytes).astype(np.int64).tolist()
    held = {i: allocator.allocate(sizes[i]) for i in np.flatnonzero(large & (lives.birth < 0)).tolist()}
    ends = [
        i
        for i in np.flatnonzero(large & (lives.birth >= 0)).tolist()
        if lives.death[i] >= lives.num_positions
    ]
    events = _events(lives, demands, large, limit)
    for number in range(_STEPS if demands.trains else 1):
        for i in ends:
            if i in held:
                allocator.release(held.pop(i))  # zero_grad(set_to_none=True), and what the last step returned
        _run(allocator, events, sizes, held)
        _update(allocator, demands, first=number == 0)
    return float(allocator.peak_reserved_bytes)


def _small_bytes(
    lives: Lives, demands: Demands, small: NDArray[np.bool_], allocator: CachingAllocator
) -> int:
    """Return the segments of tensors too small to be followed one by one."""
    live = live_bytes(
        lives.birth[small], lives.death[small], lives.size_bytes[small], num_positions=lives.num_positions
    )
    states = demands.states_bytes[demands.states_bytes <= allocator.facts.small_limit_bytes].sum()
    segment = allocator.facts.small_segment_bytes
    return int(-(-(live.max(initial=0.0) + states) // segment) * segment)


Events = list[tuple[int, int, int]]


def _events(lives: Lives, demands: Demands, large: NDArray[np.bool_], limit: int) -> Events:
    """Return (position, what, storage or bytes) in order: deaths, then births, then the operator's scratch."""
    inside = np.flatnonzero(large & (lives.birth >= 0))
    gone = inside[lives.death[inside] < lives.num_positions]
    busy = np.flatnonzero(demands.scratch_bytes > limit)
    parts = (
        (lives.birth[inside], _COMES, inside),
        (np.maximum(lives.death[gone], lives.birth[gone] + 1), _DIES, gone),
        (busy, _WORKS, np.ceil(demands.scratch_bytes[busy]).astype(np.int64)),
    )
    position = np.concatenate([p for p, _, _ in parts])
    what = np.concatenate([np.full(len(p), w) for p, w, _ in parts])
    which = np.concatenate([np.asarray(x, dtype=np.int64) for _, _, x in parts])
    order = np.lexsort((np.arange(len(position)), what, position))
    return list(zip(position[order].tolist(), what[order].tolist(), which[order].tolist(), strict=True))


def _run(allocator: CachingAllocator, events: Events, sizes: Sequence[int], held: dict[int, Any]) -> None:
    for _, what, which in events:
        if what == _COMES:
            held[which] = allocator.allocate(sizes[which])
        elif what == _DIES:
            allocator.release(held.pop(which))
        else:
            _borrow(allocator, which)


def _borrow(allocator: CachingAllocator, size: int) -> None:
    """Take scratch memory for one operator; libraries choose an algorithm without, where there is none."""
    try:
        allocator.release(allocator.allocate(size))
    except NoMemoryError:
        return


def _update(allocator: CachingAllocator, demands: Demands, *, first: bool) -> None:
    """Run the optimizer: temporary lists each time, states that stay from the first time on."""
    limit = allocator.facts.small_limit_bytes
    if first:
        for size in demands.states_bytes[demands.states_bytes > limit].tolist():
            allocator.allocate(int(size))
    lists = [allocator.allocate(int(size)) for size in demands.update_bytes.tolist() if size > limit]
    for block in lists:
        allocator.release(block)
