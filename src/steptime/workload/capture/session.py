"""Run one step of a module on fake tensors and record every kernel and every storage."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from steptime.workload.capture.autocast import cuda_rules
from steptime.workload.capture.classify import Work, base_name, work_of
from steptime.workload.capture.fake import conversions
from steptime.workload.capture.intercept import InterceptMode
from steptime.workload.capture.operator_names import NO_KERNEL
from steptime.workload.operator import Phase
from steptime.workload.trace import Event, Touch, Trace

DTYPES = {
    torch.float64: "fp64", torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16",
    torch.float8_e4m3fn: "fp8", torch.float8_e5m2: "fp8", torch.int8: "int8", torch.complex64: "fp32",
}  # fmt: skip
_DEVICE = torch.ops.prim.device.default
# In-place operators that overwrite their target without reading it.
_OVERWRITES = frozenset(
    ["copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_", "exponential_"]
)


def dtype_of(tensors: tuple[Any, ...]) -> str:
    """Name the dtype in which an operator computes: that of its largest floating tensor."""
    floating = [t for t in tensors if t.dtype in DTYPES]
    return DTYPES[max(floating, key=lambda t: t.numel()).dtype] if floating else "int"


def _distinct_bytes(t: torch.Tensor) -> int:
    """Bytes behind a tensor, an expanded dimension counted once."""
    elements = 1
    for size, stride in zip(t.shape, t.stride(), strict=True):
        elements *= size if stride != 0 else min(size, 1)
    return int(elements * t.element_size())


class Recorder(TorchDispatchMode):
    """Write each dispatcher call of a step into a trace."""

    def __init__(self, names: dict[int, str]) -> None:
        super().__init__()
        self.trace = Trace()
        self.phase = Phase.FORWARD
        self.unknown: set[str] = set()
        self._known: dict[int, int] = {}  # storage handle -> identifier in the trace
        self._finalizers: list[Any] = []
        self._modules: list[str] = []
        self._names = names
        self._parameters: set[int] = set()

    # ---- storages

    def track(self, t: torch.Tensor, role: str, module: str = "", *, before: bool = False) -> int:
        """Return the identifier of a tensor's storage, registering it when it is new."""
        storage = t.untyped_storage()
        handle = storage._cdata
        if handle not in self._known:
            number = self.trace.allocate(storage.nbytes(), role, module, before=before)
            self._known[handle] = number
            if role in {"parameter", "buffer"}:
                self._parameters.add(number)
            finalizer = weakref.finalize(storage, self._died, handle, number)
            finalizer.atexit = False
            self._finalizers.append(finalizer)
        return self._known[handle]

    def _died(self, handle: int, number: int) -> None:
        if self._known.get(handle) == number:
            del self._known[handle]
        self.trace.free(number)

    def stop(self) -> None:
        """Stop following storages: what lives now outlives the step."""
        for finalizer in self._finalizers:
            finalizer.detach()

    def storage_of(self, t: torch.Tensor) -> int | None:
        """Return a tensor's storage, if the step has touched it."""
        return self._known.get(t.untyped_storage()._cdata)

    # ---- modules

    def enter(self, module: Any, _args: Any) -> None:
        """Note that a module's forward begins (also when it is recomputed)."""
        self._modules.append(self._names.get(id(module), ""))

    def leave(self, *_: Any) -> None:
        """Note that a module's forward ended."""
        if self._modules:
            self._modules.pop()

    def _module_of(self, reads: tuple[Touch, ...]) -> str:
        if self._modules:
            return self._modules[-1]
        owners = [self.trace.storages[t.storage] for t in reads]
        owned = [s for s in owners if s.role == "parameter"] or [s for s in owners if s.module]
        return owned[0].module if owned else ""

    # ---- operators

    def _touch(self, t: torch.Tensor, role: str = "temporary") -> Touch:
        number = self.track(t, role, self._modules[-1] if self._modules else "")
        return Touch(number, min(_distinct_bytes(t), max(self.trace.storages[number].size_bytes, 1)))

    def record(self, work: Work, name: str) -> None:
        """Append one kernel to the trace."""
        reads = tuple(self._touch(t) for t in work.reads if t.numel())
        casts = name == "_to_copy" and any(t.storage in self._parameters for t in reads)
        writes = tuple(
            self._touch(t, "weight_cast" if casts else "temporary") for t in work.writes if t.numel()
        )
        module = self._module_of(reads)
        for t in writes:
            self.trace.storages[t.storage].module = self.trace.storages[t.storage].module or module
        self.trace.record(
            Event(
                kind=work.kind, name=work.name or name, phase=self.phase, direction=work.direction,
                dtype=dtype_of((*work.reads, *work.writes)), module=re.sub(r"\d+", "*", module),
                dims=work.dims, reads=reads, writes=writes,
                recomputed=self.phase == Phase.BACKWARD and bool(self._modules),
                shape=tuple(work.writes[0].shape) if work.writes else (),
            )
        )  # fmt: skip

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; torch's guard against it costs as much as a dispatch."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DEVICE:
            return args[0].fake_device  # the commonest call by far, and no operator
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = base_name(func)
        if name in NO_KERNEL:
            self._follow(out)
            return out
        given = _tensors((args, kwargs))
        mutated = _mutated(func, args, kwargs)
        made = [t for t in _tensors(out) if self.storage_of(t) is None]
        if not made and not mutated and not _runs_kernel(given, out):
            return out  # a view
        reads = [t for t in given if not (name in _OVERWRITES and any(t is m for m in mutated))]
        writes = made + [m for m in mutated if not any(m is w for w in made)]
        pointwise = torch.Tag.pointwise in func.tags
        works, known = work_of(func, args, reads, writes, pointwise)
        if not known:
            self.unknown.add(str(func))
        for work in works:
            self.record(work, name)
        return out

    def _follow(self, out: Any) -> None:
        for t in _tensors(out):
            self.track(t, "temporary", self._modules[-1] if self._modules else "")


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def _runs_kernel(given: list[torch.Tensor], out: Any) -> bool:
    """Tell whether a call that made no storage did more than look at one differently."""
    outs = _tensors(out)
    handles = {t.untyped_storage()._cdata for t in given}
    return bool(outs) and not all(t.untyped_storage()._cdata in handles for t in outs)


def _mutated(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            found += _tensors(value)
    return found


@contextmanager
def _hooks(recorder: Recorder) -> Iterator[None]:
    before = torch.nn.modules.module.register_module_forward_pre_hook(recorder.enter)
    after = torch.nn.modules.module.register_module_forward_hook(recorder.leave, always_call=True)
    try:
        yield
    finally:
        before.remove()
        after.remove()


def record_step(
    module: torch.nn.Module,
    make_inputs: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]],
    loss_of: Callable[[Any], torch.Tensor] | None,
    *,
    mode: FakeTensorMode,
    autocast: torch.dtype | None,
    causal_mask: bool = False,
) -> tuple[Trace, set[str], set[str]]:
    """Record a forward pass and, with a loss, the backward pass of ``module``.

    Parameters
    ----------
    module : Module
        Its parameters are fake already.
    make_inputs : callable
        Returns the positional and keyword arguments of one call; runs on fake tensors.
    loss_of : callable or None
        From the module's output to a scalar; ``None`` records an inference.

    Returns
    -------
    Trace, set of str, set of str
        The step, the operators that we do not know, and notes.
    """
    recorder = Recorder({id(m): name for name, m in module.named_modules()})
    intercept = InterceptMode(recorder.record, causal_mask)
    with ExitStack() as stack:
        stack.enter_context(mode)
        args, kwargs = make_inputs()
        _register(recorder, module, (args, kwargs))
        stack.enter_context(recorder)
        stack.enter_context(_hooks(recorder))
        stack.enter_context(intercept.everywhere())
        stack.enter_context(conversions())
        stack.enter_context(torch.set_grad_enabled(loss_of is not None))
        stack.enter_context(cuda_rules(autocast))
        with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
            out = module(*args, **kwargs)
            loss = None if loss_of is None else loss_of(out)
        del out, args, kwargs
        recorder.trace.forward_end = recorder.trace.position
        if loss is not None:
            recorder.phase = Phase.BACKWARD
            loss.backward()
            del loss
        recorder.stop()
    _settle_roles(recorder, module)
    return recorder.trace, recorder.unknown, intercept.notes


def _register(recorder: Recorder, module: torch.nn.Module, inputs: Any) -> None:
    for name, p in module.named_parameters():
        recorder.track(p, "parameter", name.rpartition(".")[0], before=True)
    for name, b in module.named_buffers():
        recorder.track(b, "buffer", name.rpartition(".")[0], before=True)
    for t in _tensors(inputs):
        recorder.track(t, "input", before=True)


def _settle_roles(recorder: Recorder, module: torch.nn.Module) -> None:
    """Name what each storage turned out to be: a gradient, or kept from forward to backward."""
    trace = recorder.trace
    for p in module.parameters():
        number = None if p.grad is None else recorder.storage_of(p.grad)
        if number is not None:
            trace.storages[number].role = "gradient"
    for s in trace.storages:
        outlives = s.death < 0 or s.death > trace.forward_end
        if s.role == "temporary" and s.birth <= trace.forward_end and outlives:
            s.role = "activation"
