"""Sort the calls that PyTorch's dispatcher makes into our kinds, with dimensions and bytes.

Works on ``OpOverload`` names and on the fake tensors that go in and out; torch is imported by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from steptime.workload.capture.operator_names import (
    COPIES,
    GATHER,
    GEMMS,
    NORMS,
    POINTWISE_UNTAGGED,
    POOLING,
    REDUCTION,
    SCATTER,
    SOFTMAX,
)
from steptime.workload.operator import Direction, Kind


class Work(NamedTuple):
    """One kernel that a dispatcher call stands for (a convolution's backward stands for two or three)."""

    kind: Kind
    direction: Direction
    dims: tuple[float, ...]
    reads: tuple[Any, ...]  # tensors
    writes: tuple[Any, ...]
    name: str = ""


def base_name(func: Any) -> str:
    """Return ``mm`` for ``aten.mm.default``."""
    return str(func).split(".")[1] if "." in str(func) else str(func)


def _numel(tensors: Iterable[Any]) -> int:
    return max((t.numel() for t in tensors), default=0)


def _gemm(name: str, args: tuple[Any, ...], reads: list[Any], writes: list[Any]) -> list[Work]:
    """Read (batch, m, n, k) from the two matrices, which follow the addend where there is one."""
    skip = 1 if name in {"addmm", "baddbmm", "addmv", "addbmm"} else 0
    a, b = args[skip], args[skip + 1]
    if name == "_grouped_mm":
        # rows are shared out evenly over the experts
        experts = float((b if b.dim() == 3 else writes[0]).shape[0])
        rows, inner = (
            (a.shape[0] / experts, a.shape[-1]) if b.dim() == 3 else (a.shape[0], a.shape[1] / experts)
        )
        dims = (experts, float(rows), float(b.shape[-1]), float(inner))
    elif name in {"dot", "vdot"}:
        dims = (1.0, 1.0, 1.0, float(a.numel()))
    elif name in {"mv", "addmv"}:
        dims = (1.0, float(a.shape[0]), 1.0, float(a.shape[1]))
    elif name == "linear":
        dims = (1.0, float(math.prod(a.shape[:-1])), float(b.shape[0]), float(a.shape[-1]))
    else:
        batch = float(a.shape[0]) if a.dim() == 3 else 1.0
        dims = (batch, float(a.shape[-2]), float(b.shape[-1]), float(a.shape[-1]))
    return [Work(Kind.GEMM, Direction.FORWARD, dims, tuple(reads), tuple(writes))]


def _spatial(shape: Iterable[int]) -> tuple[float, float]:
    """Fold the dimensions of space into height and width; a 1-D signal has height 1."""
    sizes = [1, *list(shape)] if len(list(shape)) < 2 else list(shape)
    return float(math.prod(sizes[:-1])), float(sizes[-1])


def _convolution_dims(
    x: Any, weight: Any, out: Any, stride: list[int], groups: int, transposed: bool
) -> tuple[float, ...]:
    """Describe the convolution of which ``x`` is the larger image; a transposed one swaps the two."""
    big, small = (out, x) if transposed else (x, out)
    strides = [*stride] * ((x.dim() - 2) // len(stride)) if len(stride) < x.dim() - 2 else stride
    return (
        float(x.shape[0]), float(big.shape[1]), float(small.shape[1]), float(groups),
        *_spatial(big.shape[2:]), *_spatial(small.shape[2:]), *_spatial(weight.shape[2:]), *_spatial(strides),
    )  # fmt: skip


def _convolution(_name: str, args: tuple[Any, ...], reads: list[Any], writes: list[Any]) -> list[Work]:
    x, weight, stride, transposed, groups = args[0], args[1], args[3], args[6], args[8]
    dims = _convolution_dims(x, weight, writes[0], stride, groups, transposed)
    direction = Direction.DATA_GRADIENT if transposed else Direction.FORWARD
    return [Work(Kind.CONVOLUTION, direction, dims, tuple(reads), tuple(writes))]


def _convolution_backward(
    _name: str, args: tuple[Any, ...], _reads: list[Any], writes: list[Any]
) -> list[Work]:
    grad, x, weight, stride, transposed, groups, mask = (args[i] for i in (0, 1, 2, 4, 7, 9, 10))
    dims = _convolution_dims(x, weight, grad, stride, groups, transposed)
    outputs = iter(writes)
    made: list[Work] = []
    if mask[0]:
        direction = Direction.FORWARD if transposed else Direction.DATA_GRADIENT
        made.append(
            Work(Kind.CONVOLUTION, direction, dims, (grad, weight), (next(outputs),), "convolution_backward")
        )
    if mask[1]:
        made.append(
            Work(
                Kind.CONVOLUTION,
                Direction.WEIGHT_GRADIENT,
                dims,
                (grad, x),
                (next(outputs),),
                "convolution_backward",
            )
        )
    if mask[2]:
        rows = (float(grad.shape[1]), grad.numel() / max(grad.shape[1], 1))
        made.append(Work(Kind.REDUCTION, Direction.FORWARD, rows, (grad,), (next(outputs),), "sum"))
    return made


def _rows_and_columns(reads: list[Any], writes: list[Any]) -> tuple[float, float]:
    """Return how many values come out, and how many are combined into each."""
    inputs = _numel(reads)
    rows = max(min((t.numel() for t in writes if t.numel()), default=1), 1)
    return float(rows), inputs / rows


def _normalisation(name: str, args: tuple[Any, ...], reads: list[Any], writes: list[Any]) -> list[Work]:
    x = next((t for t in args if hasattr(t, "dim") and t.dim() > 1), reads[0])
    inside = _normalised_length(name, args, x, reads, writes)
    # statistics over the batch need a pass of their own, forward and backward; a row stays in registers
    passes_apart = ("batch_norm" in name and _over_the_batch(name, args)) or "group_norm" in name
    twice = [t for t in reads if t.numel() == x.numel()] if passes_apart else []
    direction = Direction.BACKWARD if "backward" in name else Direction.FORWARD
    dims = (x.numel() / max(inside, 1.0), inside)
    return [Work(Kind.NORMALISATION, direction, dims, (*reads, *twice), tuple(writes))]


def _over_the_batch(name: str, args: tuple[Any, ...]) -> bool:
    """Tell whether a batch normalisation computes statistics (training) or takes the running ones."""
    if "backward" in name or "legit_no_training" in name:
        return "backward" in name
    flags = [a for a in args if isinstance(a, bool)]
    return bool(flags and flags[0]) or "with_update" in name


def _normalised_length(
    name: str, args: tuple[Any, ...], x: Any, reads: list[Any], writes: list[Any]
) -> float:
    """Return over how many elements one mean is taken."""
    if "batch_norm" in name:
        return float(x.numel() / max(x.shape[1] if x.dim() > 1 else 1, 1))
    if "layer_norm" in name or "rms_norm" in name:
        shape = next(
            (a for a in args if isinstance(a, (list, tuple)) and a and isinstance(a[0], int)), [x.shape[-1]]
        )
        return float(math.prod(shape))
    if "group_norm" in name:
        numbers = [a for a in args if isinstance(a, int)]
        return float(x.numel() / max(x.shape[0] * (numbers[3] if len(numbers) > 3 else 1), 1))
    return _rows_and_columns(reads, writes)[1]


def _softmax(_name: str, args: tuple[Any, ...], reads: list[Any], writes: list[Any]) -> list[Work]:
    x = args[0]
    dim = next((a for a in args[1:] if isinstance(a, int)), -1)
    columns = float(x.shape[dim]) if x.dim() else 1.0
    return [
        Work(
            Kind.SOFTMAX,
            Direction.FORWARD,
            (x.numel() / max(columns, 1.0), columns),
            tuple(reads),
            tuple(writes),
        )
    ]


def _reduction(_name: str, _args: tuple[Any, ...], reads: list[Any], writes: list[Any]) -> list[Work]:
    return [
        Work(Kind.REDUCTION, Direction.FORWARD, _rows_and_columns(reads, writes), tuple(reads), tuple(writes))
    ]


def _gather(_name: str, args: tuple[Any, ...], reads: list[Any], writes: list[Any]) -> list[Work]:
    """Only the rows that are asked for are read from the table, not the table."""
    out = writes[0]
    width = float(out.shape[-1]) if out.dim() else 1.0
    others = tuple(t for t in reads if t is not args[0] and t.numel() <= out.numel())
    return [
        Work(
            Kind.GATHER,
            Direction.FORWARD,
            (out.numel() / max(width, 1.0), width),
            (*others, out),
            tuple(writes),
        )
    ]


def _scatter(_name: str, _args: tuple[Any, ...], reads: list[Any], writes: list[Any]) -> list[Work]:
    out = writes[0] if writes else reads[0]
    source = max((t for t in reads if t is not out), key=lambda t: t.numel(), default=out)
    width = float(source.shape[-1]) if source.dim() else 1.0
    return [
        Work(
            Kind.SCATTER,
            Direction.FORWARD,
            (source.numel() / max(width, 1.0), width),
            tuple(reads),
            tuple(writes),
        )
    ]


def _embedding_bag(_name: str, args: tuple[Any, ...], _reads: list[Any], writes: list[Any]) -> list[Work]:
    """Read the rows that are asked for, not the table, and write their sum per bag."""
    table, indices = args[0], args[1]
    touched = table[: max(min(indices.numel(), table.shape[0]), 1)]
    dims = (float(indices.numel()), float(table.shape[1]))
    return [Work(Kind.GATHER, Direction.FORWARD, dims, (touched, indices), tuple(writes))]


def _embedding_bag_backward(
    _name: str, args: tuple[Any, ...], reads: list[Any], writes: list[Any]
) -> list[Work]:
    grad, indices = args[0], args[1]
    dims = (float(indices.numel()), float(grad.shape[-1]))
    return [Work(Kind.SCATTER, Direction.FORWARD, dims, tuple(reads), tuple(writes))]


def _elements(kind: Kind) -> Callable[..., list[Work]]:
    def make(_name: str, _args: tuple[Any, ...], reads: list[Any], writes: list[Any]) -> list[Work]:
        return [
            Work(kind, Direction.FORWARD, (float(_numel([*reads, *writes])),), tuple(reads), tuple(writes))
        ]

    return make


def _maker(name: str, pointwise: bool) -> tuple[Callable[..., list[Work]], bool]:
    """Return the reader for an operator, and whether we know the operator."""
    families = (
        (GEMMS, _gemm), (frozenset({"convolution"}), _convolution),
        (frozenset({"convolution_backward"}), _convolution_backward), (NORMS, _normalisation),
        (SOFTMAX, _softmax), (REDUCTION, _reduction), (GATHER, _gather), (SCATTER, _scatter),
        (COPIES, _elements(Kind.COPY)),
        (frozenset({"_embedding_bag", "_embedding_bag_forward_only"}), _embedding_bag),
        (frozenset({"_embedding_bag_backward", "_embedding_bag_dense_backward"}), _embedding_bag_backward),
    )  # fmt: skip
    for names, maker in families:
        if name in names:
            return maker, True
    if any(part in name for part in POOLING):
        return _elements(Kind.POOLING), True
    if (
        pointwise
        or name.rstrip("_") in POINTWISE_UNTAGGED
        or name.startswith(("native_dropout", "bernoulli", "rand", "normal", "uniform", "exponential"))
    ):
        return _elements(Kind.ELEMENTWISE), True
    if "margin_loss" in name or (name.endswith("_backward") and ("loss" in name or "lu" in name)):
        return _elements(Kind.ELEMENTWISE), True
    return _elements(Kind.OTHER), False


def work_of(
    func: Any, args: tuple[Any, ...], reads: list[Any], writes: list[Any], pointwise: bool
) -> tuple[list[Work], bool]:
    """Return the kernels that a dispatcher call stands for, and whether we know the operator.

    An operator that we do not know is never dropped: it is costed as the memory traffic of its tensors.
    """
    name = base_name(func)
    maker, known = _maker(name, pointwise)
    return maker(name, args, reads, writes), known
