"""What a person who knows the field checks first."""

from __future__ import annotations

import itertools
import json

import pytest

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
