"""Record attention and recurrent layers as the single kernels that CUDA runs.

On the CPU torch picks other backends (or takes them apart); both are replaced by autograd functions that
only make outputs of the right shape and record one operator each way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from steptime.workload.capture.classify import Work
from steptime.workload.operator import Direction, Kind

Record = Callable[[Work, str], None]


def _heads_last(shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """Make what CUDA's kernels return: (batch, heads, seq, width) laid out as (batch, seq, heads, width)."""
    batch, heads, seq, width = shape
    return like.new_empty(batch, seq, heads, width).transpose(1, 2)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, bias: Any, causal: float, record: Record) -> torch.Tensor:
        out = _heads_last((*q.shape[:3], v.shape[3]), q)
        logsumexp = q.new_empty(q.shape[0], q.shape[1], q.shape[2], dtype=torch.float32)
        ctx.dims = _attention_dims(q, k, v, causal)
        ctx.record = record
        reads = (q, k, v) if bias is None else (q, k, v, bias)
        record(Work(Kind.ATTENTION, Direction.FORWARD, ctx.dims, reads, (out, logsumexp)), _SDPA)
        ctx.save_for_backward(q, k, v, bias, out, logsumexp)
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        q, k, v, bias, out, logsumexp = ctx.saved_tensors
        grads = [_heads_last(t.shape, t) for t in (q, k, v)]
        needs_bias = bias is not None and ctx.needs_input_grad[3]
        grads.append(torch.empty_like(bias) if needs_bias else None)
        made = tuple(g for g in grads if g is not None)
        reads = (grad, q, k, v, out, logsumexp)
        ctx.record(Work(Kind.ATTENTION, Direction.BACKWARD, ctx.dims, reads, made), _SDPA + "_backward")
        return *grads, None, None


_SDPA = "scaled_dot_product_attention"


def _attention_dims(q: Any, k: Any, v: Any, causal: float) -> tuple[float, ...]:
    return (
        float(q.shape[0]), float(q.shape[1]), float(k.shape[1]), float(q.shape[2]),
        float(k.shape[2]), float(q.shape[3]), float(v.shape[3]), float(causal),
    )  # fmt: skip


def _four_dims(t: torch.Tensor) -> torch.Tensor:
    return t[None] if t.dim() == 3 else t.flatten(0, t.dim() - 4) if t.dim() > 4 else t


def _halved(*tensors: Any) -> tuple[Any, ...]:
    """Cast to autocast's dtype where autocast is on."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    return tuple(t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in tensors)


class _Recurrent(torch.autograd.Function):
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


_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


class InterceptMode(TorchFunctionMode):
    """Replace calls of attention and recurrent layers while a capture runs."""

    def __init__(self, record: Record, is_causal_mask: bool) -> None:
        super().__init__()
        self.record = record
        self.is_causal_mask = is_causal_mask
        self.notes: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == _SDPA:
            return self._attention(*args, **kwargs)
        if name in _GATES:
            return self._recurrent(name, *args)
        return func(*args, **kwargs)

    def _attention(self, q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                   is_causal: bool = False, scale: Any = None, enable_gqa: bool = False) -> torch.Tensor:  # fmt: skip
        del scale, enable_gqa
        q, k, v = _halved(q, k, v)
        if dropout_p > 0:
            self.notes.add("attention dropout runs inside the attention kernel and is not costed apart")
        causal = is_causal
        if attn_mask is not None and self.is_causal_mask and attn_mask.shape[-2] == q.shape[-2] > 1:
            causal, attn_mask = True, None
            self.notes.add("the materialised causal mask is taken as is_causal, as on a GPU")
        if attn_mask is not None and attn_mask.dtype != torch.bool and attn_mask.requires_grad:
            (attn_mask,) = _halved(attn_mask)
        lead = q.shape[:-2]
        shaped = tuple(_four_dims(t) for t in (q, k, v))
        out = _Attention.apply(*shaped, attn_mask, float(causal), self.record)
        return out.view(*lead, *out.shape[-2:]) if len(lead) != 2 else out

    def _recurrent(self, name: str, x: Any, *rest: Any) -> Any:
        packed = isinstance(rest[0], torch.Tensor) and rest[0].dtype == torch.int64
        if packed:
            self.notes.add("packed sequences are costed at their full length")
        hx, weights = (rest[1], rest[2]) if packed else (rest[0], rest[1])
        layers, bidirectional = (rest[4], rest[7]) if packed else (rest[3], rest[6])
        batch_first = False if packed else bool(rest[7])
        states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        steps, batch = (
            (x.shape[1], x.shape[0])
            if batch_first
            else (x.shape[0], x.shape[1] if x.dim() > 2 else states[0].shape[1])
        )
        if packed:
            steps = x.shape[0] // max(states[0].shape[1], 1)
        x, *tensors = _halved(x, *states, *weights)
        directions, hidden, out_hidden = 1 + int(bidirectional), weights[1].shape[1], states[0].shape[-1]
        dims = (layers, directions, steps, batch, x.shape[-1], hidden, _GATES[name])
        reserve = layers * directions * steps * batch * hidden * (_GATES[name] + 1)
        plan = (name, len(states), tuple(map(float, dims)), (*x.shape[:-1], directions * out_hidden), reserve)
        out, *finals = _Recurrent.apply(self.record, plan, x, *tensors)
        return out, *finals
