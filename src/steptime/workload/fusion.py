"""What a compiler leaves of each operator when it merges point-wise work with its neighbours.

Assumption: chains of point-wise operators, normalisations and reductions become one kernel that reads each
outside tensor once and writes only what somebody outside the chain needs; products stay library calls.
What would settle it: kernel counts of compiled models on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steptime.workload.operator import FUSIBLE

if TYPE_CHECKING:
    from steptime.workload.trace import Event, Trace


@dataclass(frozen=True, kw_only=True, slots=True)
class Fused:
    """Launches and bytes left per occurrence; each of shape (occurrences,)."""

    launches: NDArray[np.float64]
    bytes_read: NDArray[np.float64]
    bytes_written: NDArray[np.float64]


@dataclass(slots=True)
class _Group:
    first: int
    members: list[int] = field(default_factory=list)
    written: set[int] = field(default_factory=set)
    closed_at: int | None = None  # when somebody outside first consumed one of its outputs


class _Grouper:
    """Walk the sequence once and put each fusible operator into its latest producer's group."""

    def __init__(self) -> None:
        self.groups: list[_Group] = []
        self.group_of: dict[int, int] = {}  # event -> group
        self.producer: dict[int, int] = {}  # storage -> event that last wrote it

    def _home(self, event: Event, producers: list[int]) -> int | None:
        if event.kind not in FUSIBLE or not producers:
            return None
        latest = max(producers)
        home = self.group_of.get(latest)
        if home is None:
            return None
        # an input made after somebody outside used the group may depend on it: merging would be a cycle
        limit = self.groups[home].closed_at
        independent = all(self.group_of.get(p) == home or limit is None or p < limit for p in producers)
        return home if independent else None

    def add(self, index: int, event: Event) -> None:
        producers = [self.producer[t.storage] for t in event.reads if t.storage in self.producer]
        home = self._home(event, producers)
        if home is None and event.kind in FUSIBLE:
            self.groups.append(_Group(first=index))
            home = len(self.groups) - 1
        for p in producers:
            consumed = self.group_of.get(p)
            if consumed is not None and consumed != home and self.groups[consumed].closed_at is None:
                self.groups[consumed].closed_at = index
        if home is not None:
            self.group_of[index] = home
            self.groups[home].members.append(index)
            self.groups[home].written.update(t.storage for t in event.writes)
        for t in event.writes:
            self.producer[t.storage] = index


def fuse(trace: Trace) -> Fused:
    """Return what is left of each occurrence after fusion."""
    events = trace.events
    grouper = _Grouper()
    for i, event in enumerate(events):
        grouper.add(i, event)
    needed_by = _consumers(trace, grouper)
    launches = np.array([e.launches for e in events], dtype=float)
    read = np.array([sum(t.size_bytes for t in e.reads) for e in events], dtype=float)
    written = np.array([sum(t.size_bytes for t in e.writes) for e in events], dtype=float)
    for number, group in enumerate(grouper.groups):
        seen: set[int] = set()
        last = {
            t.storage: i for i in group.members for t in events[i].writes
        }  # written over in place: once is enough
        for i in group.members:
            launches[i] = float(i == group.first)
            outside = [t for t in events[i].reads if t.storage not in group.written and t.storage not in seen]
            read[i] = sum(t.size_bytes for t in outside)
            seen.update(t.storage for t in outside)
            kept = [t for t in events[i].writes if needed_by[t.storage] - {number} and last[t.storage] == i]
            written[i] = sum(t.size_bytes for t in kept)
    return Fused(launches=launches, bytes_read=read, bytes_written=written)


_OUTSIDE = -1


def _consumers(trace: Trace, grouper: _Grouper) -> dict[int, set[int]]:
    """For each storage, the groups that read it; ``_OUTSIDE`` for products and for what outlives the step."""
    needed: dict[int, set[int]] = {s: set() for s in range(len(trace.storages))}
    for i, event in enumerate(trace.events):
        for t in event.reads:
            needed[t.storage].add(grouper.group_of.get(i, _OUTSIDE))
    for s, storage in enumerate(trace.storages):
        if storage.death < 0:
            needed[s].add(_OUTSIDE)
    return needed
