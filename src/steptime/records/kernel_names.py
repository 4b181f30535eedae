"""Which class of memory-bound kernels a row of a measured table timed, by the names that its source uses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Operators of PyTorch by name; whatever is not here goes element by element.
_OF_PYTORCH: Mapping[str, str] = MappingProxyType(
    {"ln": "normalisation", "layer_norm": "normalisation", "rms_norm": "normalisation", "softmax": "softmax",
     "embedding": "gather"}
)  # fmt: skip
# A serving engine's own kernels; its other operators are PyTorch's.
_OF_SERVING: Mapping[str, str] = MappingProxyType(
    {"rms_norm": "serving_normalisation", "gelu": "serving_activation", "rope": "serving_rotary",
     "silu_and_mul": "serving_gated_activation"}
)  # fmt: skip
_PREFIX: Mapping[str, str] = MappingProxyType({"torch_compile": "compiled_", "cudnn": "library_"})


def kernel_class(operator: str, *, provider: str = "pytorch", backward: bool = False) -> str:
    """Return the class of kernels, a key of the fitted sets of memory_bound.

    Parameters
    ----------
    operator : str
        As the table calls it: add, softmax, rope, ...
    provider : str
        Whose kernel ran: pytorch, torch_compile, cudnn, or a serving engine (its name holds "vllm").
    backward : bool
        Whether it was the backward pass.

    Examples
    --------
    >>> kernel_class("ln"), kernel_class("rope", provider="vllm/sarathi kernel"), kernel_class("tanh")
    ('normalisation', 'serving_rotary', 'elementwise')
    >>> kernel_class("rms_norm", provider="torch_compile", backward=True)
    'compiled_normalisation_backward'
    """
    if "vllm" in provider and operator in _OF_SERVING:
        return _OF_SERVING[operator]
    plain = _OF_PYTORCH.get(operator, "elementwise")
    if plain != "normalisation":
        return plain
    return f"{_PREFIX.get(provider, '')}{plain}{'_backward' if backward else ''}"
