"""From a workload and a recipe to arrays: storages that live, and what else asks the allocator for memory."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steptime.memory.activations import Lives
from steptime.memory.cache import key_value_bytes
from steptime.memory.facts import load_memory_facts
from steptime.memory.replay import Demands
from steptime.memory.states import update_list_bytes
from steptime.memory.workspace import attention_workspace_bytes, convolution_workspace_bytes
from steptime.workload.operator import Direction, Kind
from steptime.workload.optimizer import OptimizerFacts, find_optimizer
from steptime.workload.recipe import Recipe
from steptime.workload.table import Operators, Workload

# Source: IEEE 754 and the vendors' formats; TF32 lies in memory as fp32.
_ELEMENT_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
_ON_TENSOR_CORES = ("tf32", "fp16", "bf16", "fp8")


Columns = dict[str, NDArray[np.generic]]


class Machine(Protocol):
    """What memory asks of an accelerator."""

    @property
    def compute_capability(self) -> str:
        """Version of the chip, which libraries size their workspaces by."""

    @property
    def usable_memory_bytes(self) -> float:
        """What a process can use."""

    @property
    def supported_precisions(self) -> tuple[str, ...]:
        """The dtypes that it has a rate for."""


def element_sizes(dtype: NDArray[np.str_]) -> NDArray[np.float64]:
    """Return the bytes of an element of each dtype."""
    return np.array([_ELEMENT_BYTES.get(str(name), 4) for name in dtype], dtype=float)


def lives_of(workload: Workload, recipe: Recipe) -> Lives:
    """Return the storages of one step: those of the workload, as a training loop holds them."""
    s, n = workload.storages, len(workload.sequence)
    columns: Columns = {
        "birth": s.birth, "death": np.where(_held_by_the_loop(workload), n, s.death),
        "size_bytes": s.size_bytes.at(recipe.batch), "role": s.role, "module": s.module,
    }  # fmt: skip
    parts = [columns]
    if recipe.trains and recipe.accumulation > 1:
        parts.append(_accumulated(columns, n))
    if not recipe.trains:
        parts.append(_cached(workload, recipe))
    joined = {name: np.concatenate([p[name] for p in parts]) for name in columns}
    return Lives(**joined, num_positions=n, forward_end=workload.forward_end)


def _held_by_the_loop(workload: Workload) -> NDArray[np.bool_]:
    """Mark what a loop's variables hold until the next step: its inputs, and the outputs that a forward pass returns.

    A trace drops the outputs between its two passes; a loop computes its loss from them and goes backward.
    """
    s, end = workload.storages, workload.forward_end
    returned = (s.death == end) & (s.birth >= 0) & (s.birth < end) & (s.role == "temporary")
    return np.asarray((s.role == "input") | returned)


def _accumulated(columns: Columns, num_positions: int) -> Columns:
    """Turn this micro-batch's gradients into temporaries; return those of earlier ones, there from the start."""
    gradient = columns["role"] == "gradient"
    kept = {name: values[gradient] for name, values in columns.items()}
    birth = np.asarray(columns["birth"])
    columns["death"] = np.where(gradient, np.maximum(birth, 0) + 1, columns["death"])
    columns["role"] = np.where(gradient, "temporary", columns["role"])
    kept["birth"] = np.full(len(kept["birth"]), -1)
    kept["death"] = np.full(len(kept["birth"]), num_positions)
    return kept


def _cached(workload: Workload, recipe: Recipe) -> Columns:
    """Return the keys and values that a decoder keeps, as storages."""
    rows = workload.operators.at(recipe.batch)
    n = len(workload.sequence)
    kept = _keeps(workload, rows)
    at = np.flatnonzero(kept[workload.sequence])
    row = workload.sequence[at]
    d = rows.dims[row].T
    size = key_value_bytes(d[0], d[2], d[4], d[5], d[6], d[7], element_bytes=element_sizes(rows.dtype[row]))
    if (
        workload.task == "decode"
    ):  # the cache is there, and each layer's copy with the new token replaces the old one
        birth, death = (
            np.concatenate([np.full(len(at), -1), at]),
            np.concatenate([np.full(len(at), n), at + 1]),
        )
        size, row = np.concatenate([size, size]), np.concatenate([row, row])
    else:
        birth, death = at + 1, np.full(len(at), n)
    return {
        "birth": birth, "death": death, "size_bytes": size, "role": np.full(len(birth), "kv_cache"),
        "module": rows.module[row],
    }  # fmt: skip


def _keeps(workload: Workload, rows: Operators) -> NDArray[np.bool_]:
    """Mark the attention rows whose keys and values stay; a plain forward pass keeps them in transformers' decoders."""
    attends = rows.kind == Kind.ATTENTION
    if "kv_cache" in workload.storages.role:
        return np.zeros(len(rows), dtype=bool)
    if workload.task in {"prefill", "decode"}:
        return np.asarray(attends)
    origin = workload.origin
    of_transformers = "builder" in origin or str(origin.get("library", "")).startswith("transformers")
    return np.asarray(attends & (rows.dims[:, 7] > 0) & of_transformers)


def multiplies_fp32_as_tf32(workload: Workload, accelerator: Machine) -> bool:
    """Tell whether convolutions of fp32 images run on tensor cores.

    cuDNN multiplies them in TF32 where it can, unless torch.backends.cudnn.allow_tf32 says no.
    """
    t = workload.operators
    return "tf32" in accelerator.supported_precisions and bool(
        ((t.kind == Kind.CONVOLUTION) & (t.dtype == "fp32")).any()
    )


def demands_of(workload: Workload, recipe: Recipe, *, fast_fp32: bool) -> Demands:
    """Return what the step needs besides its storages: workspaces, optimizer states and lists."""
    optimizer = find_optimizer(recipe.optimizer if recipe.trains else "none")
    facts = load_memory_facts()
    multiplies = bool((workload.operators.kind == Kind.GEMM).any())
    width = _parameter_bytes(workload)
    trained = _trained_sizes(workload)
    lists = optimizer.foreach_temporaries + facts.decay_lists.get(optimizer.name, 0)
    return Demands(
        scratch_bytes=_scratch(workload, recipe, fast_fp32),
        library_bytes=facts.least_matrix_workspace_bytes if multiplies else 0.0,
        states_bytes=_states(workload, optimizer, width, trained),
        update_bytes=update_list_bytes(
            trained, element_bytes=width, lists=lists, implementation=recipe.implementation
        ),
        trains=recipe.trains,
    )


def _parameter_bytes(workload: Workload) -> float:
    """Return the size of a trainable parameter (all of a model's parameters have one dtype, or nearly)."""
    trained = [g for g in workload.parameters if g.trainable] or list(workload.parameters)
    total = sum(g.num_parameters for g in trained)
    return sum(g.num_parameters * _ELEMENT_BYTES.get(g.dtype, 4) for g in trained) / max(total, 1)


def _trained_sizes(workload: Workload) -> NDArray[np.float64]:
    """Return the elements of each trained tensor."""
    groups = [(g.num_parameters / g.count, g.count) for g in workload.parameters if g.trainable]
    return np.repeat([size for size, _ in groups], [count for _, count in groups]).astype(float)


def _states(
    workload: Workload, optimizer: OptimizerFacts, element_bytes: float, trained: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sizes of the optimizer's tensors: lists like the parameters, scaled to what they take in all."""
    total = optimizer.state_size_bytes(workload.parameters, element_bytes)
    whole = float(trained.sum())
    if not total or not whole:
        return np.zeros(0)
    lists = max(optimizer.states, 1)
    return np.repeat(trained, lists) * (total / (whole * lists))


def _scratch(workload: Workload, recipe: Recipe, fast_fp32: bool) -> NDArray[np.float64]:
    """Return the workspace of each position's operator."""
    rows = workload.operators.at(recipe.batch)
    needed = np.zeros(len(rows))
    fast = (*_ON_TENSOR_CORES, "fp32") if fast_fp32 else _ON_TENSOR_CORES
    chosen = rows.kind == Kind.CONVOLUTION
    needed[chosen] = convolution_workspace_bytes(
        *rows.dims[chosen].T, element_bytes=element_sizes(rows.dtype[chosen]),
        channels_last=recipe.channels_last, tensor_cores=np.isin(rows.dtype[chosen], fast),
    )  # fmt: skip
    chosen = rows.kind == Kind.ATTENTION
    needed[chosen] = attention_workspace_bytes(
        *rows.dims[chosen].T[:7], backward=rows.direction[chosen] == Direction.BACKWARD,
        element_bytes=element_sizes(rows.dtype[chosen]),
    )  # fmt: skip
    return np.asarray(needed[workload.sequence])
