"""Mixtures of experts: a router, tokens sorted by expert, and grouped products over all experts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steptime.workload.operator import Kind
from steptime.workload.transformer import layers as ops
from steptime.workload.transformer.blocks import Shape, feed_forward
from steptime.workload.transformer.tape import BYTES, Tape, Tensor

BALANCED = "experts: tokens are spread evenly over them and run as grouped matrix products"


@dataclass(frozen=True, kw_only=True, slots=True)
class Experts:
    """How many experts there are, how many a token visits, and how wide they are.

    ``capacity`` is how many tokens of one sample an expert takes at most; 0 takes all.
    """

    number: int
    per_token: int
    inner: int
    shared_inner: int = 0
    capacity: int = 0
    gated: bool = True
    act: str = "silu"


def mixture(tape: Tape, x: Tensor, hidden: int, shape: Shape, e: Experts) -> Tensor:
    """Route tokens, run every expert on its even share, and add what comes out, weighted."""
    tokens = x.numel // hidden
    visits = tokens * e.per_token
    if e.capacity:
        visits = min(visits, shape.batch * e.number * e.capacity)
    scores = ops.linear(tape, x, tape.weight(e.number, hidden, trainable=shape.trains_base))
    weights = ops.softmax(tape, tape.cast(scores, "fp32"), e.number)
    indices = tape.make((visits,), "int")
    chosen = tape.make((visits,), "fp32")
    tape.record(Kind.REDUCTION, "topk", (tokens, e.number), (weights,), (chosen, indices))
    routed = _rows(tape, x, visits, hidden)
    inner = _grouped(tape, routed, e, e.inner, hidden, shape)
    if e.gated:
        inner = ops.mul(
            tape, ops.activation(tape, inner, e.act), _grouped(tape, routed, e, e.inner, hidden, shape)
        )
    else:
        inner = ops.activation(tape, inner, e.act)
    out = _grouped(tape, inner, e, hidden, e.inner, shape)
    out = ops.pointwise(tape, "mul", (out, chosen.view(visits, 1)), saves=(1,), dtype=out.dtype)
    total = _sum(tape, out, tokens, x.shape)
    if e.shared_inner:
        shared = feed_forward(tape, x, hidden, e.shared_inner, shape, act=e.act, gated=e.gated, bias=False)
        total = ops.add(tape, total, shared)
    return total


def _grouped(tape: Tape, x: Tensor, e: Experts, n_out: int, n_in: int, shape: Shape) -> Tensor:
    """Multiply each expert's rows by its weight; only experts that have rows are read."""
    weight = tape.weight(e.number, n_out, n_in, trainable=shape.trains_base)
    if tape.half:
        x, weight = tape.cast(x, tape.half), tape.cast(weight, tape.half)
    rows = x.shape[0]
    active = max(1, min(e.number, rows))
    share = rows / active
    read = active * n_out * n_in * BYTES[weight.dtype]
    out = tape.make((rows, n_out), x.dtype)
    tape.record(Kind.GEMM, "_grouped_mm", (active, share, n_out, n_in), (x, weight), (out,),
                read_bytes=(x.numel * BYTES[x.dtype], read))  # fmt: skip
    needs = (x.needs_grad, weight.needs_grad)

    def backward(grad: Tensor) -> Sequence[Tensor | None]:
        dx = dw = None
        size = grad.numel * BYTES[grad.dtype]
        if needs[0]:
            dx = tape.make(x.shape, grad.dtype)
            tape.record(
                Kind.GEMM,
                "_grouped_mm",
                (active, share, n_in, n_out),
                (grad, weight),
                (dx,),
                read_bytes=(size, read),
            )
        if needs[1]:
            dw = tape.make(weight.shape, grad.dtype)
            tape.record(Kind.GEMM, "_grouped_mm", (active, n_out, n_in, share), (grad, x), (dw,))
        return dx, dw

    return tape.attach(out, (x, weight), backward)


def _rows(tape: Tape, x: Tensor, rows: int, width: int) -> Tensor:
    """Gather a row for each visit, sorted by expert; the gradient is scattered back."""
    picked = tape.make((rows, width), x.dtype)
    tape.record(Kind.GATHER, "index", (rows, width), (picked,), (picked,))
    shape, dtype = x.shape, x.dtype

    def backward(grad: Tensor) -> Sequence[Tensor]:
        back = tape.make(shape, dtype)
        tape.record(Kind.SCATTER, "index_put", (rows, width), (grad,), (back,))
        return (back,)

    return tape.attach(picked, (x,), backward)


def _sum(tape: Tape, x: Tensor, tokens: int, shape: Sequence[int]) -> Tensor:
    """Add the visits of each token."""
    rows, width = x.shape
    total = tape.make(shape, x.dtype)
    tape.record(Kind.SCATTER, "index_add", (rows, width), (x,), (total,))

    def backward(grad: Tensor) -> Sequence[Tensor]:
        back = tape.make((rows, width), grad.dtype)
        tape.record(Kind.GATHER, "index", (rows, width), (grad,), (back,))
        return (back,)

    del tokens
    return tape.attach(total, (x,), backward)
