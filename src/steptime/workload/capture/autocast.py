"""Give autocast on the CPU the operator lists that it has on CUDA.

Fake tensors live on the CPU here, whose autocast treats other operators than CUDA's. The differences are laid over
it: torch documents the lists under "CUDA Op-Specific Behavior"; which operators have a kernel of their own under
each is what ``torch._C._dispatch_dump_table`` says.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

_TO_FP32 = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh",
    "tan", "softplus", "native_layer_norm", "layer_norm", "group_norm", "rms_norm", "renorm", "logsumexp",
    "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "linalg_vector_norm", "linalg_matrix_norm",
    "cosine_similarity", "pdist", "dist", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
)  # fmt: skip
# These read 16 bits and write fp32 in one kernel: autocast only sets their output's dtype.
_OUT_FP32 = (
    "softmax.int", "log_softmax.int", "sum", "sum.dim_IntList", "cumsum", "cumprod", "prod", "prod.dim_int",
)  # fmt: skip
_TO_HALF = (
    "mv", "addmv", "addr", "chain_matmul", "linalg_multi_dot", "lstm_cell", "gru_cell", "rnn_tanh_cell",
    "rnn_relu_cell",
)  # fmt: skip
_TO_WIDEST = (
    "index_put",
    "scatter_add",
    "dot",
    "vdot",
    "bilinear",
    "cross",
    "tensordot",
    "addcmul",
    "addcdiv",
)
# The CPU's autocast changes these, CUDA's leaves them alone.
_AS_THEY_COME = (
    "avg_pool3d", "max_pool3d", "adaptive_avg_pool3d", "adaptive_max_pool3d", "fractional_max_pool2d",
    "fractional_max_pool3d", "max_unpool2d", "max_unpool3d", "reflection_pad1d", "reflection_pad2d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "cat", "stack", "index_copy", "grid_sampler_2d",
    "grid_sampler_3d", "trace", "polar", "view_as_complex",
)  # fmt: skip
_HALVES = (torch.float16, torch.bfloat16)
_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _HALVES


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _cast(dtype: torch.dtype, tree: Any) -> Any:
    return pytree.tree_map(lambda v: v.to(dtype) if _is_float(v) else v, tree)


def _in_fp32(op: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            args, kwargs = pytree.tree_map(lambda v: v.float() if _is_half(v) else v, (args, kwargs))
            return op(*args, **kwargs)

    return call


def _in_half(op: Any, dtype: torch.dtype) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            args, kwargs = _cast(dtype, (args, kwargs))
            return op(*args, **kwargs)

    return call


def _in_widest(op: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            dtypes = {t.dtype for t in pytree.tree_leaves((args, kwargs)) if _is_float(t)}
            if len(dtypes) > 1 and torch.float32 in dtypes:
                args, kwargs = _cast(torch.float32, (args, kwargs))
            return op(*args, **kwargs)

    return call


def _out_fp32(op: Any, name: str) -> Callable[..., Any]:
    fused = {"softmax.int": torch.ops.aten._softmax, "log_softmax.int": torch.ops.aten._log_softmax}.get(name)

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            chosen = kwargs.get("dtype") is not None or any(isinstance(a, torch.dtype) for a in args)
            if not _is_half(x) or chosen:
                return op(x, *args, **kwargs)
            if fused is not None and x.dtype == torch.float16:  # CUDA has this kernel for fp16 alone
                return fused(x, args[0] if args else kwargs["dim"], True)
            return op(x, *args[:2], **{**kwargs, "dtype": torch.float32})

    return call


def _overload(name: str) -> Any:
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return None if packet is None else getattr(packet, overload or "default", None)


@contextmanager
def cuda_rules(dtype: torch.dtype | None) -> Iterator[None]:
    """Make autocast to ``dtype`` on the CPU treat operators as CUDA's does; ``None`` changes nothing.

    Holds for the whole step: what the backward pass recomputes runs under autocast again.
    """
    if dtype is None:
        yield
        return
    wrappers: list[tuple[tuple[str, ...], Callable[[Any, str], Any]]] = [
        (_TO_FP32, lambda op, _: _in_fp32(op)),
        (_OUT_FP32, _out_fp32),
        (_TO_HALF, lambda op, _: _in_half(op, dtype)),
        (_TO_WIDEST, lambda op, _: _in_widest(op)),
        (_AS_THEY_COME, lambda _op, _: torch.library.fallthrough_kernel),
    ]
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overriding the CPU's kernels is the purpose
            for names, wrap in wrappers:
                for name in names:
                    op = _overload(name)
                    if op is not None:
                        library.impl(name, wrap(op, name), "AutocastCPU", allow_override=True)
        yield
    finally:
        library._destroy()
