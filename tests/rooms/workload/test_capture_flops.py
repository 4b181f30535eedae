"""A capture counts what torch's own FLOP counter counts, and every parameter."""

from __future__ import annotations

from typing import Any

import pytest

from steptime.workload.capture import CaptureRequest, capture_many

pytestmark = pytest.mark.needs_torch

# Nothing here is recurrent or attends through torch's fused encoder: the counter sees no FLOPs in those.
MODELS = (
    "torchvision/resnet18", "torchvision/resnet50", "torchvision/vgg11", "torchvision/mobilenet_v2",
    "torchvision/densenet121", "torchvision/googlenet", "torchvision/shufflenet_v2_x1_0", "torchvision/alexnet",
    "torchvision/squeezenet1_1", "torchvision/efficientnet_b0", "torchvision/convnext_tiny",
    "torchvision/regnet_y_400mf", "timm/vit_tiny_patch16_224", "timm/resnext50_32x4d",
)  # fmt: skip
BATCH = 2


@pytest.fixture(scope="module")
def captured() -> dict[str, Any]:
    requests = [CaptureRequest(model=m) for m in MODELS]
    return {r.model: w for r, w in capture_many(requests)}


def counted(name: str) -> tuple[float, int]:
    """Return torch's count of one training step on fake tensors, and the parameters."""
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    from steptime.workload.capture.torchvision_schemas import declare_missing_operators

    declare_missing_operators()  # before torchvision is imported, whose build may be for another torch
    import timm
    import torchvision

    source, model_name = name.split("/")
    with FakeTensorMode():
        if source == "timm":
            model = timm.create_model(model_name)
        else:
            extra = {"init_weights": False} if model_name == "googlenet" else {}
            model = torchvision.models.get_model(model_name, **extra)
        images = torch.empty(BATCH, 3, 224, 224)
        model.train()
        with FlopCounterMode(display=False) as counter:
            out = model(images)
            outputs = [o for o in (out if isinstance(out, tuple) else (out,)) if o is not None]
            sum(o.sum() for o in outputs).backward()
    return counter.get_total_flops(), sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_flops_and_parameters_are_torchs_own(captured: dict[str, Any], name: str) -> None:
    workload = captured[name]
    assert not isinstance(workload, str), workload
    flops, parameters = counted(name)
    operators = workload.operators.at(BATCH)
    assert operators.model_flops == pytest.approx(flops, rel=1e-6)
    assert workload.num_parameters == parameters
