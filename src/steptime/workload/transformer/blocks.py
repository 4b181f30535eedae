"""Attention and feed-forward blocks as Hugging Face writes them, in every variant that its models use."""

from __future__ import annotations

from dataclasses import dataclass

from steptime.workload.operator import Kind
from steptime.workload.transformer import layers as ops
from steptime.workload.transformer.tape import Tape, Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Sizes of one pass: samples, tokens of each, and tokens already in the KV cache."""

    batch: int
    tokens: int
    cached: int = 0
    attention: str = "sdpa"
    lora_rank: int = 0
    trains_base: bool = True

    @property
    def keys(self) -> int:
        """Keys that each query may look at."""
        return self.tokens + self.cached


def project(
    tape: Tape, x: Tensor, n_out: int, n_in: int, shape: Shape, *, bias: bool, adapted: bool = False
) -> Tensor:
    """A linear layer; with a low-rank adapter beside it where the recipe trains one."""
    base = ops.linear(
        tape, x, tape.weight(n_out, n_in, trainable=shape.trains_base),
        tape.weight(n_out, trainable=shape.trains_base) if bias else None,
    )  # fmt: skip
    if not (adapted and shape.lora_rank):
        return base
    down = ops.linear(tape, x, tape.weight(shape.lora_rank, n_in))
    return ops.add(tape, base, ops.linear(tape, down, tape.weight(n_out, shape.lora_rank)))


def norm(tape: Tape, x: Tensor, width: int, shape: Shape, *, kind: str) -> Tensor:
    """LayerNorm, or RMSNorm in the kernels of eager code."""
    weight = tape.weight(width, trainable=shape.trains_base)
    if kind == "rms":
        return ops.rms_norm(tape, x, weight)
    return ops.layer_norm(tape, x, weight, tape.weight(width, trainable=shape.trains_base))


def rotary(tape: Tape, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate positions in: two products, a negation, a concatenation and a sum."""
    half = x.numel // 2
    turned = tape.make(x.shape, x.dtype)
    flipped = tape.make((half,), x.dtype)
    tape.record(Kind.ELEMENTWISE, "neg", (half,), (flipped,), (flipped,), read_bytes=(half * 2,))
    tape.record(Kind.COPY, "cat", (x.numel,), (x,), (turned,))
    turned = _through(tape, turned, x)
    straight = ops.pointwise(tape, "mul", (x, cos))
    return ops.add(tape, straight, ops.pointwise(tape, "mul", (turned, sin)))


def _through(tape: Tape, out: Tensor, x: Tensor) -> Tensor:
    def backward(grad: Tensor) -> tuple[Tensor]:
        back = tape.make(grad.shape, grad.dtype)
        tape.record(Kind.COPY, "cat", (grad.numel,), (grad,), (back,))
        return (back,)

    return tape.attach(out, (x,), backward)


def attend(tape: Tape, q: Tensor, k: Tensor, v: Tensor, shape: Shape, *, heads: int, kv_heads: int, width: int,
           width_v: int, causal: float, keys: int | None = None, rate: float = 0.0, bias: bool = False,
           clamped: bool = False) -> Tensor:  # fmt: skip
    """Fused attention, or its eager products and softmax.

    Eager code adds a mask to the scores even where nothing is masked; ``clamped`` is OPT's maximum after it.
    """
    seq_kv = shape.keys if keys is None else keys
    if shape.attention == "sdpa" and not bias:
        dims = (shape.batch, heads, kv_heads, shape.tokens, seq_kv, width, width_v, causal)
        return ops.attention(tape, q, k, v, dims)
    return _eager(tape, q, k, v, shape, heads=heads, kv_heads=kv_heads, width=width, width_v=width_v,
                  seq_kv=seq_kv, clamped=clamped, rate=rate)  # fmt: skip


def _eager(tape: Tape, q: Tensor, k: Tensor, v: Tensor, shape: Shape, *, heads: int, kv_heads: int, width: int,
           width_v: int, seq_kv: int, clamped: bool, rate: float) -> Tensor:  # fmt: skip
    batch = shape.batch * heads
    if kv_heads < heads:  # eager code repeats shared heads
        k = ops.pointwise(tape, "repeat_kv", (k,), kind=Kind.COPY)
        v = ops.pointwise(tape, "repeat_kv", (v,), kind=Kind.COPY)
    q, k, v = (ops.copy(tape, t) for t in (q, k, v))
    scores = ops.matmul(tape, q, k, shape=(batch, shape.tokens, seq_kv, width))
    scores = ops.scale(tape, scores)
    scores = ops.add(tape, scores, tape.make((shape.tokens, seq_kv), scores.dtype))
    if clamped:
        scores = ops.pointwise(tape, "maximum", (scores,), saves=(0,))
    weights = ops.softmax(tape, scores, seq_kv)
    weights = ops.dropout(tape, weights, rate)
    mixed = ops.matmul(tape, weights, v, shape=(batch, shape.tokens, width_v, seq_kv))
    return ops.copy(tape, mixed).view(shape.batch, shape.tokens, heads * width_v)


def feed_forward(tape: Tape, x: Tensor, hidden: int, inner: int, shape: Shape, *, act: str, gated: bool,
                 bias: bool) -> Tensor:  # fmt: skip
    """Two or three products with an activation between."""
    if gated:
        gate = ops.activation(tape, project(tape, x, inner, hidden, shape, bias=bias), act)
        x = ops.mul(tape, gate, project(tape, x, inner, hidden, shape, bias=bias))
    else:
        x = ops.activation(tape, project(tape, x, inner, hidden, shape, bias=bias), act)
    return project(tape, x, hidden, inner, shape, bias=bias)
