"""PyTorch's caching allocator: what it reserves for a sequence of allocations and frees.

Segments come from the driver and are cut into blocks by best fit; freed neighbours merge; nothing goes back to
the driver before a request fails. Source: PyTorch 2.13, c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from math import inf

from steptime.memory.facts import AllocatorFacts


class NoMemoryError(Exception):
    """A request that fits neither the cached blocks nor what the driver has left."""


@dataclass(slots=True, eq=False)
class _Block:
    """A piece of a segment; neighbours are linked so that free ones can merge."""

    size: int
    small: bool
    address: int
    free: bool = True
    before: _Block | None = None
    after: _Block | None = None


@dataclass(slots=True)
class CachingAllocator:
    """Requests in bytes; ``limit_bytes`` is what the driver has, without a limit nothing fails.

    With ``expandable`` segments there is one of each kind, which grows at its end by whole pages.
    """

    facts: AllocatorFacts
    limit_bytes: float = inf
    expandable: bool = False
    reserved_bytes: int = 0
    peak_reserved_bytes: int = 0
    allocated_bytes: int = 0
    peak_allocated_bytes: int = 0
    _free: dict[bool, list[tuple[int, int, _Block]]] = field(default_factory=lambda: {True: [], False: []})
    _last: dict[bool, _Block | None] = field(default_factory=lambda: {True: None, False: None})
    _end: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})

    def allocate(self, size_bytes: int) -> _Block:
        """Return a block of at least ``size_bytes``.

        Raises
        ------
        NoMemoryError
            When the driver has nothing left, even after every unused segment was given back.
        """
        unit = self.facts.rounding_bytes
        size = max(unit, -(-size_bytes // unit) * unit)
        small = size <= self.facts.small_limit_bytes
        free = self._free[small]
        place = bisect_left(free, (size,))
        block = free.pop(place)[2] if place < len(free) else self._new_segment(size, small)
        rest = block.size - size
        if rest >= (unit if small else self.facts.small_limit_bytes + 1):
            self._cut(block, size, rest)
        block.free = False
        self.allocated_bytes += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        return block

    def release(self, block: _Block) -> None:
        """Take a block back and merge it with its free neighbours."""
        self.allocated_bytes -= block.size
        block.free = True
        before, after = block.before, block.after
        if before is not None and before.free:
            self._forget(before)
            block.size, block.address, block.before = block.size + before.size, before.address, before.before
            if before.before is not None:
                before.before.after = block
        if after is not None and after.free:
            self._forget(after)
            block.size, block.after = block.size + after.size, after.after
            if after.after is not None:
                after.after.before = block
            if self._last[block.small] is after:
                self._last[block.small] = block
        insort(self._free[block.small], (block.size, block.address, block))

    def give_back(self) -> None:
        """Return every segment without a live tensor to the driver, as a failed request does."""
        for free in self._free.values():
            whole = [e for e in free if e[2].before is None and e[2].after is None]
            self.reserved_bytes -= sum(size for size, _, _ in whole)
            for entry in whole:
                free.remove(entry)
                self._last = {k: None if b is entry[2] else b for k, b in self._last.items()}

    def _new_segment(self, size: int, small: bool) -> _Block:
        if self.expandable:
            return self._extended(size, small)
        length = self._segment_bytes(size, small)
        return _Block(size=length, small=small, address=self._reserve(length, small))

    def _extended(self, size: int, small: bool) -> _Block:
        """Grow the one segment at its end; a free block there is used as a part."""
        page = self.facts.small_segment_bytes if small else self.facts.large_segment_bytes
        last = self._last[small]
        tail = last if last is not None and last.free else None
        length = -(-(size - (tail.size if tail else 0)) // page) * page
        address = self._reserve(length, small)
        if tail is not None and self._last[small] is tail:
            self._forget(tail)
            tail.size += length
            return tail
        if length < size:  # the free end went back to the driver when the request was refused
            missing = -(-size // page) * page - length
            self._reserve(missing, small)
            length += missing
        block = _Block(size=length, small=small, address=address, before=self._last[small])
        if block.before is not None:
            block.before.after = block
        self._last[small] = block
        return block

    def _segment_bytes(self, size: int, small: bool) -> int:
        if small:
            return self.facts.small_segment_bytes
        if size < self.facts.large_limit_bytes:
            return self.facts.large_segment_bytes
        unit = self.facts.segment_rounding_bytes
        return -(-size // unit) * unit

    def _reserve(self, length: int, small: bool) -> int:
        """Take ``length`` bytes from the driver and return where they begin."""
        if self.reserved_bytes + length > self.limit_bytes:
            self.give_back()
        if self.reserved_bytes + length > self.limit_bytes:
            raise NoMemoryError
        self.reserved_bytes += length
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        self._end[small] += length
        return self._end[small] - length

    def _cut(self, block: _Block, size: int, rest: int) -> None:
        tail = _Block(
            size=rest, small=block.small, address=block.address + size, before=block, after=block.after
        )
        if block.after is not None:
            block.after.before = tail
        block.after, block.size = tail, size
        if self._last[block.small] is block:
            self._last[block.small] = tail
        insort(self._free[block.small], (rest, tail.address, tail))

    def _forget(self, block: _Block) -> None:
        free = self._free[block.small]
        free.pop(bisect_left(free, (block.size, block.address)))
