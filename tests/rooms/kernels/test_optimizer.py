"""Optimizer steps: bytes by hand, launches, states, and the traffic of PyTorch's code counted by call."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from steptime.errors import UnknownNameError
from steptime.kernels.optimizer import (
    ELEMENTS_OF_A_LAUNCH,
    factored_state_bytes,
    optimizer_bytes_per_parameter,
    optimizer_num_launches,
    optimizer_read_bytes,
    optimizer_written_bytes,
    state_bytes_per_parameter,
    tensors_of_a_launch,
)
from steptime.workload.optimizer import OptimizerFacts, find_optimizer, load_optimizers
from steptime.workload.table import ParameterGroup

NUM_TENSORS, SHAPE = 4, (64, 48)
PYTORCH = {
    "sgd": ("SGD", {}), "sgd-momentum": ("SGD", {"momentum": 0.9}), "adam": ("Adam", {}),
    "adamw": ("AdamW", {}),
    "nadam": ("NAdam", {}), "radam": ("RAdam", {}), "rmsprop": ("RMSprop", {}), "adadelta": ("Adadelta", {}),
    "adagrad": ("Adagrad", {}), "adafactor": ("Adafactor", {}),
}  # fmt: skip


def fused_bytes(name: str, **widths: float) -> tuple[float, float]:
    facts = find_optimizer(name)
    given = {"parameter_bytes": 4, "gradient_bytes": 4, "state_bytes": facts.state_bytes or 4, **widths}
    read, written = optimizer_bytes_per_parameter(facts.reads, facts.writes, num_states=facts.states, **given)
    return float(read), float(written)


@pytest.mark.parametrize(
    ("name", "read", "written"),
    [
        ("none", 0, 0),
        ("sgd", 8, 4),  # p, g -> p
        ("sgd-momentum", 12, 8),  # p, g, m -> p, m
        ("adam", 16, 12),  # p, g, m, v -> p, m, v
        ("adamw8bit", 8 + 2 * 1.015625, 4 + 2 * 1.015625),
        ("lion", 12, 8),
    ],
)
def test_bytes_of_one_fused_pass_by_hand(name: str, read: float, written: float) -> None:
    assert fused_bytes(name) == (read, written)


def test_adam_in_pure_half_precision_moves_half() -> None:
    assert fused_bytes("adam", parameter_bytes=2, gradient_bytes=2, state_bytes=2) == (8, 6)


def test_master_weights_add_the_models_own_copy() -> None:
    """Gradients of 2 bytes, master copy and states of 4, and the model's 2 bytes written anew."""
    assert fused_bytes("adam", gradient_bytes=2, model_copy_bytes=2) == (4 + 2 + 8, 4 + 8 + 2)


def test_foreach_adamw_moves_nearly_three_times_as_much_as_fused() -> None:
    facts = find_optimizer("adamw")
    read, written = optimizer_bytes_per_parameter(
        facts.foreach_reads,
        facts.foreach_writes,
        num_states=2,
        parameter_bytes=4,
        gradient_bytes=4,
        state_bytes=4,
    )
    assert float(read + written) == 80
    assert sum(fused_bytes("adamw")) == 28


def test_optimizers_broadcast() -> None:
    widths = np.array([[2.0], [4.0]])
    common = {"num_states": np.array([0, 1, 2]), "parameter_bytes": widths, "state_bytes": widths}
    assert optimizer_read_bytes(np.array([2, 3, 4]), gradient_bytes=widths, **common).shape == (2, 3)
    assert optimizer_written_bytes(np.array([1, 2, 3]), **common).tolist() == [[2, 4, 6], [4, 8, 12]]


def test_launches_are_bounded_by_tensors_or_by_elements() -> None:
    """A fused Adam has four lists: 36 tensors, or 320 blocks of 65,536 elements."""
    launches = optimizer_num_launches(
        [30, 161, 2], [1e6, 25.6e6, 1e8], tensors_per_launch=tensors_of_a_launch(4),
        elements_per_launch=ELEMENTS_OF_A_LAUNCH,
    )  # fmt: skip
    assert launches.tolist() == [1, 5, 5]


def test_a_loop_launches_each_kernel_for_each_tensor() -> None:
    kernels = find_optimizer("adam").kernels_per_tensor
    one = optimizer_num_launches(161, 25.6e6, tensors_per_launch=1, elements_per_launch=np.inf)
    assert kernels * float(one) == 7 * 161


def states_bytes(name: str, *groups: ParameterGroup, element_bytes: float = 4) -> float:
    return find_optimizer(name).state_size_bytes(groups, element_bytes)


MATRIX = ParameterGroup(shape=(4096, 1024), count=2, trainable=True, dtype="fp32")
BIAS = ParameterGroup(shape=(1024,), count=2, trainable=True, dtype="fp32")
FROZEN = ParameterGroup(shape=(4096, 4096), count=1, trainable=False, dtype="fp32")


def test_adam_keeps_twice_what_sgd_with_momentum_keeps() -> None:
    assert states_bytes("adam", MATRIX, BIAS) == 2 * states_bytes("sgd-momentum", MATRIX, BIAS) > 0
    assert states_bytes("sgd", MATRIX, BIAS) == 0
    assert state_bytes_per_parameter([2, 1], 4).tolist() == [8, 4]


def test_frozen_parameters_have_no_states() -> None:
    assert states_bytes("adamw", FROZEN) == 0


def test_eight_bit_states_with_their_scales_but_not_for_small_tensors() -> None:
    assert states_bytes("adamw8bit", MATRIX) == 2 * MATRIX.num_parameters * (1 + 4 / 256)
    assert states_bytes("adamw8bit", BIAS) == 2 * BIAS.num_parameters * 4


def test_adafactor_keeps_a_row_and_a_column() -> None:
    assert states_bytes("adafactor", MATRIX) == 2 * 4 * (4096 + 1024)
    assert states_bytes("adafactor", BIAS) == 2 * 4 * 1024
    assert factored_state_bytes([4096, 1], [1024, 1024], element_bytes=4).tolist() == [4 * 5120, 4096]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("AdamW", "adamw"), ("momentum", "sgd-momentum"), ("SGD_momentum", "sgd-momentum"),
        ("adam8bit", "adamw8bit"), ("adamw_bnb_8bit", "adamw8bit"),
        ("FusedAdam", "adam"), ("None", "none"), ("LAMB", "lamb"),
    ],
)  # fmt: skip
def test_names_as_people_spell_them(typed: str, meant: str) -> None:
    assert find_optimizer(typed).name == meant


def test_an_unknown_name_gets_its_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean .*adam") as caught:
        find_optimizer("adamm")
    assert "adam" in caught.value.suggestions


@pytest.mark.parametrize("facts", load_optimizers().values(), ids=lambda f: f.name)
def test_each_optimizer_is_sound(facts: OptimizerFacts) -> None:
    assert facts.foreach_reads >= facts.reads >= facts.states
    assert facts.foreach_writes >= facts.writes >= facts.states
    assert all(1 <= depth <= 5 for depth in facts.foreach_depths)
    assert facts.source


def counted(optimizer: Any) -> Iterator[tuple[str, int, int, int]]:
    """Yield name, lists, tensors read and tensors written of each call that touches whole parameters."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            calls.append((func, args, kwargs or {}, out))
            return out

    def whole(value: Any) -> set[int]:
        several = value if isinstance(value, (list, tuple)) else [value]
        return {t.data_ptr() for t in several if isinstance(t, torch.Tensor) and tuple(t.shape) == SHAPE}

    def is_list(value: Any) -> bool:
        return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], torch.Tensor)

    with Recorder():
        optimizer.step()
    for func, args, kwargs, out in calls:
        read = set().union(*(whole(a) for a in (*args, *kwargs.values())), set())
        mutated = [a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments]
        written = set().union(
            *(whole(a) for a, m in zip(args, mutated, strict=False) if m), whole(out) - read
        )
        lists = sum(is_list(a) for a in args) + (not any(mutated))
        if read or written:
            yield str(func), lists, len(read), len(written)


@pytest.mark.needs_torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize("name", PYTORCH)
def test_the_shelf_counts_what_pytorch_runs(name: str) -> None:
    import torch

    kind, arguments = PYTORCH[name]
    parameters = [torch.nn.Parameter(torch.randn(SHAPE)) for _ in range(NUM_TENSORS)]
    for p in parameters:
        p.grad = torch.randn(SHAPE)
    make = getattr(torch.optim, kind)
    rate = {"lr": 0.1} if "lr" in inspect.signature(make).parameters else {}
    optimizer = make(parameters, foreach=True, **rate, **arguments)
    optimizer.step()  # the first step makes the states
    calls = list(counted(optimizer))
    facts = find_optimizer(name)
    assert sum(read for _, _, read, _ in calls) == facts.foreach_reads * NUM_TENSORS
    assert sum(written for _, _, _, written in calls) == facts.foreach_writes * NUM_TENSORS
    assert tuple(lists for f, lists, _, _ in calls if "_foreach_" in f) == facts.foreach_depths
