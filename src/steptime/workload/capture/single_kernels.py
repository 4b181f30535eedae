"""Operators that CUDA runs as one kernel and the CPU takes apart, as autograd functions.

They compute nothing: each makes outputs of the right shape, records one operator each way, and keeps for the
backward pass what CUDA's kernel keeps.
"""

# ruff: noqa: D102  # forward and backward mean what autograd says
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from steptime.workload.capture.classify import Work
from steptime.workload.operator import Direction, Kind

Record = Callable[[Work, str], None]
SDPA = "scaled_dot_product_attention"
GROUPED = "_grouped_mm"


def _heads_last(shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """Make what CUDA's kernels return: (batch, heads, seq, width) laid out as (batch, seq, heads, width)."""
    batch, heads, seq, width = shape
    return like.new_empty(batch, seq, heads, width).transpose(1, 2)


class Attention(torch.autograd.Function):
    """Scaled dot-product attention; grouped heads are not repeated, and scores are not kept."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, bias: Any, causal: float, record: Record) -> torch.Tensor:
        out = _heads_last((*q.shape[:3], v.shape[3]), q)
        logsumexp = q.new_empty(q.shape[0], q.shape[1], q.shape[2], dtype=torch.float32)
        ctx.dims = _attention_dims(q, k, v, causal)
        ctx.record = record
        reads = (q, k, v) if bias is None else (q, k, v, bias)
        record(Work(Kind.ATTENTION, Direction.FORWARD, ctx.dims, reads, (out, logsumexp)), SDPA)
        ctx.save_for_backward(q, k, v, bias, out, logsumexp)
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        q, k, v, bias, out, logsumexp = ctx.saved_tensors
        grads = [_heads_last(t.shape, t) for t in (q, k, v)]
        needs_bias = bias is not None and ctx.needs_input_grad[3]
        grads.append(torch.empty_like(bias) if needs_bias else None)
        made = tuple(g for g in grads if g is not None)
        reads = tuple(t for t in (grad, q, k, v, bias, out, logsumexp) if t is not None)
        ctx.record(Work(Kind.ATTENTION, Direction.BACKWARD, ctx.dims, reads, made), SDPA + "_backward")
        return *grads, None, None


def _attention_dims(q: Any, k: Any, v: Any, causal: float) -> tuple[float, ...]:
    return (
        float(q.shape[0]), float(q.shape[1]), float(k.shape[1]), float(q.shape[2]),
        float(k.shape[2]), float(q.shape[3]), float(v.shape[3]), float(causal),
    )  # fmt: skip


class Ctc(torch.autograd.Function):
    """Forward variables over (batch, steps, 2 targets + 1), kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, log_probs: Any, targets: Any, per_target: int, record: Record) -> torch.Tensor:
        steps, batch = log_probs.shape[:2]
        losses = log_probs.new_empty(batch)
        alpha = log_probs.new_empty(batch, steps, 2 * per_target + 1)
        ctx.dims = (float(batch * (2 * per_target + 1)), float(steps))
        record(
            Work(Kind.REDUCTION, Direction.FORWARD, ctx.dims, (log_probs, targets), (losses, alpha)),
            "_ctc_loss",
        )
        ctx.save_for_backward(log_probs, targets, losses, alpha)
        ctx.record = record
        return losses

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        kept = ctx.saved_tensors
        made = torch.empty_like(kept[0])
        work = Work(Kind.REDUCTION, Direction.FORWARD, ctx.dims, (grad, *kept), (made,))
        ctx.record(work, "_ctc_loss_backward")
        return made, None, None, None


class RmsNorm(torch.autograd.Function):
    """Root-mean-square normalisation that keeps one number per row."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, width: int, record: Record) -> torch.Tensor:
        out = torch.empty_like(x)
        spread = x.new_empty(x.numel() // max(width, 1), dtype=torch.float32)
        ctx.dims, ctx.record = (float(spread.numel()), float(width)), record
        reads = tuple(t for t in (x, weight) if t is not None)
        record(Work(Kind.NORMALISATION, Direction.FORWARD, ctx.dims, reads, (out, spread)), "_fused_rms_norm")
        ctx.save_for_backward(x, weight, spread)
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        kept = ctx.saved_tensors
        made = tuple(
            torch.empty_like(t) if n else None for t, n in zip(kept, ctx.needs_input_grad, strict=False)
        )
        reads, writes = (tuple(t for t in ts if t is not None) for ts in ((grad, *kept), made[:2]))
        work = Work(Kind.NORMALISATION, Direction.BACKWARD, ctx.dims, reads, writes)
        ctx.record(work, "_fused_rms_norm_backward")
        return *made[:2], None, None


class GroupedProduct(torch.autograd.Function):
    """One matrix product per expert, of the rows that fall to it: an even share each."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, record: Record) -> torch.Tensor:
        experts, inner, width = weight.shape
        share = x.shape[0] / experts
        out = x.new_empty(x.shape[0], width)
        record(_product((experts, share, width, inner), (x, weight), out), GROUPED)
        ctx.save_for_backward(x, weight)
        ctx.record = record
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        experts, inner, width = weight.shape
        share = x.shape[0] / experts
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = torch.empty_like(x)
            ctx.record(_product((experts, share, inner, width), (grad, weight), dx), GROUPED)
        if ctx.needs_input_grad[1]:
            dw = torch.empty_like(weight)
            ctx.record(_product((experts, inner, width, share), (x, grad), dw), GROUPED)
        return dx, dw, None


def _product(dims: tuple[float, ...], reads: tuple[Any, ...], out: Any) -> Work:
    return Work(Kind.GEMM, Direction.FORWARD, tuple(map(float, dims)), reads, (out,))


class Recurrent(torch.autograd.Function):
    """All layers and steps of cuDNN's recurrent networks; keeps its reserve space."""

    @staticmethod
    def forward(ctx: Any, record: Record, plan: tuple[Any, ...], x: Any, *tensors: Any) -> Any:
        name, num_states, dims, out_shape, reserve = plan
        states, weights = tensors[:num_states], tensors[num_states:]
        out = x.new_empty(out_shape)
        finals = tuple(s.new_empty(s.shape, dtype=x.dtype) for s in states)
        kept = x.new_empty(reserve) if any(ctx.needs_input_grad) else None
        made = (out, *finals) if kept is None else (out, *finals, kept)
        record(Work(Kind.RECURRENT, Direction.FORWARD, dims, (x, *states, *weights), made), name)
        ctx.save_for_backward(x, out, kept, *tensors)
        ctx.plan, ctx.record = plan, record
        return out, *finals

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, out, kept, *tensors = ctx.saved_tensors
        inputs = (x, *tensors)
        wanted = ctx.needs_input_grad[2:]
        made = tuple(torch.empty_like(t) if w else None for t, w in zip(inputs, wanted, strict=True))
        reads = tuple(t for t in (*grads, *inputs, out, kept) if t is not None)
        work = Work(
            Kind.RECURRENT, Direction.BACKWARD, ctx.plan[2], reads, tuple(m for m in made if m is not None)
        )
        ctx.record(work, ctx.plan[0] + "_backward")
        return None, None, *made
