"""A tape of symbolic tensors: operators are recorded forward, and backward in reverse, with eager lifetimes.

Tensors have a shape and a dtype and no values. A storage lives as long as a Python object holds it, as in
PyTorch: what a backward function needs is kept by its closure, everything else goes when its last name does.
"""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable, Sequence

from steptime.workload.operator import Direction, Kind, Phase
from steptime.workload.trace import Event, Touch, Trace

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int": 8, "bool": 1}
Backward = Callable[["Tensor"], Sequence["Tensor | None"]]


class _Memory:
    """A storage; it ends when nobody holds it."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, tape: Tape, size_bytes: int, role: str, *, before: bool) -> None:
        self.number = tape.trace.allocate(size_bytes, role, tape.module, before=before)
        if not before:
            finalizer = weakref.finalize(self, tape.trace.free, self.number)
            finalizer.atexit = False
            tape.finalizers.append(finalizer)


class Tensor:
    """A shape, a dtype and a storage; ``node`` made it, if it needs a gradient."""

    __slots__ = ("dtype", "memory", "node", "parameter", "shape")

    def __init__(self, shape: Sequence[int], dtype: str, memory: _Memory, *, parameter: bool = False) -> None:
        self.shape, self.dtype, self.memory = tuple(shape), dtype, memory
        self.node: _Node | None = None
        self.parameter = parameter

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def needs_grad(self) -> bool:
        """Whether a gradient flows here."""
        return self.node is not None

    def view(self, *shape: int) -> Tensor:
        """Look at the same storage in another shape; costs nothing, forward or backward."""
        twin = Tensor(shape, self.dtype, self.memory)
        twin.node = self.node
        return twin


class _Node:
    """What made a tensor: where gradients go, and how they are computed."""

    __slots__ = ("backward", "grad", "inputs", "module", "parameter", "recomputed")

    def __init__(self, backward: Backward | None, inputs: Sequence[_Node | None], module: str) -> None:
        self.backward, self.inputs, self.module = backward, inputs, module
        self.grad: Tensor | None = None
        self.parameter: Tensor | None = None


class Tape:
    """Records one step of a model."""

    def __init__(self, *, half: str | None, dtype: str, trains: bool) -> None:
        self.trace = Trace()
        self.half, self.dtype, self.trains = half, dtype, trains
        self.phase, self.module = Phase.FORWARD, ""
        self.finalizers: list[weakref.finalize[..., _Memory]] = []
        self.parameters: list[tuple[tuple[int, ...], bool, str]] = []
        self._nodes: list[_Node] = []
        self._casts: dict[int, Tensor] = {}
        self._grads: list[Tensor] = []
        self._kept: list[Tensor] = []
        self.recomputing = False

    # ---- tensors

    def make(
        self, shape: Sequence[int], dtype: str, role: str = "temporary", *, before: bool = False
    ) -> Tensor:
        """Return a new tensor."""
        return Tensor(shape, dtype, _Memory(self, math.prod(shape) * BYTES[dtype], role, before=before))

    def weight(self, *shape: int, trainable: bool = True) -> Tensor:
        """Return a parameter of the model's dtype."""
        made = self.make(shape, self.dtype, "parameter", before=True)
        made.parameter = True
        self.parameters.append((tuple(shape), trainable, self.dtype))
        if self.trains and trainable:
            made.node = _Node(None, (), self.module)
            made.node.parameter = made
            self._nodes.append(made.node)
        return made

    def keep(self, *tensors: Tensor) -> None:
        """Keep keys and values for the tokens to come, as decoders do where nothing trains."""
        for t in () if self.trains else tensors:
            self.trace.storages[t.memory.number].role = "kv_cache"
            self._kept.append(t)

    # ---- operators

    def record(self, kind: Kind, name: str, dims: Sequence[float], reads: Sequence[Tensor], writes: Sequence[Tensor],
               direction: Direction = Direction.FORWARD, read_bytes: Sequence[int] = ()) -> None:  # fmt: skip
        """Append one kernel that reads and writes whole tensors (or the bytes given)."""
        sizes = read_bytes or [t.numel * BYTES[t.dtype] for t in reads]
        floats = [t for t in (*reads, *writes) if t.dtype in {"fp32", "fp16", "bf16"}]
        dtype = max(floats, key=lambda t: t.numel).dtype if floats else "int"
        self.trace.record(
            Event(
                kind=kind, name=name, phase=self.phase, direction=direction, dtype=dtype,
                module=re.sub(r"\d+", "*", self.module),
                dims=tuple(dims), reads=tuple(Touch(t.memory.number, s) for t, s in zip(reads, sizes, strict=True)),
                writes=tuple(Touch(t.memory.number, t.numel * BYTES[t.dtype]) for t in writes),
                recomputed=self.recomputing,
            )
        )  # fmt: skip

    def attach(self, out: Tensor, inputs: Sequence[Tensor], backward: Backward) -> Tensor:
        """Say how gradients of ``out`` reach ``inputs``."""
        if self.trains and any(t.needs_grad for t in inputs):
            out.node = _Node(backward, [t.node for t in inputs], self.module)
            self._nodes.append(out.node)
        return out

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """Convert a tensor; a parameter's cast is made once a step and kept, as autocast does."""
        if x.dtype == dtype or x.dtype not in {"fp32", "fp16", "bf16"}:
            return x
        if x.parameter and x.memory.number in self._casts:
            return self._casts[x.memory.number]
        out = self.make(x.shape, dtype, "weight_cast" if x.parameter else "temporary")
        self.record(Kind.COPY, "_to_copy", (x.numel,), (x,), (out,))
        origin = x.dtype

        def backward(grad: Tensor) -> Sequence[Tensor]:
            back = self.make(grad.shape, origin)
            self.record(Kind.COPY, "_to_copy", (grad.numel,), (grad,), (back,))
            return (back,)

        self.attach(out, (x,), backward)
        if x.parameter and self.half:
            self._casts[x.memory.number] = out
        return out

    def end_forward(self) -> None:
        """Mark the end of the forward pass; autocast drops its cache here."""
        self._casts.clear()
        self.trace.forward_end = self.trace.position

    # ---- backward

    def backward(self, loss: Tensor) -> None:
        """Run every node's backward in reverse order of creation."""
        self.phase = Phase.BACKWARD
        if loss.node is None:
            return
        loss.node.grad = self.make(loss.shape, loss.dtype)
        self.record(Kind.COPY, "ones_like", (loss.numel,), (), (loss.node.grad,))
        while self._nodes:
            node = self._nodes.pop()
            if node.grad is None:
                continue
            self.module = node.module
            if node.backward is None:
                self._keep(node)
                continue
            grads = node.backward(node.grad)
            node.grad = node.backward = None  # frees what was saved
            for target, grad in zip(node.inputs, grads, strict=True):
                self._accumulate(target, grad)

    def _accumulate(self, node: _Node | None, grad: Tensor | None) -> None:
        if node is None or grad is None:
            return
        if node.grad is None:
            node.grad = grad
            return
        total = self.make(grad.shape, grad.dtype)
        self.record(Kind.ELEMENTWISE, "add", (grad.numel,), (node.grad, grad), (total,))
        node.grad = total

    def _keep(self, node: _Node) -> None:
        assert node.grad is not None
        self.trace.storages[node.grad.memory.number].role = "gradient"
        self._grads.append(node.grad)

    def finish(self) -> Trace:
        """Stop following storages and settle what each of them was."""
        for finalizer in self.finalizers:
            finalizer.detach()
        for s in self.trace.storages:
            outlives = s.death < 0 or s.death > self.trace.forward_end
            if s.role == "temporary" and s.birth <= self.trace.forward_end and outlives:
                s.role = "activation"
        return self.trace
