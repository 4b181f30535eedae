"""A capture counts what torch's own FLOP counter counts, and every parameter."""

from __future__ import annotations

from typing import Any

import pytest

from steptime.workload.capture import CaptureRequest, capture_many
from steptime.workload.operator import Direction

pytestmark = pytest.mark.needs_torch

DENSE = (
    "torchvision/resnet18", "torchvision/resnet34", "torchvision/resnet50", "torchvision/vgg11",
    "torchvision/densenet121", "torchvision/alexnet", "torchvision/squeezenet1_1",
)  # fmt: skip
# torch's counter takes the weight gradient of a grouped convolution for that of a dense one; the products
# of a grouped gradient are those of its forward, so only the forward is held against the counter here.
GROUPED = (
    "torchvision/mobilenet_v2", "torchvision/shufflenet_v2_x1_0", "torchvision/efficientnet_b0",
    "torchvision/regnet_y_400mf", "timm/resnext50_32x4d",
)  # fmt: skip
BATCH = 2


@pytest.fixture(scope="module")
def captured() -> dict[str, Any]:
    requests = [CaptureRequest(model=m) for m in DENSE + GROUPED]
    return {r.model: w for r, w in capture_many(requests)}


def counted(name: str, *, backward: bool) -> tuple[float, int]:
    """Return torch's count of a step on real tensors, and the parameters."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from steptime.workload.capture.torchvision_schemas import declare_missing_operators

    declare_missing_operators()  # before torchvision is imported, whose build may be for another torch
    import timm
    import torchvision

    source, model_name = name.split("/")
    model = timm.create_model(model_name) if source == "timm" else torchvision.models.get_model(model_name)
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(backward):
        out = model.train()(torch.zeros(BATCH, 3, 224, 224))
        if backward:
            out.sum().backward()
    return counter.get_total_flops(), sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", DENSE + GROUPED)
def test_flops_and_parameters_are_torchs_own(captured: dict[str, Any], name: str) -> None:
    workload = captured[name]
    assert not isinstance(workload, str), workload
    whole = name in DENSE
    flops, parameters = counted(name, backward=whole)
    operators = workload.operators.at(BATCH)
    chosen = whole | (operators.direction == Direction.FORWARD) & (operators.phase == "forward")
    assert (operators.flops * operators.count)[chosen].sum() == pytest.approx(flops, rel=1e-6)
    assert workload.num_parameters == parameters
