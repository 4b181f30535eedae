"""The nouns refuse nonsense, and know which of them are near."""

from __future__ import annotations

from typing import Any

import pytest

from steptime.errors import InputError
from steptime.hardware import Accelerator, Link, load_catalogue, relatives, similarity


def card(**changed: Any) -> Accelerator:
    facts: dict[str, Any] = {
        "name": "X1", "vendor": "Acme", "architecture": "One", "year": 2026, "source": "our own data sheet",
        "peak_flops_per_s": {"fp32": 5e13, "bf16": 4e14}, "memory_capacity_bytes": 64e9,
        "memory_bandwidth_bytes_per_s": 2e12,
    }  # fmt: skip
    return Accelerator(**{**facts, **changed})


def test_what_a_driver_showed_is_usable() -> None:
    assert card(memory_usable_bytes=6e10).usable_memory_bytes == 6e10


def test_a_label_counts_in_gib() -> None:
    assert card().usable_memory_bytes == pytest.approx(0.985 * 64 * 2**30)


def test_the_rule_for_usable_memory_is_near_what_drivers_show() -> None:
    for a in load_catalogue().accelerators:
        if a.memory_usable_bytes is not None:
            by_rule = card(memory_capacity_bytes=a.memory_capacity_bytes).usable_memory_bytes
            assert 0.93 < a.memory_usable_bytes / by_rule < 1.02, a.name


def test_precisions_are_those_with_a_rate() -> None:
    assert card().supported_precisions == ("fp32", "bf16")
    assert "fp8" not in load_catalogue().find("v100").accelerator.supported_precisions


def test_equal_facts_are_equal_and_hash_alike() -> None:
    assert card(file="a.toml") == card(file="b.toml")
    assert hash(card()) == hash(card())
    assert card() != card(year=2025)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": " "}, "needs a name"),
        ({"memory_bandwidth_bytes_per_s": 0.0}, "above zero"),
        ({"memory_capacity_bytes": float("nan")}, "above zero"),
        ({"peak_flops_per_s": {"bf16": -1.0}}, "above zero"),
        ({"peak_flops_per_s": {"float16": 1e14}}, "no dtype is called float16"),
        ({"confidence": "sure"}, "not one of high, medium, low"),
    ],
)
def test_what_no_accelerator_can_be_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        card(**changed)


def test_what_no_link_can_be_is_refused() -> None:
    with pytest.raises(InputError, match="above zero"):
        Link(name="wire", kind="x", bandwidth_bytes_per_s=0.0, source="none")
    with pytest.raises(InputError, match="not one of"):
        Link(name="wire", kind="x", bandwidth_bytes_per_s=1.0, source="none", confidence="sure")


def test_json_leaves_out_what_is_absent() -> None:
    facts = card().to_dict()
    assert facts["peak_flops_per_s"] == {"fp32": 5e13, "bf16": 4e14}
    assert "l2_bytes" not in facts
    assert "file" not in facts


def nearest_to(name: str, *others: str) -> list[str]:
    by_name = load_catalogue().by_name
    return [a.name for a in relatives(by_name[name], [by_name[o] for o in others])]


@pytest.mark.parametrize(
    ("name", "order"),
    [
        (
            "H200-SXM-141GB",
            ("H200-SXM-141GB", "H100-SXM5-80GB", "B200-SXM-180GB", "A100-SXM4-80GB", "L40S", "MI300X"),
        ),
        ("A10", ("RTX-3090", "L40S", "T4", "A100-SXM4-80GB", "MI100")),
        ("RTX-5080", ("RTX-5090", "L40S", "RTX-3090", "B200-SXM-180GB", "H100-SXM5-80GB")),
        ("B300-SXM-288GB", ("B200-SXM-180GB", "H200-SXM-141GB", "RTX-5090")),
        ("V100-PCIE-16GB", ("V100-SXM2-16GB", "P100-PCIE-16GB", "A100-SXM4-80GB", "T4")),
        ("MI325X", ("MI300X", "MI210", "RX6800XT", "H200-SXM-141GB")),
    ],
)
def test_relatives_come_in_a_visible_order(name: str, order: tuple[str, ...]) -> None:
    assert nearest_to(name, *reversed(order)) == list(order)


def test_nothing_is_nearer_than_itself() -> None:
    everyone = load_catalogue().accelerators
    assert all(max(everyone, key=lambda other: similarity(a, other)).name == a.name for a in everyone)
