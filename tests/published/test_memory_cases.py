"""What people measured of memory on one accelerator, each with its case, its source and the printed figure.

Left out: what several accelerators share (sharding, buckets, host memory), what a measuring command must report
(one case after another in a process), and remedies for a loss over a large vocabulary. Cases that ask the memory room
alone (a share of recomputed blocks, SimCLR, windows, dtypes of a cache) are in ``rooms/memory/test_cases.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from published.own_models import configuration
from rooms.prediction.asking import ask
from steptime.memory.facts import load_memory_facts

GB = 1e9
MIB = 2**20


@pytest.mark.parametrize(
    ("optimizer", "implementation", "measured_gb"),
    [("sgd", "foreach", 27.0), ("adamw", "for-loop", 54.0), ("adamw8bit", "foreach", 40.5), ("adamw", "foreach", 67.5)],
)  # fmt: skip
def test_llama_2_7b_in_pure_bf16(optimizer: str, implementation: str, measured_gb: float) -> None:
    """U008, https://github.com/meta-pytorch/torchtune/pull/389: 27, 54, 40.5 GB; foreach one more copy of 13.5.

    The batch is small, since the report names none; states decide.
    """
    p = ask("llama-2-7b", "a100 80gb", batch=2, precision="bf16", seq_len=512, optimizer=optimizer,
            implementation=implementation)  # fmt: skip
    assert p.memory.peak_allocated_bytes / GB == pytest.approx(measured_gb, rel=0.05)


@pytest.mark.parametrize(("precision", "states_gb"), [("amp-bf16", 1129), ("bf16", 565)])
def test_a_full_fine_tune_of_70b_is_two_answers(precision: str, states_gb: float) -> None:
    """U028, https://github.com/huggingface/blog/issues/2245: a table said 300 GB, its correction 519.

    16 bytes a parameter with fp32 weights under autocast, 8 where all is 16 bits: 1,129 or 565 GB. No 300.
    """
    parts = ask("llama-3-70b", "h200", batch=1, seq_len=512, precision=precision).memory.parts
    states = sum(parts[name] for name in ("parameters", "gradients", "optimizer"))
    assert states / GB == pytest.approx(states_gb, rel=0.005)


def test_weights_and_cache_of_an_inference_are_told_apart() -> None:
    """U029, https://github.com/huggingface/accelerate/issues/3297: an estimate for an FP8 checkpoint far from use.

    An engine fills the card with its cache on purpose; what one request needs is weights, keys and values, each in
    its dtype. Held here for 16 bits; weights that are stored in fp8 are not predicted yet (fp8 casts wider ones).
    """
    short, long = (
        ask("llama-3-8b", "h100 sxm", task="prefill", batch=1, seq_len=s, precision="bf16").memory.parts
        for s in (1024, 8192)
    )
    assert short["parameters"] == long["parameters"] == pytest.approx(16.06e9, rel=0.01)
    assert long["kv_cache"] == pytest.approx(8 * short["kv_cache"])
    assert short["kv_cache"] == pytest.approx(2 * 32 * 8 * 128 * 1024 * 2)


def test_whether_it_fits_is_one_question_with_parts() -> None:
    """U031, https://github.com/pytorch/rfcs/issues/108: out of memory after 40 steps; wants fits, total and parts.

    The step that fails is the one with the longest batch, so it is the longest that must be asked for.
    """
    first, longest = (
        ask("llama-3.2-1b", "rtx 3090", batch=4, seq_len=s, precision="bf16") for s in (256, 2048)
    )
    assert first.fits
    assert not longest.fits
    for p in (first, longest):
        assert sum(p.memory.parts.values()) == pytest.approx(p.memory.peak_allocated_bytes, rel=1e-6)


def test_what_a_1_5b_model_takes_beside_its_copies(tmp_path: Path) -> None:
    """U032, https://github.com/PrimeIntellect-ai/verifiers/issues/26: 6 GB counted, 44 GB seen.

    Two 16-bit copies are 6 GB, the optimizer 12 more; tiny prompts begin near 20 GB, activations and logits and the
    cached pool make the rest. Ours is one model with fp32 weights (6.2), their casts and gradients (6.2) instead of copies.
    """
    model = configuration(tmp_path, "qwen2.5-1.5b")
    tiny, usual = (
        ask(model, "a100 80gb", batch=b, seq_len=s, precision="amp-bf16", implementation="fused").memory
        for b, s in ((1, 128), (4, 1024))
    )
    assert tiny.parts["optimizer"] / GB == pytest.approx(12, rel=0.05)
    assert 18 < tiny.peak_allocated_bytes / GB < 27
    assert usual.peak_allocated_bytes > 1.5 * tiny.peak_allocated_bytes
    assert usual.peak_allocated_bytes < usual.peak_reserved_bytes < usual.device_bytes


def test_mt5_small_is_tight_on_8_gb(tmp_path: Path) -> None:
    """U040, https://github.com/huggingface/transformers/issues/10952: 5.5 GB on one card, no room for copies.

    300 M parameters of which 256 M are two tables of the vocabulary: states are 4.8 GB, and a copy of the
    gradients (1.2 GB), as DDP keeps, leaves nothing for activations and context.
    """
    p = ask(configuration(tmp_path, "mt5-small"), "rtx 2080", batch=1, seq_len=64, implementation="for-loop")
    parts = p.memory.parts
    assert p.num_parameters == 300_176_768
    states = sum(parts[n] for n in ("parameters", "gradients", "optimizer"))
    assert states / GB == pytest.approx(4.8, rel=0.01)
    assert p.memory.peak_allocated_bytes / GB == pytest.approx(5.5, rel=0.12)
    assert p.memory.device_bytes + parts["gradients"] > 0.9 * p.accelerator.usable_memory_bytes


@pytest.mark.needs_torch
def test_a_resume_that_loads_states_to_the_card_needs_them_twice(tmp_path: Path) -> None:
    """U043, https://github.com/huggingface/transformers/issues/22123: fits on 24 GB with < 1 GB spare, resume not.

    Adam's states of 1.316 B parameters are 10.5 GB. The trainer of that year looped over tensors by default; with
    today's multi-tensor kernels a list of 5.3 GB more would not fit in the first place.
    """
    model = configuration(tmp_path, "gpt-neo-1.3b")
    p = ask(model, "rtx 3090", batch=1, seq_len=1024, precision="fp32", implementation="for-loop")
    spare = p.accelerator.usable_memory_bytes - p.memory.device_bytes
    assert p.memory.parts["optimizer"] / GB == pytest.approx(10.5, rel=0.01)
    assert p.fits
    assert spare < 1.5 * GB
    assert spare < p.memory.parts["optimizer"]


@pytest.mark.parametrize(
    ("on", "loading", "printed_mib", "rel"),
    [("titan v", "at_once", 1006, 0.15), ("titan v", "as_used", 300, 0.5), ("rtx 3090", "as_used", 300, 0.5)],
)
def test_the_context_is_a_line_of_its_own(on: str, loading: str, printed_mib: float, rel: float) -> None:
    """U016 and U017, https://github.com/pytorch/pytorch/issues/28394 and /107667: 1,006 MiB, since 11.7 some 300 MB.

    Old cards run under either CUDA; a prediction gives them the more, which is the safe side of "does it fit".
    """
    p = ask("resnet50", on, batch=1, task="infer")
    facts = load_memory_facts()
    capability = p.accelerator.compute_capability
    context = facts.context_bytes(capability, convolutions=False, loading=loading)
    assert context / MIB == pytest.approx(printed_mib, rel=rel)
    assert p.memory.context_bytes >= context
    assert p.memory.device_bytes == p.memory.peak_reserved_bytes + p.memory.context_bytes


def test_memory_of_inference_beside_weights_is_no_constant(tmp_path: Path) -> None:
    """U026, https://github.com/llm-d/llm-d-benchmark/pull/732: a flat 5.5 GiB was 3.38 GiB wrong.

    What is neither weights nor cache goes by the tokens in flight and by the model.
    """

    def rest(model: str, seq_len: int) -> float:
        m = ask(model, "h100 sxm", task="prefill", batch=1, seq_len=seq_len, precision="bf16").memory
        return m.peak_allocated_bytes - m.parts["parameters"] - m.parts["kv_cache"]

    model = configuration(tmp_path, "mistral-small-24b")
    assert rest(model, 8192) == pytest.approx(2 * rest(model, 4096), rel=0.05)
    assert rest(model, 4096) < 5.5 * 2**30 / 2
    assert rest("llama-2-7b", 4096) != pytest.approx(rest(model, 4096), rel=0.2)


def test_a_small_efficientnet_keeps_as_much_as_resnet50() -> None:
    """U038, https://github.com/lukemelas/EfficientNet-PyTorch/issues/147: B0 takes more than ResNet-50.

    Few parameters are not little memory: depthwise stages and SiLU keep wide activations.
    """
    small, large = (
        ask(m, "a100", batch=64).memory.parts["activations"] for m in ("efficientnet_b0", "resnet50")
    )
    assert small > 0.8 * large
