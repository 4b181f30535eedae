"""What no allocator, no workload and no recipe may break when memory is counted."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steptime.hardware import load_catalogue
from steptime.memory import (
    CachingAllocator,
    NoMemoryError,
    convolution_workspace_bytes,
    largest_batch_that_fits,
    live_bytes,
    load_memory_facts,
    memory_of,
)
from steptime.memory.activations import Lives
from steptime.memory.replay import Demands, replayed_reserved_bytes
from steptime.workload.models import ModelRequest, load_workload
from steptime.workload.recipe import Recipe
from steptime.workload.table import Workload

MIB = 2**20
SIZES = st.integers(1, 64 * MIB) | st.integers(1, 2 * MIB)
# A request frees the tensor at a place of those that live, or asks for one more.
REQUESTS = st.lists(SIZES | st.integers(-40, -1), max_size=60)


def allocator(**changed: Any) -> CachingAllocator:
    return CachingAllocator(load_memory_facts().allocator, **changed)


def run(a: CachingAllocator, requests: list[int]) -> list[Any]:
    live: list[Any] = []
    for request in requests:
        if request > 0:
            live.append(a.allocate(request))
            assert live[-1].size >= request
        elif live:
            a.release(live.pop(request % len(live)))
    return live


@given(REQUESTS, st.booleans())
def test_live_blocks_never_overlap(requests: list[int], expandable: bool) -> None:
    live = run(allocator(expandable=expandable), requests)
    spans = sorted((b.small, b.address, b.address + b.size) for b in live)
    for (kind, _, end), (next_kind, start, _) in pairwise(spans):
        assert kind != next_kind or end <= start


@given(REQUESTS, st.booleans())
def test_reserved_is_what_is_allocated_and_what_is_free(requests: list[int], expandable: bool) -> None:
    a = allocator(expandable=expandable)
    live = run(a, requests)
    free = sum(size for blocks in a._free.values() for size, _, _ in blocks)
    assert a.allocated_bytes == sum(b.size for b in live)
    assert a.reserved_bytes == a.allocated_bytes + free
    assert a.peak_reserved_bytes >= a.peak_allocated_bytes


@given(REQUESTS, st.booleans())
def test_a_segment_goes_back_when_all_of_it_is_free(requests: list[int], expandable: bool) -> None:
    a = allocator(expandable=expandable)
    for block in run(a, requests):
        a.release(block)
    a.give_back()
    assert a.allocated_bytes == a.reserved_bytes == 0


@given(REQUESTS, st.integers(1, 400), st.booleans())
def test_a_limit_is_never_exceeded(requests: list[int], limit: int, expandable: bool) -> None:
    a = allocator(limit_bytes=limit * MIB, expandable=expandable)
    try:
        run(a, requests)
    except NoMemoryError:
        assert max(requests) > 0
    assert a.peak_reserved_bytes <= limit * MIB


@st.composite
def storages(draw: st.DrawFn) -> Lives:
    """Draw the storages of a step: some from before, some that outlive it."""
    n, count = draw(st.integers(1, 20)), draw(st.integers(1, 30))
    birth = draw(st.lists(st.integers(-1, n - 1), min_size=count, max_size=count))
    death = [draw(st.integers(max(b + 1, 1), n)) if b >= 0 else n for b in birth]
    size = draw(st.lists(SIZES, min_size=count, max_size=count))
    return Lives(
        birth=np.array(birth), death=np.array(death), size_bytes=np.array(size, dtype=float), num_positions=n,
        forward_end=n // 2, role=np.full(count, "temporary"), module=np.full(count, ""),
    )  # fmt: skip


def demands(lives: Lives, **changed: Any) -> Demands:
    given = {
        "scratch_bytes": np.zeros(lives.num_positions), "library_bytes": 0.0, "states_bytes": np.zeros(0),
        "update_bytes": np.zeros(0), "trains": True,
    }  # fmt: skip
    return Demands(**{**given, **changed})


def reserved(lives: Lives, **changed: Any) -> float:
    return replayed_reserved_bytes(lives, demands(lives, **changed), allocator())


def live(lives: Lives) -> np.ndarray:
    return live_bytes(lives.birth, lives.death, lives.size_bytes, num_positions=lives.num_positions)


@given(storages())
def test_live_bytes_are_those_of_each_position(lives: Lives) -> None:
    each = [lives.size_bytes[lives.alive(i)].sum() for i in range(lives.num_positions)]
    assert live(lives)[:-1] == pytest.approx(each)


@given(storages())
def test_a_replay_reserves_at_least_what_lives(lives: Lives) -> None:
    # small tensors are rounded as a whole there, each by itself in the driver
    assert reserved(lives) >= live(lives).max() * (1 - 1e-12)


@given(storages(), st.integers(0, 64 * MIB))
def test_states_are_on_top_of_what_lives(lives: Lives, size: int) -> None:
    assert reserved(lives, states_bytes=np.array([float(size)])) >= live(lives).max() + size - 1


@given(storages())
def test_inference_reserves_no_more_than_training(lives: Lives) -> None:
    assert reserved(lives, trains=False) <= reserved(lives)


@lru_cache(maxsize=4)
def workload(**request: Any) -> Workload:
    return load_workload(
        ModelRequest(**{"name": "gpt2", "task": "train", "precision": "bf16", "seq_len": 64, **request})
    )


CARD = load_catalogue().find("A100-SXM4-40GB").accelerator
RECIPES = st.builds(
    Recipe,
    batch=st.integers(1, 32),
    accumulation=st.sampled_from([1, 4]),
    optimizer=st.sampled_from(["none", "sgd", "sgd-momentum", "adamw", "adamw8bit", "adafactor"]),
    implementation=st.sampled_from(["foreach", "fused", "for-loop"]),
    precision=st.just("bf16"),
    expandable_segments=st.booleans(),
)


@given(RECIPES)
def test_parts_add_up_and_no_phase_is_above_the_peak(recipe: Recipe) -> None:
    m = memory_of(workload(), recipe, CARD)
    assert sum(m.parts.values()) == pytest.approx(m.peak_allocated_bytes)
    assert max(m.phases.values()) == m.peak_allocated_bytes
    assert m.peak_allocated_bytes <= m.peak_reserved_bytes <= m.device_bytes
    assert all(size >= 0 for size in m.parts.values())


@given(RECIPES)
def test_a_larger_batch_never_takes_less(recipe: Recipe) -> None:
    small, large = (
        memory_of(workload(), replace(recipe, batch=b), CARD) for b in (recipe.batch, recipe.batch + 1)
    )
    assert large.peak_allocated_bytes >= small.peak_allocated_bytes


@given(RECIPES)
def test_a_fused_update_never_takes_more(recipe: Recipe) -> None:
    fused = memory_of(workload(), replace(recipe, implementation="fused"), CARD)
    assert fused.peak_allocated_bytes <= memory_of(workload(), recipe, CARD).peak_allocated_bytes


@given(RECIPES)
def test_adapters_never_keep_more_states_than_their_base(recipe: Recipe) -> None:
    adapted, base = (memory_of(workload(lora_rank=rank), recipe, CARD) for rank in (4, 0))
    assert adapted.parts.get("optimizer", 0) <= base.parts.get("optimizer", 0)


@settings(max_examples=15)
@given(st.floats(0.5, 40))
def test_what_fits_fits_on_a_larger_card(gigabytes: float) -> None:
    recipe = Recipe(precision="bf16", batch=16)
    small, large = (replace(CARD, memory_usable_bytes=g * 1e9) for g in (gigabytes, 1.5 * gigabytes))
    if memory_of(workload(), recipe, small).fits:
        assert memory_of(workload(), recipe, large).fits
    assert largest_batch_that_fits(workload(), recipe, small, limit=64) <= largest_batch_that_fits(
        workload(), recipe, large, limit=64
    )


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 112), st.booleans(), st.booleans())
def test_scratch_grows_with_the_images(c_in: int, c_out: int, size: int, cores: bool, last: bool) -> None:
    scratch = convolution_workspace_bytes(
        np.arange(1, 5),
        c_in,
        c_out,
        1,
        size,
        size,
        size,
        size,
        3,
        3,
        1,
        1,
        element_bytes=4,
        channels_last=last,
        tensor_cores=cores,
    )
    assert (np.diff(scratch) >= 0).all()
    assert ((scratch == 0).all()) == (last and cores)
