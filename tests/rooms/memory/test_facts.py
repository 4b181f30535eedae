"""The shelf of what is no tensor: contexts of drivers, workspaces of libraries."""

from __future__ import annotations

import pytest

from steptime.memory import load_memory_facts

MIB = 2**20


def test_old_software_takes_a_gigabyte_before_the_first_tensor() -> None:
    # U016: a Titan V with torch 1.3 goes from 0.94 to 1008 MiB, 2 of them a segment
    context = load_memory_facts().context_bytes("7.0", convolutions=False)
    assert context / MIB == pytest.approx(1006, rel=0.15)


def test_kernels_that_load_as_they_are_used_leave_a_third_of_it() -> None:
    # U017: since CUDA 11.7 about 300 MB
    context = load_memory_facts().context_bytes("7.0", convolutions=True, loading="as_used")
    assert context / 1e6 == pytest.approx(300, rel=0.5)


def test_cards_that_old_software_does_not_know_load_kernels_as_used() -> None:
    facts = load_memory_facts()
    assert [facts.loading(c) for c in ("7.0", "8.0", "8.6", "8.9", "9.0", "10.0", "")] == ["at_once"] * 3 + [
        "as_used"
    ] * 4


def test_the_convolution_library_is_loaded_by_the_first_convolution() -> None:
    facts = load_memory_facts()
    without, with_it = (facts.context_bytes("8.0", convolutions=c) for c in (False, True))
    assert (with_it - without) / MIB == 290


def test_a_capability_without_a_row_takes_the_one_below_of_its_major() -> None:
    facts = load_memory_facts()
    assert facts.context_bytes("8.7", convolutions=False) == facts.context_bytes("8.6", convolutions=False)
    assert facts.context_bytes("", convolutions=False) == facts.default_context_bytes


def test_hopper_has_the_larger_matrix_workspace() -> None:
    facts = load_memory_facts()
    assert facts.least_matrix_workspace_bytes == 8519680
    assert facts.least_matrix_workspace_bytes + facts.extra_matrix_workspace_bytes("9.0") == 32 * MIB
    assert facts.extra_matrix_workspace_bytes("8.0") == 0
