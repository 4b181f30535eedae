"""The caching allocator: sizes that PyTorch's own snapshots print, and what happens when the driver has no more."""

from __future__ import annotations

import pytest

from steptime.memory import CachingAllocator, NoMemoryError, load_memory_facts

MIB = 2**20


def allocator(**changed: object) -> CachingAllocator:
    return CachingAllocator(load_memory_facts().allocator, **changed)  # type: ignore[arg-type]


def test_a_snapshot_of_a_small_product_is_reproduced() -> None:
    # discuss.pytorch.org/t/178671: x @ w + b with the matrix library's workspace, torch 2.0
    a = allocator()
    blocks = [a.allocate(size) for size in (40000, 40, 4000, 40, 40)]
    assert [b.size for b in blocks] == [40448, 512, 4096, 512, 512]
    assert a.reserved_bytes == 2097152
    workspace = a.allocate(8519680)
    assert a.reserved_bytes == 2097152 + 20971520
    assert workspace.after is not None
    assert (workspace.size, workspace.after.size) == (8519680, 12451840)


@pytest.mark.parametrize(
    ("asked", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (21 * MIB, 22 * MIB),
    ],
)
def test_a_segment_is_sized_by_its_first_request(asked: int, segment: int) -> None:
    a = allocator()
    a.allocate(asked)
    assert a.reserved_bytes == segment


def test_a_freed_block_serves_the_next_request_that_it_fits_best() -> None:
    a = allocator()
    large, small = a.allocate(64 * MIB), a.allocate(32 * MIB)
    a.release(large)
    a.release(small)
    a.allocate(30 * MIB)
    assert a.reserved_bytes == 96 * MIB
    a.allocate(64 * MIB)
    assert a.reserved_bytes == 96 * MIB


def test_a_large_block_with_less_than_a_mebibyte_left_is_not_cut() -> None:
    a = allocator()
    a.release(a.allocate(64 * MIB))
    assert a.allocate(64 * MIB - MIB).size == 64 * MIB


def test_neighbours_merge_when_they_are_freed_in_any_order() -> None:
    a = allocator()
    blocks = [a.allocate(5 * MIB) for _ in range(4)]
    for i in (2, 0, 3, 1):
        a.release(blocks[i])
    a.allocate(20 * MIB)
    assert a.reserved_bytes == 20 * MIB


def test_holes_between_live_tensors_are_lost_to_larger_ones() -> None:
    a = allocator()
    blocks = [a.allocate(5 * MIB) for _ in range(4)]
    a.release(blocks[0])
    a.release(blocks[2])
    a.allocate(10 * MIB)
    assert (a.allocated_bytes, a.reserved_bytes) == (20 * MIB, 30 * MIB)


def test_expandable_segments_grow_instead_of_being_left() -> None:
    sizes = [50, 60, 70, 80, 90]
    reserved = {}
    for expandable in (False, True):
        a = allocator(expandable=expandable)
        for size in sizes:
            a.release(a.allocate(size * MIB))
        reserved[expandable] = a.reserved_bytes
    assert reserved == {False: sum(sizes) * MIB, True: 100 * MIB}


def test_a_refused_request_gives_the_cache_back_before_it_fails() -> None:
    a = allocator(limit_bytes=100 * MIB)
    a.release(a.allocate(60 * MIB))
    a.allocate(80 * MIB)
    assert (a.reserved_bytes, a.peak_reserved_bytes) == (80 * MIB, 80 * MIB)
    with pytest.raises(NoMemoryError):
        a.allocate(30 * MIB)
