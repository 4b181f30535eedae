"""Build the module that a name stands for, with its inputs and its loss.

    timm/NAME   torchvision/NAME   hf/NAME or a path to config.json   file.py:factory   package.module:factory

A factory returns a module (or is one), or ``(module, make_inputs)`` where ``make_inputs(batch)`` gives a
tensor, a tuple or a dict of keyword arguments; its file may define ``loss_fn(output)``.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from steptime.errors import CaptureError, InputError, UnknownNameError
from steptime.workload.capture.request import CaptureRequest
from steptime.workload.capture.torchvision_schemas import declare_missing_operators

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Built:
    """A module ready for capture; ``make_inputs(batch)`` and ``loss_of(output)`` run on fake tensors."""

    module: torch.nn.Module
    make_inputs: Callable[[int], Inputs]
    loss_of: Callable[[Any], torch.Tensor]
    image_size: int = 0
    tokens_per_sample: int = 0
    causal_mask: bool = False
    around: Callable[[], AbstractContextManager[None]] = nullcontext  # what holds while a step is recorded
    notes: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)


def default_loss(output: Any) -> torch.Tensor:
    """Return the output's own loss, else cross-entropy of class scores, else the mean of what is there."""
    if hasattr(output, "loss") and isinstance(output.loss, torch.Tensor):
        return output.loss
    if isinstance(output, Mapping) and isinstance(output.get("loss"), torch.Tensor):
        return output["loss"]
    leaves = [t for t in torch.utils._pytree.tree_leaves(output) if isinstance(t, torch.Tensor)]
    floats = [t for t in leaves if t.is_floating_point() and t.requires_grad]
    if not floats:
        raise CaptureError(
            "The model's output has no tensor that needs a gradient, so there is no loss to train."
        )
    first = floats[0]
    if first.dim() == 2 and len(floats) == 1:
        return torch.nn.functional.cross_entropy(first, torch.empty(first.shape[0], dtype=torch.long))
    return torch.stack([t.float().mean() for t in floats]).sum()


def _on_meta(make: Callable[[], Any]) -> Any:
    """Build without memory; a model that looks at its own weights while it is built is built for real."""
    try:
        with torch.device("meta"):
            return make()
    except (NotImplementedError, RuntimeError):
        return make()


def _images(shape: tuple[int, ...]) -> Callable[[int], Inputs]:
    return lambda batch: ((torch.empty(batch, *shape),), {})


def _timm(name: str, request: CaptureRequest) -> Built:
    timm = _import("timm", "timm")
    try:
        config = timm.get_pretrained_cfg(name, allow_unregistered=True)
        known = timm.is_model(name.split(".", maxsplit=1)[0])
    except RuntimeError:
        known, config = False, None
    if not known:
        raise UnknownNameError("timm model", name, timm.list_models())
    native = config.input_size[-1] if config is not None and config.input_size else 224
    size = request.image_size or native
    resized = {} if size == native else {"img_size": size}
    timm.layers.set_fused_attn(request.attention == "sdpa")
    try:
        module = _on_meta(lambda: timm.create_model(name, pretrained=False, **resized))
    except TypeError:  # convolutional models take any size and no such argument
        module = _on_meta(lambda: timm.create_model(name, pretrained=False))
    channels = config.input_size[0] if config is not None and config.input_size else 3
    return Built(
        module=module, make_inputs=_images((channels, size, size)), loss_of=default_loss, image_size=size,
        origin={"library": f"timm {timm.__version__}"},
    )  # fmt: skip


def _torchvision(name: str, request: CaptureRequest) -> Built:
    torchvision = _import("torchvision", "torch")
    models = torchvision.models
    known = models.list_models()
    if name not in known:
        raise UnknownNameError("torchvision model", name, known)
    module = _on_meta(lambda: models.get_model(name, weights=None, **_without_pretrained_parts(name)))
    size = request.image_size or (299 if "inception" in name else 224)
    video = name in models.list_models(module=models.video)
    shape = (3, 16, 112, 112) if video else (3, size, size)

    def loss_of(output: Any) -> torch.Tensor:
        main = output["out"] if isinstance(output, dict) and "out" in output else output
        return default_loss(main[0] if isinstance(main, tuple) else main)

    return Built(
        module=module, make_inputs=_images(shape), loss_of=loss_of, image_size=shape[-1],
        origin={"library": f"torchvision {torchvision.__version__}"},
    )  # fmt: skip


def _without_pretrained_parts(name: str) -> dict[str, Any]:
    """Detectors and segmenters would load a pretrained backbone."""
    backboned = ("rcnn", "retinanet", "ssd", "fcos", "deeplab", "fcn", "lraspp")
    return {"weights_backbone": None} if any(part in name for part in backboned) else {}


def _huggingface(name: str, request: CaptureRequest) -> Built:
    from steptime.workload.capture.huggingface import build_from_config, read_config

    return build_from_config(read_config(name), request)


def _factory(name: str, request: CaptureRequest) -> Built:
    where, _, attribute = name.rpartition(":")
    if not where or not attribute:
        raise InputError(f"'{name}' names no factory: write file.py:factory or package.module:factory.")
    module_of_user = _load_user_module(where)
    if not hasattr(module_of_user, attribute):
        names = [n for n in vars(module_of_user) if not n.startswith("_")]
        raise UnknownNameError(f"name in {where}", attribute, names)
    made = getattr(module_of_user, attribute)
    if not callable(made):
        raise InputError(
            f"{name} is a {type(made).__name__}; name a torch.nn.Module or a function that makes one."
        )
    if not isinstance(made, torch.nn.Module):
        made = _on_meta(made)
    module, make = made if isinstance(made, tuple) else (made, getattr(module_of_user, "make_inputs", None))
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"{name} gives a {type(module).__name__}; a torch.nn.Module is needed.")
    return Built(
        module=module, make_inputs=_user_inputs(name, make, request),
        loss_of=getattr(module_of_user, "loss_fn", default_loss),
        image_size=request.input_shape[-1] if len(request.input_shape) > 2 else 0,
        tokens_per_sample=request.seq_len, origin={"factory": attribute},
    )  # fmt: skip


def _user_inputs(name: str, make: Any, request: CaptureRequest) -> Callable[[int], Inputs]:
    if make is None and not request.input_shape:
        raise InputError(
            f"{name} does not say what its inputs are: give one sample's shape (--input-shape 3,224,224) "
            "or define make_inputs(batch) beside it."
        )
    if make is None:
        dtype = getattr(torch, request.input_dtype)
        return lambda batch: ((torch.empty(batch, *request.input_shape, dtype=dtype),), {})

    def inputs(batch: int) -> Inputs:
        given = make(batch)
        if isinstance(given, Mapping):
            return (), dict(given)
        return (tuple(given) if isinstance(given, (tuple, list)) else (given,)), {}

    return inputs


def _load_user_module(where: str) -> Any:
    path = Path(where)
    if path.suffix == ".py":
        if not path.is_file():
            raise InputError(f"There is no file {where}.")
        sys.path.insert(0, str(path.resolve().parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    sys.path.insert(0, "")
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise InputError(f"There is no module {where}: {error}.") from None


def _import(name: str, package: str) -> Any:
    declare_missing_operators()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise InputError(f"{name} is not installed: pip install {package}.") from None


def build(request: CaptureRequest) -> Built:
    """Build what ``request.model`` names.

    Raises
    ------
    InputError
        When the name resolves to nothing that can be built.
    """
    declare_missing_operators()
    prefix, _, rest = request.model.partition("/")
    if prefix == "timm":
        return _timm(rest, request)
    if prefix == "torchvision":
        return _torchvision(rest, request)
    if prefix == "hf" or request.model.endswith(".json"):
        return _huggingface(request.model.removeprefix("hf/"), request)
    if ":" in request.model:
        return _factory(request.model, request)
    raise InputError(
        f"'{request.model}' names no model: write timm/NAME, torchvision/NAME, hf/NAME, a config.json or file.py:factory."
    )


def load_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    InputError
        When the file is no JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON: {error}.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object.")
    return content
