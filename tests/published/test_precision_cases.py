"""What other number formats gained or cost people, each with its case, its source and the printed figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from published.own_models import module_file
from rooms.prediction.asking import ask


def test_fp8_gains_less_than_half_of_what_its_peak_promises() -> None:
    """U100, https://github.com/NVIDIA/Megatron-LM/issues/396: 0.34 to 0.24 s, 1.42 times, for 13 B on 8 H100.

    Each of the eight updates an eighth of the parameters, so ours is forward and backward alone. It is lower: every
    operand is cast in a kernel of its own here, while Transformer Engine merges casts with what comes before.
    """
    bf16, fp8 = (
        p.forward_s + p.backward_s
        for p in (
            ask("gpt3-13b", "h100 sxm", batch=4, seq_len=2048, precision=n) for n in ("amp-bf16", "fp8")
        )
    )
    assert 1.2 < bf16 / fp8 < 1.5


@pytest.mark.needs_torch
@pytest.mark.parametrize(
    ("width", "tokens", "least", "most"),
    [(1024, 1024, 0.5, 1), (1024, 10_240, 0.5, 1), (5120, 10_240, 1.1, 2)],
)
def test_fp8_pays_for_large_products_only(
    tmp_path: Path, width: int, tokens: int, least: float, most: float
) -> None:
    """U101, https://github.com/NVIDIA/TransformerEngine/issues/445: 0.28 to 2.57 ms, 1.05 to 2.65, 25.8 to 9.6.

    25.8 ms are 62 TFLOP/s, an fp32 rate: the gain of 2.7 there is not one over 16 bits. Against 16 bits small
    layers lose to launches and casts, and the large one gains.
    """
    model = f"{module_file(tmp_path)}:linear_{width}"
    fp32, bf16, fp8 = (
        ask(model, "h100 sxm", input_shape=(width,), batch=tokens, precision=p, optimizer="sgd").step_time_s
        for p in ("fp32", "amp-bf16", "fp8")
    )
    assert least < bf16 / fp8 < most
    if width == 5120:
        assert fp32 > 2.7 * fp8


@pytest.mark.needs_torch
@pytest.mark.parametrize("on", ["v100", "titan rtx"])
def test_mixed_precision_gains_nothing_for_a_tiny_network(tmp_path: Path, on: str) -> None:
    """U103, https://github.com/NVIDIA/apex/issues/297: ResNet-20 takes 21 minutes for 15, 64 pictures a card.

    Casts and launches add, and there is nothing to speed up. We have it no slower: the scaling of the loss and its
    synchronisation are not counted.
    """
    plain, amp = (
        ask(f"{module_file(tmp_path)}:resnet20", on, input_shape=(3, 32, 32), batch=64, precision=p)
        for p in ("fp32", "amp-fp16")
    )
    assert amp.bound_by == "host"
    assert plain.step_time_s / amp.step_time_s < 1.1


@pytest.mark.needs_torch
def test_a_grouped_convolution_has_no_dense_peak(tmp_path: Path) -> None:
    """U104, https://github.com/NVIDIA/apex/issues/712: four groups of 128 channels, 15 times slower in fp16 than fp32.

    That library had no kernel on tensor cores for it; later ones do. What stays true is that no group reaches the
    rate of a dense product.
    """
    file = module_file(tmp_path)
    grouped, dense = (
        ask(f"{file}:{n}", "titan rtx", input_shape=(512, 256, 256), batch=1, precision="fp16", task="infer")
        for n in ("grouped", "dense")
    )
    assert grouped.flops == dense.flops / 4
    assert grouped.mfu < 0.6 * dense.mfu


def test_fp32_and_tf32_are_two_questions() -> None:
    """U106, https://github.com/pytorch/pytorch/issues/153195: products in fp32 run at 19.5, not 156 TFLOP/s.

    PyTorch leaves TF32 off for products and on for convolutions. Both are precisions of their own here, and who asks
    for fp32 convolutions on a card that has TF32 is told.
    """
    rates = [ask("vit_base_patch16_224", "a100", batch=32, precision=p) for p in ("fp32", "tf32")]
    assert [p.peak_flops_per_s for p in rates] == [19.5e12, 156e12]
    assert [n for n in ask("resnet50", "a100").fallbacks if "allow_tf32" in n]
    assert not [n for n in ask("resnet50", "v100").fallbacks if "allow_tf32" in n]
    assert not [n for n in ask("bert-large", "a100").fallbacks if "allow_tf32" in n]


@pytest.mark.parametrize("model", ["resnet50", "vgg16", "efficientnet_b0", "vit_base_patch16_224"])
@pytest.mark.parametrize("on", ["a100", "rtx 3090", "l4", "h100 sxm", "v100"])
def test_leave_to_use_tf32_never_slows(model: str, on: str) -> None:
    """U106 and U107: leave to use TF32 adds kernels to choose from and takes none away."""
    fp32, tf32 = (ask(model, on, batch=32, task="infer", precision=p).device_s for p in ("fp32", "tf32"))
    assert tf32 <= fp32


def test_tf32_gains_only_what_is_left_in_fp32() -> None:
    """U107, https://github.com/AUTOMATIC1111/stable-diffusion-webui/issues/279: 10.5 to 12 it/s by allow_tf32.

    That program kept a part in fp32. An autocast U-Net keeps no product there, and a card whose TF32 peak is that of
    fp32 gains nothing from the switch in a job that is all fp32 either.
    """
    p = ask("stable_diffusion_unet", "rtx 3080 12gb", task="infer", batch=2, precision="amp-fp16")
    o = p.times.operators
    products = np.isin(o.kind, ("gemm", "convolution", "attention")) & (o.dtype == "fp32")
    assert (p.times.device_s * o.count)[products].sum() < 0.2 * p.device_s
    fp32, tf32 = (
        ask("stable_diffusion_unet", "rtx 3080 12gb", task="infer", batch=2, precision=n).step_time_s
        for n in ("fp32", "tf32")
    )
    assert 1 <= fp32 / tf32 < 1.2
