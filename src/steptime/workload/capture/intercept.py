"""Stand in for the calls that torch answers otherwise on the CPU than on CUDA: attention, dropout, recurrence."""

from __future__ import annotations

import contextvars
import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from steptime.workload.capture.single_kernels import (
    GROUPED,
    SDPA,
    Attention,
    Ctc,
    GroupedProduct,
    Record,
    Recurrent,
    RmsNorm,
)

# Keys that each query may look back at in the attention that runs now; 0 where it sees all of them.
window: contextvars.ContextVar[int] = contextvars.ContextVar("window", default=0)
WINDOWED = (
    "sliding windows are costed as a kernel that skips what lies outside (flash attention does; torch's with a "
    "mask computes every score)"
)
GROUPED_IN_HALF = (
    "experts run in autocast's dtype, as linear layers would; transformers' grouped products ignore autocast"
)


def _four_dims(t: torch.Tensor) -> torch.Tensor:
    return t[None] if t.dim() == 3 else t.flatten(0, t.dim() - 4) if t.dim() > 4 else t


def _halved(*tensors: Any) -> tuple[Any, ...]:
    """Cast to autocast's dtype where autocast is on."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    return tuple(t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in tensors)


_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


class InterceptMode(TorchFunctionMode):
    """Replace calls of attention and recurrent layers while a capture runs."""

    def __init__(self, record: Record, is_causal_mask: bool) -> None:
        super().__init__()
        self.record = record
        self.is_causal_mask = is_causal_mask
        self.notes: set[str] = set()

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Stand in for torch's functions also inside those that torch hides from modes (multi-head attention)."""
        functional = torch.nn.functional
        theirs = {name: getattr(functional, name) for name in (SDPA, "dropout")}
        functional.scaled_dot_product_attention = self._attention
        functional.dropout = functools.partial(self._dropout, theirs["dropout"])
        try:
            with self:
                yield
        finally:
            for name, function in theirs.items():
                setattr(functional, name, function)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == SDPA:
            return self._attention(*args, **kwargs)
        if name == "dropout":
            return self._dropout(func, *args, **kwargs)
        if name in _GATES:
            return self._recurrent(name, *args)
        if name == "rms_norm":
            return self._rms_norm(func, *args, **kwargs)
        if name == "ctc_loss":
            return self._ctc_loss(*args, **kwargs)
        if name in {"grouped_mm", GROUPED} and args[0].dim() == 2 and args[1].dim() == 3:
            return self._grouped(args[0], args[1])
        return func(*args, **kwargs)

    def _attention(self, q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                   is_causal: bool = False, scale: Any = None, enable_gqa: bool = False) -> torch.Tensor:  # fmt: skip
        del scale, enable_gqa
        q, k, v = _halved(q, k, v)
        if dropout_p > 0:
            self.notes.add("attention dropout runs inside the attention kernel and is not costed apart")
        causal: float = float(is_causal)
        if attn_mask is not None and self.is_causal_mask and attn_mask.shape[-2] == q.shape[-2] > 1:
            causal, attn_mask = 1.0, None
            self.notes.add("the materialised causal mask is taken as is_causal, as on a GPU")
        if 0 < window.get() < k.shape[-2]:
            causal, attn_mask = float(window.get()), None
            self.notes.add(WINDOWED)
        if attn_mask is not None and attn_mask.dtype != torch.bool and attn_mask.requires_grad:
            (attn_mask,) = _halved(attn_mask)
        lead = q.shape[:-2]
        shaped = tuple(_four_dims(t) for t in (q, k, v))
        out = Attention.apply(*shaped, attn_mask, causal, self.record)
        return out.view(*lead, *out.shape[-2:]) if len(lead) != 2 else out

    def _dropout(self, func: Any, input: Any, p: float = 0.5, training: bool = True,
                 inplace: bool = False, **other: Any) -> Any:  # fmt: skip
        """Run the one kernel with a mask of bytes that CUDA runs, where the CPU draws floats and multiplies."""
        training = other.pop("train", training)
        if inplace or other or not training or not 0 < p < 1:
            return func(input, p, training, **({"inplace": True} if inplace else {}), **other)
        return torch.native_dropout(input, p, True)[0]

    def _rms_norm(
        self, func: Any, input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None
    ) -> Any:
        """Run CUDA's one kernel, in fp32 under autocast; the CPU takes it apart."""
        if torch.is_autocast_enabled("cpu"):
            input, weight = (t if t is None else t.float() for t in (input, weight))
        if weight is not None and weight.dtype != input.dtype:
            return func(input, normalized_shape, weight, eps)
        return RmsNorm.apply(input, weight, math.prod(normalized_shape), self.record)

    def _ctc_loss(self, log_probs: Any, targets: Any, *_lengths: Any, reduction: str = "mean",
                  **_options: Any) -> torch.Tensor:  # fmt: skip
        """Take every sequence at its full length: how long it is stands in the data."""
        batched = log_probs if log_probs.dim() > 2 else log_probs[:, None]
        per_target = targets.shape[-1] if targets.dim() > 1 else targets.numel() // batched.shape[1]
        self.notes.add("connectionist temporal classification is costed at full lengths")
        losses: torch.Tensor = Ctc.apply(batched, targets, per_target, self.record)
        return {"mean": losses.mean, "sum": losses.sum, "none": lambda: losses}[reduction]()

    def _grouped(self, x: Any, weight: Any) -> torch.Tensor:
        if torch.is_autocast_enabled("cpu"):
            x, weight = _halved(x, weight)
            self.notes.add(GROUPED_IN_HALF)
        out: torch.Tensor = GroupedProduct.apply(x, weight, self.record)
        return out

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
        out, *finals = Recurrent.apply(self.record, plan, x, *tensors)
        return out, *finals
