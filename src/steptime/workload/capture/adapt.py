"""Change a module as a recipe asks: frozen parameters, adapters, recomputed blocks, another dtype."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from steptime.errors import InputError

LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "query", "key", "value", "c_attn", "qkv")
MIN_BLOCKS = 2


def freeze(module: torch.nn.Module, pattern: str) -> None:
    """Take the gradient from the parameters whose name matches a regular expression."""
    found = [p for name, p in module.named_parameters() if re.search(pattern, name)]
    if not found:
        raise InputError(f"No parameter's name matches '{pattern}', so nothing would be frozen.")
    for p in found:
        p.requires_grad_(False)


class _Lora(torch.nn.Module):
    """A frozen projection plus a low-rank trainable one."""

    def __init__(self, base: Any, rank: int) -> None:
        super().__init__()
        width_out, width_in = base.weight.shape
        if type(base).__name__ == "Conv1D":  # GPT-2 keeps its projections transposed
            width_out, width_in = width_in, width_out
        self.base = base
        self.down = torch.nn.Linear(width_in, rank, bias=False, device="meta")
        self.up = torch.nn.Linear(rank, width_out, bias=False, device="meta")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x))


def add_lora(module: torch.nn.Module, rank: int, targets: tuple[str, ...] = LORA_TARGETS) -> None:
    """Freeze everything and put low-rank adapters on the attention projections."""
    module.requires_grad_(False)
    found = 0
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if name in targets and getattr(child, "weight", None) is not None and child.weight.dim() == 2:
                setattr(parent, name, _Lora(child, rank))
                found += 1
    if not found:
        raise InputError(f"LoRA finds no attention projection (looked for {', '.join(targets)}).")
    if hasattr(module, "enable_input_require_grads"):
        module.enable_input_require_grads()


def _recomputed(call: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(call, *args, use_reentrant=False, **kwargs)

    return forward


def checkpoint_blocks(module: torch.nn.Module) -> None:
    """Recompute each block of the repeated ones: children of one class in a list or sequence."""
    found = 0
    for parent in module.modules():
        if not isinstance(parent, (torch.nn.ModuleList, torch.nn.Sequential)):
            continue
        children = list(parent.children())
        if (
            len(children) < MIN_BLOCKS
            or len({type(c) for c in children}) > 1
            or not list(children[0].children())
        ):
            continue
        for child in children:
            if not hasattr(child, "_steptime_recomputed"):
                child.forward = _recomputed(child.forward)
                child._steptime_recomputed = True
                found += 1
    if not found:
        raise InputError(
            "Activation checkpointing finds no repeated blocks in this model; wrap them in the model itself."
        )


def to_dtype(module: torch.nn.Module, precision: str) -> None:
    """Cast parameters and buffers to a 16-bit dtype."""
    module.to({"bf16": torch.bfloat16, "fp16": torch.float16}[precision])
