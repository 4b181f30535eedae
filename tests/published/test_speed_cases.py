"""What people timed on one accelerator, each with its case, its source and the printed figure.

Left out: what a link or a loader decides, drivers that swap to the host's memory, autotuning switched off, and power
caps and their heat.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from published.own_models import configuration, gpt
from rooms.prediction.asking import ask
from steptime.hardware import load_catalogue


def test_accumulation_multiplies_a_step_of_gpt2() -> None:
    """U044, https://github.com/karpathy/nanoGPT/issues/110: 562 ms for 5 x 12 x 1,024 tokens on each of 8 A100.

    The share of the all-reduce is not in ours. PyTorch 2.0 was a nightly then: attention as separate products
    agrees, today's fused kernel is a quarter faster.
    """
    common = {
        "batch": 12,
        "seq_len": 1024,
        "precision": "amp-bf16",
        "mode": "compiled",
        "implementation": "fused",
    }
    five, one, fused = (
        ask("gpt2", "a100", accumulation=n, attention=attention, **common).step_time_s
        for n, attention in ((5, "eager"), (1, "eager"), (5, "sdpa"))
    )
    assert five == pytest.approx(0.562, rel=0.12)
    assert 0.1 < one < 0.15
    assert 0.6 < fused / five < 0.9


@pytest.mark.parametrize(
    ("on", "reported", "rel"), [("v100", 49.19 / 19.62, 0.1), ("a100", 24.32 / 13.26, 0.1)]
)
def test_mixed_precision_of_resnet101(on: str, reported: float, rel: float) -> None:
    """U056, https://github.com/pytorch/pytorch/issues/57806: 49.2 to 19.6 s on V100, 24.3 to 13.3 s on A100.

    The A100 ran TF32 where fp32 was asked for, as PyTorch did by default then.
    """
    plain, amp = (
        ask("resnet101", on, batch=64, precision=p, optimizer="sgd-momentum").step_time_s
        for p in ("tf32", "amp-fp16")
    )
    assert plain / amp == pytest.approx(reported, rel=rel)


@pytest.mark.parametrize("batch", [8, 16, 64])
def test_mixed_precision_gains_little_for_swin_on_an_a100(batch: int) -> None:
    """U056: Swin-B gains 1.07 on A100 (53.7 to 50.0 s) and 1.79 on V100 (120.1 to 67.2 s); the batch is not told.

    Small batches wait for the host, and autocast adds launches: no gain at all. Large ones gain what bandwidth and
    TF32 leave, 1.4; the printed figure lies between.
    """
    gains = {}
    for on in ("v100", "a100"):
        plain, amp = (
            ask("swin_base_patch4_window7_224", on, batch=batch, precision=p).step_time_s
            for p in ("tf32", "amp-fp16")
        )
        gains[on] = plain / amp
    assert 0.6 < gains["a100"] < 1.5
    assert gains["v100"] > 1.4 * gains["a100"]


def test_resnet50_on_an_a100_in_channels_last() -> None:
    """U058, https://github.com/huggingface/pytorch-image-models/issues/1491: 2,600 images/s without a data loader.

    What is missing to 1,923 with one is the decoding of pictures on ten cores, which is no part of the step.
    """
    p = ask("resnet50", "a100", batch=512, precision="amp-fp16", channels_last=True, optimizer="sgd-momentum")
    assert p.throughput_samples_per_s == pytest.approx(2600, rel=0.1)


def test_a100_is_several_cards() -> None:
    """U059, https://github.com/NVIDIA/DeepLearningExamples/issues/884: 1,734 images/s where 2,751 are published.

    The published card is the one on a board with 400 W; the other has 250. Which of them was taken is said.
    """
    taken = load_catalogue().find("a100")
    assert "A100-SXM4-80GB" in taken.note
    pcie, sxm = (
        ask("bert-large", on, batch=16, seq_len=512, precision="amp-fp16").step_time_s
        for on in ("A100-PCIe-40GB", "A100-SXM4-40GB")
    )
    assert pcie > 1.02 * sxm


def test_a_padded_vocabulary_pays(tmp_path: Path) -> None:
    """U062, https://github.com/RobertRiachi/nanoPALM/issues/6: 1.19 to 1.24 it/s with 50,304 for 50,257."""
    odd, padded = (
        ask(configuration(tmp_path, gpt(768, 12, 12, v)), "rtx 3090", batch=8, seq_len=1024, precision="amp-bf16")
        for v in (50_257, 50_304)
    )  # fmt: skip
    assert 1.02 < odd.step_time_s / padded.step_time_s < 1.1


@pytest.mark.parametrize(
    ("batch", "prompt", "output", "measured", "roofline"),
    [(256, 128, 128, 5353, 8935), (32, 128, 2048, 1518, 2797), (32, 2048, 128, 547, 789), (16, 2048, 2048, 613, 1169)],
)  # fmt: skip
def test_tokens_of_llama_7b_on_an_a100(
    batch: int, prompt: int, output: int, measured: float, roofline: float
) -> None:
    """U064, https://github.com/hahnyuan/LLM-Viewer/issues/4: four settings under TensorRT-LLM, and a roofline.

    Ours are PyTorch's kernels in a graph. An engine merges more of them: it may be a fifth faster, never slower.
    """
    common = {"batch": batch, "precision": "fp16", "mode": "cuda-graph"}
    first = ask("llama-2-7b", "a100 80gb", task="prefill", seq_len=prompt, **common).step_time_s
    middle = ask("llama-2-7b", "a100 80gb", task="decode", context_len=prompt + output // 2, **common)
    ours = batch * output / (first + output * middle.step_time_s)
    assert 0.8 * measured < ours < 1.05 * measured
    assert ours < roofline


@pytest.mark.parametrize(("prompt", "measured_s"), [(128, 16.1e-3), (2048, 120.5e-3)])
def test_prompts_of_llama_7b_on_an_a100(prompt: int, measured_s: float) -> None:
    """U064: 16.1 and 120.5 ms, where a roofline says 7.0 and 100.9."""
    p = ask("llama-2-7b", "a100 80gb", task="prefill", batch=1, seq_len=prompt, precision="fp16", mode="cuda-graph")  # fmt: skip
    assert p.step_time_s == pytest.approx(measured_s, rel=0.2)


def test_a_rate_that_does_not_last_is_not_promised(tmp_path: Path) -> None:
    """U065, https://github.com/stas00/ml-engineering/issues/59: 813 TFLOP/s in the best single product on an H100.

    A training step multiplies for longer than a cold chip's first milliseconds: its products stay below.
    """
    p = ask(configuration(tmp_path, gpt(8192, 2, 64, 50_304)), "h100 sxm", batch=8, seq_len=2048, precision="bf16")  # fmt: skip
    products = p.times.operators.kind == "gemm"
    rate = p.times.operators.flops[products] / p.times.device_s[products]
    assert 550e12 < rate.max() < 813e12
