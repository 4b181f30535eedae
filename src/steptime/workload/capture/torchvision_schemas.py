"""Let torchvision import beside a torch that its compiled extension does not fit.

PyPI's torchvision is built for CUDA; beside a CPU build of torch its operators are missing and its import
fails, and with it that of every library that imports it when present. Declaring the two operators that the
import touches is enough: models need none of them. Box suppression itself stays unavailable.
"""

from __future__ import annotations

import importlib.util

import torch

_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_library: torch.library.Library | None = None


def declare_missing_operators() -> None:
    """Declare torchvision's operators where its extension cannot be loaded; harmless otherwise."""
    global _library  # noqa: PLW0603  # the library unregisters its schemas when it is collected
    if _library is not None or importlib.util.find_spec("torchvision") is None:
        return
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None and spec.submodule_search_locations
    if _extension_loads(next(iter(spec.submodule_search_locations))):
        return
    _library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS.values():
        _library.define(schema)


def _extension_loads(folder: str) -> bool:
    from pathlib import Path

    for path in Path(folder).glob("_C*.so"):
        try:
            torch.ops.load_library(str(path))
        except OSError:
            return False
    return True
