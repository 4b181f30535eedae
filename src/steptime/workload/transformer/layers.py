"""The operators that transformers are made of, each with its forward kernels and its backward ones."""

from __future__ import annotations

from collections.abc import Sequence

from steptime.workload.operator import Direction, Kind
from steptime.workload.transformer.tape import BYTES, Tape, Tensor


def linear(tape: Tape, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply by a weight of shape (out, in)."""
    if tape.half:
        x, weight = tape.cast(x, tape.half), tape.cast(weight, tape.half)
        bias = None if bias is None else tape.cast(bias, tape.half)
    n_out, n_in = weight.shape
    rows = x.numel // n_in
    out = tape.make((*x.shape[:-1], n_out), x.dtype)
    name = "mm" if bias is None else "addmm"
    tape.record(Kind.GEMM, name, (1, rows, n_out, n_in), (x, weight, *((bias,) if bias else ())), (out,))
    inputs = (x, weight, *((bias,) if bias else ()))
    needs = [t.needs_grad for t in inputs]
    kept_x = x if needs[1] else None
    kept_weight = weight if needs[0] else None
    shape_x, shape_w = x.shape, weight.shape

    def backward(grad: Tensor) -> Sequence[Tensor | None]:
        dx = dw = db = None
        if needs[0] and kept_weight is not None:
            dx = tape.make(shape_x, grad.dtype)
            tape.record(Kind.GEMM, "mm", (1, rows, n_in, n_out), (grad, kept_weight), (dx,))
        if needs[1] and kept_x is not None:
            dw = tape.make(shape_w, grad.dtype)
            tape.record(Kind.GEMM, "mm", (1, n_out, n_in, rows), (grad, kept_x), (dw,))
        if len(needs) == 3 and needs[2]:
            db = tape.make((n_out,), grad.dtype)
            tape.record(Kind.REDUCTION, "sum", (n_out, rows), (grad,), (db,))
        return (dx, dw) if len(needs) == 2 else (dx, dw, db)

    return tape.attach(out, inputs, backward)


def matmul(tape: Tape, a: Tensor, b: Tensor, *, shape: tuple[int, int, int, int]) -> Tensor:
    """Multiply batches of matrices: ``shape`` is (batch, m, n, k)."""
    if tape.half:
        a, b = tape.cast(a, tape.half), tape.cast(b, tape.half)
    batch, m, n, k = shape
    out = tape.make((batch, m, n), a.dtype)
    tape.record(Kind.GEMM, "bmm", shape, (a, b), (out,))
    needs = (a.needs_grad, b.needs_grad)

    def backward(grad: Tensor) -> Sequence[Tensor | None]:
        da = db = None
        if needs[1]:
            db = tape.make(b.shape, grad.dtype)
            tape.record(Kind.GEMM, "bmm", (batch, k, n, m), (a, grad), (db,))
        if needs[0]:
            da = tape.make(a.shape, grad.dtype)
            tape.record(Kind.GEMM, "bmm", (batch, m, k, n), (grad, b), (da,))
        return da, db

    return tape.attach(out, (a, b), backward)


def pointwise(tape: Tape, name: str, inputs: Sequence[Tensor], *, saves: Sequence[int] = (), save_output: bool = False,
              dtype: str | None = None, backward_kernels: int = 1, kind: Kind = Kind.ELEMENTWISE) -> Tensor:  # fmt: skip
    """Combine tensors element by element.

    ``saves`` are the inputs that the backward needs; without any, gradients pass through unchanged.
    """
    shape = max((t.shape for t in inputs), key=_numel)
    widest = (
        "fp32"
        if any(t.dtype == "fp32" and not t.parameter and t.numel > 1 for t in inputs)
        else inputs[0].dtype
    )
    out = tape.make(shape, dtype or widest)
    tape.record(kind, name, (out.numel,), inputs, (out,))
    kept = tuple(inputs[i] for i in saves) + ((out,) if save_output else ())
    shapes = [(t.shape, t.dtype, t.needs_grad) for t in inputs]
    passes = not kept and backward_kernels == 0

    def backward(grad: Tensor) -> Sequence[Tensor | None]:
        made: list[Tensor | None] = []
        for wanted, of, needed in shapes:
            if not needed:
                made.append(None)
            elif passes and wanted == grad.shape:
                made.append(tape.cast(grad, of))
            else:
                made.append(_gradient(tape, name, grad, kept, wanted, of))
        return made

    return tape.attach(out, inputs, backward)


def _numel(shape: Sequence[int]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def _gradient(
    tape: Tape, name: str, grad: Tensor, kept: Sequence[Tensor], shape: Sequence[int], dtype: str
) -> Tensor:
    """One element-wise kernel, and a sum where the input was broadcast."""
    whole = tape.make(grad.shape, dtype)
    tape.record(Kind.ELEMENTWISE, f"{name}_backward", (grad.numel,), (grad, *kept), (whole,))
    if _numel(shape) == grad.numel:
        return whole
    part = tape.make(shape, dtype)
    tape.record(Kind.REDUCTION, "sum", (part.numel, grad.numel / max(part.numel, 1)), (whole,), (part,))
    return part


def add(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    """Add; gradients pass through."""
    return pointwise(tape, "add", (a, b), backward_kernels=0)


def mul(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    """Multiply element by element; both are kept."""
    saves = [i for i, t in enumerate((b, a)) if t.needs_grad]
    return pointwise(
        tape, "mul", (a, b), saves=[1 - i for i in saves] if len(saves) == 1 else (0, 1) if saves else ()
    )


def scale(tape: Tape, x: Tensor, name: str = "mul") -> Tensor:
    """Multiply by a number; nothing is kept."""
    return pointwise(tape, name, (x,), backward_kernels=1)


def activation(tape: Tape, x: Tensor, name: str) -> Tensor:
    """Apply gelu, silu or relu; gelu_new is the chain of kernels that eager mode runs."""
    if name == "gelu_new":
        cubed = pointwise(tape, "pow", (x,), saves=(0,), dtype="fp32" if tape.half else None)
        inner = add(tape, x, scale(tape, cubed))
        squashed = pointwise(tape, "tanh", (scale(tape, inner),), save_output=True)
        return mul(tape, scale(tape, x), scale(tape, squashed, "add"))
    if name == "relu":
        return pointwise(tape, "relu", (x,), save_output=True)
    return pointwise(tape, name.split("_", maxsplit=1)[0], (x,), saves=(0,))


def dropout(tape: Tape, x: Tensor, rate: float) -> Tensor:
    """Drop elements in training; the mask is kept."""
    if not tape.trains or rate <= 0:
        return x
    out, mask = tape.make(x.shape, x.dtype), tape.make(x.shape, "bool")
    tape.record(Kind.ELEMENTWISE, "native_dropout", (x.numel,), (x,), (out, mask))

    def backward(grad: Tensor) -> Sequence[Tensor]:
        back = tape.make(grad.shape, grad.dtype)
        tape.record(Kind.ELEMENTWISE, "native_dropout_backward", (grad.numel,), (grad, mask), (back,))
        return (back,)

    return tape.attach(out, (x,), backward)


def layer_norm(tape: Tape, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Normalise rows; under autocast in fp32."""
    if tape.half:
        x = tape.cast(x, "fp32")
    width = weight.shape[0]
    rows = x.numel // width
    out = tape.make(x.shape, x.dtype)
    mean, spread = tape.make((rows,), "fp32"), tape.make((rows,), "fp32")
    affine = (weight, bias) if bias is not None else (weight,)
    tape.record(Kind.NORMALISATION, "native_layer_norm", (rows, width), (x, *affine), (out, mean, spread))

    def backward(grad: Tensor) -> Sequence[Tensor | None]:
        dx = tape.make(grad.shape, grad.dtype)
        dws = [tape.make((width,), w.dtype) for w in affine]
        tape.record(Kind.NORMALISATION, "native_layer_norm_backward", (rows, width),
                    (grad, x, mean, spread, weight), (dx, *dws), Direction.BACKWARD)  # fmt: skip
        return dx, *dws

    return tape.attach(out, (x, *affine), backward)


def rms_norm(tape: Tape, x: Tensor, weight: Tensor) -> Tensor:
    """Normalise rows by their root mean square, in the kernels that eager Hugging Face code runs."""
    origin = x.dtype
    wide = tape.cast(x, "fp32")
    rows = x.numel // weight.shape[0]
    squares = pointwise(tape, "pow", (wide,), saves=(0,))
    mean = _mean(tape, squares, rows)
    spread = pointwise(tape, "rsqrt", (scale(tape, mean, "add"),), save_output=True)
    normed = pointwise(tape, "mul", (wide, spread), saves=(0, 1))
    return mul(tape, weight, tape.cast(normed, origin))


def _mean(tape: Tape, x: Tensor, rows: int) -> Tensor:
    out = tape.make((rows, 1), x.dtype)
    tape.record(Kind.REDUCTION, "mean", (rows, x.numel / rows), (x,), (out,))
    shape, dtype = x.shape, x.dtype

    def backward(grad: Tensor) -> Sequence[Tensor]:
        back = tape.make(shape, dtype)
        tape.record(Kind.ELEMENTWISE, "div", (back.numel,), (grad,), (back,))
        return (back,)

    return tape.attach(out, (x,), backward)


def softmax(tape: Tape, x: Tensor, columns: int, name: str = "_softmax") -> Tensor:
    """Normalise rows to sums of one; in fp32 under autocast."""
    if tape.half:
        x = tape.cast(x, "fp32")
    out = tape.make(x.shape, x.dtype)
    tape.record(Kind.SOFTMAX, name, (x.numel / columns, columns), (x,), (out,))

    def backward(grad: Tensor) -> Sequence[Tensor]:
        back = tape.make(grad.shape, grad.dtype)
        tape.record(
            Kind.SOFTMAX, f"{name}_backward_data", (grad.numel / columns, columns), (grad, out), (back,)
        )
        return (back,)

    return tape.attach(out, (x,), backward)


def embedding(tape: Tape, indices: Tensor, table: Tensor) -> Tensor:
    """Look rows up."""
    width = table.shape[1]
    rows = indices.numel
    out = tape.make((*indices.shape, width), table.dtype)
    tape.record(Kind.GATHER, "embedding", (rows, width), (indices, out), (out,))
    shape = table.shape

    def backward(grad: Tensor) -> Sequence[Tensor]:
        back = tape.make(shape, grad.dtype)
        tape.record(Kind.SCATTER, "embedding_dense_backward", (rows, width), (grad, indices), (back,))
        return (back,)

    return tape.attach(out, (table,), backward)


def attention(tape: Tape, q: Tensor, k: Tensor, v: Tensor, dims: Sequence[float]) -> Tensor:
    """One fused attention; ``dims`` as in the legend of the operators."""
    if tape.half:
        q, k, v = (tape.cast(t, tape.half) for t in (q, k, v))
    batch, heads, _, seq_q, _, _, width_v, _ = (int(d) for d in dims)
    out = tape.make((batch, seq_q, heads * width_v), q.dtype)
    logsumexp = tape.make((batch, heads, seq_q), "fp32")
    name = "scaled_dot_product_attention"
    tape.record(Kind.ATTENTION, name, dims, (q, k, v), (out, logsumexp))

    def backward(grad: Tensor) -> Sequence[Tensor]:
        made = tuple(tape.make(t.shape, t.dtype) for t in (q, k, v))
        tape.record(
            Kind.ATTENTION,
            f"{name}_backward",
            dims,
            (grad, q, k, v, out, logsumexp),
            made,
            Direction.BACKWARD,
        )
        return made

    return tape.attach(out, (q, k, v), backward)


def copy(tape: Tape, x: Tensor, name: str = "clone") -> Tensor:
    """Copy to another layout; the gradient is copied back."""
    out = tape.make(x.shape, x.dtype)
    tape.record(Kind.COPY, name, (x.numel,), (x,), (out,))

    def backward(grad: Tensor) -> Sequence[Tensor]:
        back = tape.make(grad.shape, grad.dtype)
        tape.record(Kind.COPY, name, (grad.numel,), (grad,), (back,))
        return (back,)

    return tape.attach(out, (x,), backward)


def split(tape: Tape, x: Tensor, widths: Sequence[int]) -> list[Tensor]:
    """Look at parts of the last dimension; their gradients are joined by one copy."""
    parts: list[Tensor] = []
    grads: list[Tensor | None] = [None] * len(widths)
    shape, dtype, left = x.shape, x.dtype, [len(widths)]

    def part_backward(i: int) -> object:
        def backward(grad: Tensor) -> Sequence[Tensor | None]:
            grads[i] = grad
            left[0] -= 1
            if left[0]:
                return (None,)
            joined = tape.make(shape, dtype)
            tape.record(Kind.COPY, "cat", (joined.numel,), [g for g in grads if g is not None], (joined,))
            grads.clear()
            return (joined,)

        return backward

    for i, width in enumerate(widths):
        part = Tensor((*x.shape[:-1], width), x.dtype, x.memory)
        parts.append(tape.attach(part, (x,), part_backward(i)))  # type: ignore[arg-type]
    return parts


def cross_entropy(tape: Tape, logits: Tensor, targets: Tensor, *, upcast: bool) -> Tensor:
    """Loss of class scores: log-softmax and the negative log-likelihood; causal models widen the scores first."""
    classes = logits.shape[-1]
    scores = softmax(tape, tape.cast(logits, "fp32") if upcast else logits, classes, "_log_softmax")
    rows = targets.numel
    loss, weight = tape.make((1,), "fp32"), tape.make((1,), "fp32")
    tape.record(Kind.REDUCTION, "nll_loss_forward", (1, rows), (scores, targets), (loss, weight),
                read_bytes=(rows * BYTES["fp32"], rows * BYTES["int"]))  # fmt: skip
    shape, dtype = scores.shape, scores.dtype

    def backward(grad: Tensor) -> Sequence[Tensor]:
        back = tape.make(shape, dtype)
        tape.record(Kind.REDUCTION, "nll_loss_backward", (rows, classes), (grad, targets), (back,))
        return (back,)

    return tape.attach(loss, (scores,), backward)
