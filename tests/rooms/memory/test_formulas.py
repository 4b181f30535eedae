"""Formulas on arrays: they broadcast, and they are right where arithmetic tells."""

from __future__ import annotations

import numpy as np
import pytest

from steptime.memory import (
    attention_workspace_bytes,
    convolution_workspace_bytes,
    key_value_bytes,
    live_bytes,
    model_state_bytes,
    update_list_bytes,
)

LAYER = {"groups": 1, "in_height": 28, "in_width": 28, "out_height": 28, "out_width": 28, "kernel_height": 3,
         "kernel_width": 3, "stride_height": 1, "stride_width": 1, "element_bytes": 4, "channels_last": False}  # fmt: skip


def convolution(**changed: object) -> np.ndarray:
    given = {"batch": 2, "c_in": 64, "c_out": 64, "tensor_cores": True, **LAYER, **changed}
    return np.asarray(convolution_workspace_bytes(**given))  # type: ignore[arg-type]


def test_rows_lie_against_accelerators() -> None:
    cores = np.array([True, False])
    assert convolution(batch=np.array([[1], [2], [4]]), tensor_cores=cores).shape == (3, 2)


def test_tensor_cores_copy_images_that_lie_channels_first() -> None:
    images = 2 * (64 + 64) * 28 * 28
    assert float(convolution()) == 4 * (images + 64 * 64 * 9)
    assert float(convolution(channels_last=True)) == 0


def test_depthwise_convolutions_need_no_scratch() -> None:
    assert float(convolution(groups=64)) == 0
    assert float(convolution(groups=8)) > 0


def test_winograd_takes_its_domain_where_it_runs() -> None:
    images, kernels = 2 * (64 + 64) * 28 * 28, 64 * 64 * 9
    assert float(convolution(tensor_cores=False)) == 4 * (2.25 * images + 4 * kernels)
    for other in (
        {"kernel_height": 1, "kernel_width": 1},
        {"stride_height": 2, "stride_width": 2},
        {"groups": 4},
    ):
        assert float(convolution(tensor_cores=False, **other)) == 0


def test_only_the_backward_of_sixteen_bit_attention_has_scratch() -> None:
    dims = (2, 8, 8, 128, 128, 64, 64)
    scratch = attention_workspace_bytes(*dims, backward=[False, True, True], element_bytes=[2, 2, 4])
    assert scratch.tolist() == [0, 4 * 2 * 8 * 128 * 65, 0]


def test_shared_keys_are_expanded_for_their_gradients() -> None:
    own = attention_workspace_bytes(1, 32, 32, 64, 64, 128, 128, backward=True, element_bytes=2)
    shared = attention_workspace_bytes(1, 32, 8, 64, 64, 128, 128, backward=True, element_bytes=2)
    assert float(shared - own) == 2 * 32 * 64 * 256


def test_a_window_drops_old_keys() -> None:
    whole, window = key_value_bytes(1, 8, 4096, 128, 128, [1, 1024], element_bytes=2)
    assert whole == 4 * window


def test_a_storage_lives_from_its_birth_to_its_death() -> None:
    live = live_bytes([-1, 0, 2, 1], [4, 2, 3, 1], [1.0, 10.0, 100.0, 1000.0], num_positions=3)
    assert live.tolist() == [11.0, 1011.0, 101.0, 1.0]


def test_states_of_mixed_precision_are_sixteen_bytes_a_parameter() -> None:
    # U028: Llama-3.1-70B, mixed AdamW 1129 GB, pure bf16 565 GB; U040: mt5-small in fp32, 4.8 GB
    mixed = model_state_bytes(70.55e9, 70.55e9, parameter_bytes=2, gradient_bytes=2, state_bytes=12)
    pure = model_state_bytes(70.55e9, 70.55e9, parameter_bytes=2, gradient_bytes=2, state_bytes=4)
    small = model_state_bytes(300e6, 300e6, parameter_bytes=4, gradient_bytes=4, state_bytes=8)
    assert float(mixed) == pytest.approx(1129e9, rel=0.02)
    assert float(pure) == pytest.approx(565e9, rel=0.02)
    assert float(small) == pytest.approx(4.8e9)


def test_a_frozen_backbone_keeps_its_parameters_alone() -> None:
    # U034: 34.3 B parameters, 0.91 B of them trained: 64 GiB before anything is trained
    frozen = model_state_bytes(34.3e9, 0.91e9, parameter_bytes=2, gradient_bytes=0, state_bytes=0)
    assert float(frozen) / 2**30 == pytest.approx(64, rel=0.01)


def test_a_resume_that_loads_states_to_the_accelerator_holds_them_twice() -> None:
    # U043: Adam's states of GPT-Neo-1.3B, 10.5 GB
    with_states, without = model_state_bytes(
        1.316e9, 1.316e9, parameter_bytes=4, gradient_bytes=4, state_bytes=[8, 0]
    )
    assert with_states - without == pytest.approx(10.5e9, rel=0.05)


@pytest.mark.parametrize(
    ("implementation", "total"), [("foreach", 30 * 4 * 2), ("for-loop", 20 * 4 * 2), ("fused", 0)]
)
def test_lists_of_an_update(implementation: str, total: int) -> None:
    lists = update_list_bytes([20, 10], element_bytes=4, lists=2, implementation=implementation)
    assert lists.sum() == total
