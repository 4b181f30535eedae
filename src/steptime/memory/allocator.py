"""PyTorch's caching allocator, replayed: what it reserves for a sequence of allocations and frees.

Source: PyTorch 2.13, c10/cuda/CUDACachingAllocator.cpp (sizes and rules below are that file's constants).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

# Source: c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize
_ROUNDING = 512
# Source: c10/cuda/CUDACachingAllocator.cpp, kSmallSize and kSmallBuffer
_SMALL_LIMIT, _SMALL_SEGMENT = 2**20, 2 * 2**20
# Source: c10/cuda/CUDACachingAllocator.cpp, kMinLargeAlloc, kLargeBuffer and kRoundLarge
_LARGE_LIMIT, _LARGE_SEGMENT, _SEGMENT_ROUNDING = 10 * 2**20, 20 * 2**20, 2 * 2**20


@dataclass(slots=True, eq=False)
class _Block:
    """A piece of a segment; neighbours are linked so that free ones can merge."""

    size: int
    small: bool
    number: int
    free: bool = True
    before: _Block | None = None
    after: _Block | None = None


@dataclass(slots=True)
class CachingAllocator:
    """Segments that are never given back, cut into blocks by best fit."""

    reserved_bytes: int = 0
    allocated_bytes: int = 0
    peak_allocated_bytes: int = 0
    _pools: dict[bool, list[tuple[int, int, _Block]]] = field(default_factory=lambda: {True: [], False: []})
    _made: int = 0

    def allocate(self, size_bytes: int) -> _Block:
        """Return a block of at least ``size_bytes``."""
        size = max(_ROUNDING, -(-size_bytes // _ROUNDING) * _ROUNDING)
        small = size <= _SMALL_LIMIT
        block = self._best_fit(size, small) or self._segment(size, small)
        self._split(block, size)
        block.free = False
        self.allocated_bytes += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        return block

    def release(self, block: _Block) -> None:
        """Take a block back and merge it with its free neighbours."""
        self.allocated_bytes -= block.size
        block.free = True
        for neighbour, comes_before in ((block.before, True), (block.after, False)):
            if neighbour is not None and neighbour.free:
                self._forget(neighbour)
                self._absorb(block, neighbour, comes_before)
        insort(self._pools[block.small], (block.size, block.number, block), key=lambda e: e[:2])

    def _best_fit(self, size: int, small: bool) -> _Block | None:
        pool = self._pools[small]
        place = bisect_left(pool, (size, -1), key=lambda e: e[:2])
        return pool.pop(place)[2] if place < len(pool) else None

    def _segment(self, size: int, small: bool) -> _Block:
        if small:
            length = _SMALL_SEGMENT
        elif size < _LARGE_LIMIT:
            length = _LARGE_SEGMENT
        else:
            length = -(-size // _SEGMENT_ROUNDING) * _SEGMENT_ROUNDING
        self.reserved_bytes += length
        return self._new(length, small)

    def _new(self, size: int, small: bool) -> _Block:
        self._made += 1
        return _Block(size=size, small=small, number=self._made)

    def _split(self, block: _Block, size: int) -> None:
        rest = block.size - size
        if rest < (_ROUNDING if block.small else _SMALL_LIMIT + 1):
            return
        tail = self._new(rest, block.small)
        tail.before, tail.after = block, block.after
        if block.after is not None:
            block.after.before = tail
        block.after, block.size = tail, size
        insort(self._pools[block.small], (tail.size, tail.number, tail), key=lambda e: e[:2])

    def _forget(self, block: _Block) -> None:
        pool = self._pools[block.small]
        pool.pop(bisect_left(pool, (block.size, block.number), key=lambda e: e[:2]))

    @staticmethod
    def _absorb(block: _Block, neighbour: _Block, comes_before: bool) -> None:
        block.size += neighbour.size
        if comes_before:
            block.before = neighbour.before
            if neighbour.before is not None:
                neighbour.before.after = block
        else:
            block.after = neighbour.after
            if neighbour.after is not None:
                neighbour.after.before = block
