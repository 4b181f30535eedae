"""Give autocast on the CPU the operator lists that it has on CUDA.

Fake tensors live on the CPU here, whose autocast keeps fewer operators in fp32 than CUDA's. The missing
ones are laid over it: torch documents the lists under "CUDA Ops that can autocast to float32".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

_TO_FP32 = [
    "acos",
    "asin",
    "cosh",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "log1p",
    "reciprocal",
    "rsqrt",
    "sinh",
    "tan",
    "softplus",
    "native_layer_norm",
    "native_group_norm",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "mse_loss",
    "logsumexp",
    "renorm",
    "soft_margin_loss",
    "binary_cross_entropy_with_logits",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
    "layer_norm",
    "group_norm",
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "cosine_similarity",
    "nll_loss",
    "nll_loss2d",
    "triplet_margin_loss",
    "prod",
    "cumprod",
    "cumsum",
    "linalg_vector_norm",
    "cdist",
    "pdist",
    "dist",
]
_TO_FP32_OVERLOADS = (
    "softmax.int", "log_softmax.int", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "sum",
    "sum.dim_IntList", "norm.Scalar", "norm.ScalarOpt_dim", "logsumexp", "_softmax", "_log_softmax",
)  # fmt: skip
_HALVES = (torch.float16, torch.bfloat16)


def _widen(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in _HALVES else value


def _in_fp32(op: Any) -> Callable[..., Any]:
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(key):
            args, kwargs = pytree.tree_map(_widen, (args, kwargs))
            return op(*args, **kwargs)

    return call


def _overload(name: str) -> Any:
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return None if packet is None else getattr(packet, overload or "default", None)


@contextmanager
def cuda_autocast(dtype: torch.dtype | None) -> Iterator[None]:
    """Autocast as CUDA would, to ``dtype``; ``None`` leaves precision alone."""
    if dtype is None:
        yield
        return
    library = torch.library.Library("aten", "IMPL")
    try:
        for name in (*_TO_FP32, *_TO_FP32_OVERLOADS):
            op = _overload(name)
            if op is not None:
                library.impl(name, _in_fp32(op), "AutocastCPU", allow_override=True)
        with torch.autocast("cpu", dtype=dtype):
            yield
    finally:
        library._destroy()
