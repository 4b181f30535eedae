"""What a person who knows the field checks first."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from published.own_models import configuration, gpt
from rooms.prediction.asking import ask
from steptime.errors import StepTimeError

SCHEMA = {
    "step_time_s", "step_time_low_s", "step_time_high_s", "throughput_samples_per_s", "peak_memory_allocated_bytes",
    "peak_memory_reserved_bytes", "flops", "mfu", "provenance", "fallbacks",
}  # fmt: skip


def optimizer_bytes(optimizer: str, **options: object) -> float:
    return ask("gpt2", "a100", batch=1, optimizer=optimizer, **options).memory.parts.get("optimizer", 0.0)


def test_adam_keeps_twice_what_momentum_keeps_and_sgd_nothing() -> None:
    assert optimizer_bytes("adamw") == pytest.approx(2 * optimizer_bytes("sgd-momentum"), rel=1e-6)
    assert optimizer_bytes("sgd") == 0


def test_one_picture_at_a_time_is_bound_by_the_host_and_many_are_not() -> None:
    inference = {"task": "infer", "precision": "amp-fp16"}
    assert ask("resnet50", "a100", batch=1, **inference).bound_by == "host"
    assert ask("resnet50", "a100", batch=256, **inference).bound_by != "host"


def test_tf32_changes_nothing_where_there_is_none() -> None:
    bert = {"batch": 16, "seq_len": 128}
    on_v100 = [ask("bert-large", "v100", precision=p, **bert).step_time_s for p in ("fp32", "tf32")]
    assert on_v100[0] == on_v100[1]
    on_a100 = [ask("bert-large", "a100", precision=p, **bert).step_time_s for p in ("fp32", "tf32")]
    assert on_a100[0] > 2 * on_a100[1]


def test_mixed_precision_gains_less_than_twice_on_a_memory_bound_model() -> None:
    tf32, amp = (
        ask("mobilenet_v2", "a100", batch=128, precision=p).step_time_s for p in ("tf32", "amp-fp16")
    )
    assert 1.1 < tf32 / amp < 2


def test_fp8_gains_less_than_its_peak_promises() -> None:
    bf16, fp8 = (
        ask("llama-3-8b", "h100 sxm", batch=1, precision=p, seq_len=2048).step_time_s
        for p in ("amp-bf16", "fp8")
    )
    assert 1 < bf16 / fp8 < 2


def test_tied_embeddings_are_counted_once() -> None:
    assert ask("gpt2", "a100", batch=1).num_parameters == 124_439_808


def test_macs_are_not_flops() -> None:
    """ResNet-50's 4.09 G multiply-adds per 224-pixel image are 8.18 GFLOP."""
    assert ask("resnet50", "a100", task="infer", batch=1).flops == pytest.approx(2 * 4.089e9, rel=0.001)


def test_adapters_train_only_themselves() -> None:
    whole = ask("llama-2-7b", "a100 80gb", batch=1, precision="bf16", seq_len=512)
    lora = ask("llama-2-7b", "a100 80gb", batch=1, precision="bf16", seq_len=512, lora_rank=8)
    assert lora.num_trainable_parameters < 0.01 * whole.num_trainable_parameters
    assert lora.memory.parts["optimizer"] < 0.01 * whole.memory.parts["optimizer"]
    assert lora.memory.peak_allocated_bytes < 0.5 * whole.memory.peak_allocated_bytes
    assert 0.6 < lora.flops / whole.flops < 0.75  # two thirds: weights get no gradient of their own


def test_channels_last_helps_half_precision_convolutions() -> None:
    nchw, nhwc = (
        ask("resnet50", "a100", batch=128, precision="amp-fp16", channels_last=c).step_time_s
        for c in (False, True)
    )
    assert nhwc < nchw


def test_a_wider_step_takes_longer_and_more_memory() -> None:
    steps = [ask("resnet50", "a100", batch=b, precision="amp-fp16") for b in (16, 32, 64, 128, 256)]
    for narrow, wide in itertools.pairwise(steps):
        assert narrow.step_time_s <= wide.step_time_s
        assert narrow.memory.peak_allocated_bytes < wide.memory.peak_allocated_bytes


@pytest.mark.parametrize("model", ["resnet50", "bert-large", "gpt2", "mixtral-8x7b"])
@pytest.mark.parametrize("precision", ["fp32", "amp-fp16"])
def test_a_prediction_lies_in_its_own_interval_and_says_what_machines_read(
    model: str, precision: str
) -> None:
    p = ask(model, "v100", batch=4, precision=precision)
    assert 0 < p.step_time_low_s <= p.step_time_s <= p.step_time_high_s
    assert p.forward_s + p.backward_s + p.optimizer_s == pytest.approx(p.step_time_s, rel=0.01)
    assert 0 < p.mfu <= p.hfu < 1
    assert set(json.loads(json.dumps(p.to_dict()))) >= SCHEMA


def test_a_precision_that_the_accelerator_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(StepTimeError, match=r"V100.*fp8.*fp16, fp32"):
        ask("resnet50", "v100", precision="fp8")


@pytest.mark.parametrize("on", ["v100", "a100", "h100 sxm"])
def test_a_dimension_that_is_no_multiple_of_8_loses_the_fast_path(on: str, tmp_path: Path) -> None:
    """Less work that takes longer: products of 3,071 columns for 3,072."""

    def first_product_s(inner: int) -> float:
        model = configuration(tmp_path, gpt(768, 12, 12, 50_304, n_inner=inner))
        p = ask(model, on, batch=8, seq_len=1024, precision="amp-fp16")
        o = p.times.operators
        return float(p.times.device_s[(o.kind == "gemm") & (o.dims[:, 2] == inner)][0])

    assert first_product_s(3071) > 1.2 * first_product_s(3072)


@pytest.mark.needs_torch
def test_a_frozen_backbone_has_no_backward_and_no_states() -> None:
    """Only the head of 2,049,000 parameters is trained: a forward is left, and nothing of it is kept."""
    whole, head = (
        ask("torchvision/resnet50", "a100", batch=32, precision="amp-fp16", freeze=pattern)
        for pattern in ("", "^(?!fc)")
    )
    assert head.num_parameters == whole.num_parameters
    assert head.num_trainable_parameters == 2048 * 1000 + 1000
    assert head.memory.parts["optimizer"] == 8 * head.num_trainable_parameters
    assert head.flops / whole.flops == pytest.approx(1 / 3, rel=0.03)
    assert head.memory.parts.get("activations", 0) < 0.05 * whole.memory.parts["activations"]
    assert head.step_time_s < 0.6 * whole.step_time_s


@pytest.mark.needs_torch
def test_recomputed_blocks_trade_a_third_of_time_for_most_activations() -> None:
    plain, recomputed = (
        ask("gpt2", "a100", batch=8, seq_len=1024, precision="amp-bf16", checkpointing=c) for c in ("none", "full")
    )  # fmt: skip
    assert recomputed.memory.parts["activations"] < 0.5 * plain.memory.parts["activations"]
    assert recomputed.memory.peak_allocated_bytes < 0.8 * plain.memory.peak_allocated_bytes
    assert 1.15 < recomputed.step_time_s / plain.step_time_s < 1.45
    assert recomputed.model_flops == plain.model_flops
    assert recomputed.mfu < recomputed.hfu


def test_momentum_is_one_copy_of_the_parameters() -> None:
    assert optimizer_bytes("sgd-momentum") == pytest.approx(4 * 124_439_808, rel=1e-4)


def test_a_tied_output_layer_has_work_and_no_parameters() -> None:
    """Tying removes the output layer's parameters and none of its work."""
    tied, untied = (
        ask(n, "h100 sxm", task="infer", batch=1, seq_len=256) for n in ("llama-3.2-1b", "llama-3-8b")
    )
    assert tied.num_parameters == 1_235_814_400
    head = 2 * 128_256 * 2048 * 256
    blocks = 2 * 256 * (tied.num_parameters - 128_256 * 2048)
    assert tied.flops == pytest.approx(blocks + head, rel=0.02)
    assert untied.num_parameters == 8_030_261_248
