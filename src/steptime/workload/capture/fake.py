"""Modules whose parameters are fake: shapes and dtypes without data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


def to_fake(module: torch.nn.Module, mode: FakeTensorMode) -> None:
    """Replace parameters and buffers by fake ones on the CPU, ties kept."""
    made: dict[int, Any] = {}

    def fake(t: torch.Tensor) -> Any:
        if id(t) not in made:
            meta = t.detach().to("meta")
            twin: Any = FakeTensor(mode, meta, torch.device("cpu"))
            if isinstance(t, torch.nn.Parameter):
                twin = torch.nn.Parameter(twin, requires_grad=t.requires_grad)
            made[id(t)] = twin
        return made[id(t)]

    for part in module.modules():
        _replace_tensors(part, fake)


def _replace_tensors(part: torch.nn.Module, fake: Callable[[torch.Tensor], Any]) -> None:
    """Replace one module's parameters, buffers and plain tensor attributes."""
    stores: tuple[dict[str, Any], ...] = (part._parameters, part._buffers)
    for store in stores:
        store.update({name: fake(t) for name, t in store.items() if t is not None})
    for name, value in list(vars(part).items()):
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            object.__setattr__(part, name, fake(value))


def _convert(module: torch.nn.Module, convert: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
    """Do what ``Module._apply`` does; that one swaps tensors, which fake ones do not allow."""
    for child in module.children() if recurse else ():
        child._apply(convert)
    for store in (module._parameters, module._buffers):
        for name, t in store.items():
            if t is None:
                continue
            with torch.no_grad():
                made = convert(t)
            if made is not t:
                is_parameter = isinstance(t, torch.nn.Parameter)
                store[name] = torch.nn.Parameter(made, t.requires_grad) if is_parameter else made
    return module


@contextmanager
def conversions() -> Iterator[None]:
    """Let a module convert itself (``self.head.to(dtype)``) while its parameters are fake."""
    theirs = torch.nn.Module._apply
    torch.nn.Module._apply = _convert
    try:
        yield
    finally:
        torch.nn.Module._apply = theirs
