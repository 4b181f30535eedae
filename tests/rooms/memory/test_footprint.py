"""The face of the room: a workload's peak, its parts, and whether it fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steptime.hardware import Accelerator, load_catalogue
from steptime.memory import MemoryPrediction, largest_batch_that_fits, memory_of
from steptime.memory.demands import lives_of
from steptime.workload.models import ModelRequest, load_workload
from steptime.workload.recipe import Recipe
from steptime.workload.table import Workload

BF16 = {"precision": "bf16", "batch": 2}


def card(name: str = "H100-SXM5-80GB") -> Accelerator:
    return load_catalogue().find(name).accelerator


def workload(name: str, **request: Any) -> Workload:
    return load_workload(ModelRequest(name=name, **{"task": "train", "precision": "bf16", **request}))


def memory(w: Workload, on: str = "H100-SXM5-80GB", **recipe: Any) -> MemoryPrediction:
    return memory_of(w, Recipe(**{**BF16, **recipe}), card(on))


@pytest.fixture(scope="module")
def small() -> Workload:
    return workload("gpt2", seq_len=256)


def test_parts_add_up_to_the_peak_in_each_phase(small: Workload) -> None:
    for changed in ({"batch": 1}, {"batch": 64}, {"batch": 1, "optimizer": "adamw"}):
        m = memory(small, **changed)
        assert sum(m.parts.values()) == pytest.approx(m.peak_allocated_bytes)
        assert max(m.phases.values()) == m.peak_allocated_bytes == m.phases[m.phase]


def test_modules_share_the_activations_that_they_saved(small: Workload) -> None:
    m = memory(small, batch=64)
    assert m.phase == "backward"
    assert sum(m.by_module.values()) <= m.parts["activations"] * (1 + 1e-9)
    assert any("layers" in name or name.startswith(("h.", "transformer")) for name in m.by_module)


def test_adam_doubles_what_sgd_with_momentum_keeps(small: Workload) -> None:
    sgd, adam = (memory(small, optimizer=o).parts["optimizer"] for o in ("sgd-momentum", "adamw"))
    assert adam == pytest.approx(2 * sgd)
    assert sgd == pytest.approx(2 * small.num_parameters)


def test_plain_sgd_keeps_nothing(small: Workload) -> None:
    assert "optimizer" not in memory(small, optimizer="sgd").parts


def test_tied_embeddings_are_counted_once(small: Workload) -> None:
    assert small.num_parameters == pytest.approx(124.4e6, rel=0.01)
    assert memory(small).parts["parameters"] == 2 * small.num_parameters


def test_adapters_train_without_gradients_and_states_of_the_base() -> None:
    base, lora = workload("qwen2.5-0.5b", seq_len=128), workload("qwen2.5-0.5b", seq_len=128, lora_rank=8)
    whole, adapted = (memory(w, optimizer="adamw", batch=1) for w in (base, lora))
    assert adapted.parts["optimizer"] < 0.02 * whole.parts["optimizer"]
    assert adapted.peak_allocated_bytes < 0.5 * whole.peak_allocated_bytes
    assert adapted.parts["parameters"] == pytest.approx(whole.parts["parameters"], rel=0.02)


def test_accumulation_keeps_earlier_gradients_through_the_forward_pass(small: Workload) -> None:
    one, many = (memory(small, accumulation=n, batch=8) for n in (1, 4))
    kept = many.phases["forward"] - one.phases["forward"]
    assert kept == pytest.approx(2 * small.num_parameters, rel=0.01)
    assert many.phases["optimizer"] == pytest.approx(one.phases["optimizer"], rel=1e-3)


def test_inference_keeps_neither_gradients_nor_states() -> None:
    m = memory(workload("gpt2", task="infer", seq_len=256), task="infer")
    assert set(m.phases) == {"forward"}
    assert not {"gradients", "optimizer", "optimizer_temporaries"} & set(m.parts)


def test_inputs_live_as_long_as_the_loop_holds_them(small: Workload) -> None:
    lives = lives_of(small, Recipe(**BF16))
    assert (lives.death[lives.role == "input"] == lives.num_positions).all()


def test_a_step_reserves_more_than_it_allocates(small: Workload) -> None:
    m = memory(small, batch=16)
    assert m.peak_allocated_bytes <= m.peak_reserved_bytes < 1.5 * m.peak_allocated_bytes
    assert m.device_bytes == m.peak_reserved_bytes + m.context_bytes


def test_expandable_segments_waste_less(small: Workload) -> None:
    plain, expandable = (
        memory(small, batch=16, expandable_segments=e).peak_reserved_bytes for e in (False, True)
    )
    assert expandable <= plain


def test_an_accelerator_changes_the_context_and_what_fits(small: Workload) -> None:
    large, little = (memory(small, on=name, batch=64) for name in ("H100-SXM5-80GB", "GTX-1080-Ti"))
    assert large.fits
    assert not little.fits
    assert large.context_bytes != little.context_bytes


def test_the_largest_batch_fits_and_the_next_does_not(small: Workload) -> None:
    on, recipe = card("GTX-1080-Ti"), Recipe(**BF16)
    batch = largest_batch_that_fits(small, recipe, on)
    assert batch > 1
    assert memory_of(small, replace(recipe, batch=batch), on).fits
    assert not memory_of(small, replace(recipe, batch=batch + 1), on).fits


def test_no_batch_fits_a_model_that_is_too_large() -> None:
    w = workload("llama-2-7b", seq_len=128)
    assert (
        largest_batch_that_fits(w, Recipe(precision="bf16", optimizer="adamw"), card("V100-SXM2-16GB")) == 0
    )


def test_a_tight_run_gives_cached_segments_back(small: Workload) -> None:
    recipe, on = Recipe(**BF16), card()
    m = memory_of(small, recipe, on)
    room = (m.peak_allocated_bytes + 4 * m.peak_reserved_bytes) / 5 + m.context_bytes
    tight = memory_of(small, recipe, replace(on, memory_usable_bytes=room))
    assert tight.fits
    assert tight.tight
    none = memory_of(small, recipe, replace(on, memory_usable_bytes=m.peak_allocated_bytes / 2))
    assert not none.fits


def test_a_decoder_keeps_keys_and_values() -> None:
    # Llama-2-7B: 2 x 32 layers x 4096 wide x 2 bytes = 0.524 MB a token
    prefill = memory(
        workload("llama-2-7b", task="prefill", precision="fp16", seq_len=256),
        precision="fp16",
        task="prefill",
    )
    decode = memory(
        workload("llama-2-7b", task="decode", precision="fp16", context_len=767),
        precision="fp16",
        task="decode",
    )
    a_layer = 2 * 768 * 2 * 4096 * 2
    assert prefill.parts["kv_cache"] == pytest.approx(2 * 256 * 32 * 2 * 4096 * 2)
    assert decode.parts["kv_cache"] == pytest.approx(32 * a_layer + a_layer, rel=1e-6)


def test_figures_are_plain_data(small: Workload) -> None:
    figures = memory(small).to_dict()
    assert figures["phase"] in figures["phases"]
    assert isinstance(figures["parts"]["parameters"], float)


def test_the_same_question_about_many_accelerators_is_replayed_once(small: Workload) -> None:
    from steptime.memory import footprint

    footprint._footprint.cache_clear()
    names = ("A100-SXM4-40GB", "H100-SXM5-80GB", "V100-SXM2-16GB")
    sizes = np.array([memory(small, on=name).peak_reserved_bytes for name in names])
    assert footprint._footprint.cache_info().misses == 1
    assert sizes.max() - sizes.min() < 32 * 2**20


def test_outputs_live_until_the_loop_lets_them_go() -> None:
    # BERT's scores, 512 x 30522 of fp32: loss.backward() runs while the loop holds what the model returned
    w = workload("bert-base-uncased", precision="fp32", seq_len=512)
    lives = lives_of(w, Recipe(precision="fp32", batch=1))
    scores = lives.size_bytes == 512 * 30522 * 4
    returned = scores & (lives.birth < lives.forward_end) & (lives.role == "temporary")
    assert (w.storages.death[returned] == w.forward_end).all()
    assert (lives.death[returned] == lives.num_positions).all()
