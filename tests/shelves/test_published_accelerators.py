"""Facts about accelerators hold together: schema, arithmetic of peaks, ratios of dtypes, plausible ranges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from house.places import DATA
from steptime.errors import CatalogueError
from steptime.hardware import Accelerator, load_catalogue, load_links
from steptime.hardware.names import plain
from steptime.hardware.reader import accelerators_in, read_tables

FILES = sorted((DATA / "published" / "accelerators").glob("*.toml"))
EVERY = load_catalogue().accelerators

# Multiply-adds that the matrix units of one SM finish in a clock, dense, FP16 with FP16 accumulate.
FMA_PER_CLOCK = {
    "7.0": 512,
    "7.5": 512,
    "8.0": 1024,
    "8.6": 512,
    "8.9": 512,
    "9.0": 2048,
    "10.0": 4096,
    "10.3": 4096,
    "12.0": 512,
}
# The same for the vector units, FP32.
FP32_PER_CLOCK = {"3.5": 192, "3.7": 192, "5.2": 128, "6.0": 64, "6.1": 128, "7.0": 64, "7.5": 64, "8.0": 64,
                  "8.6": 128, "8.9": 128, "9.0": 128, "10.0": 128, "10.3": 128, "12.0": 128}  # fmt: skip
NO_MATRIX_UNITS = {"GTX-1650", "GTX-1660-Ti"}  # sm_75 without tensor cores
# With FP32 accumulate these run at half: GeForce, and boards cut down in the same way.
HALVED = {
    a.name
    for a in EVERY
    if a.name.startswith(("RTX-20", "RTX-30", "RTX-40", "RTX-50")) and "Ada" not in a.name
}
HALVED |= {"A10G", "L20", "L40"}
# name: printed rate over units x FMA x 2 x clock, and why it is right all the same.
FP16_EXPLAINED = {
    "H20-96GB": (None, "no honest clock: the peak equals 463 MHz"),
    "TITAN-V": (0.923, "NVIDIA prints 110, which belongs to 1343 MHz"),
    "Quadro-GV100": (0.889, "NVIDIA prints 118.5, which belongs to 1447 MHz"),
}
# The boost clock is the one behind the tensor peak; the vector peak belongs to the higher maximal clock.
FP32_AT_ANOTHER_CLOCK = {"9.0", "10.0", "10.3"}
FP32_EXPLAINED = {
    "H20-96GB": "no honest clock",
    "P4": "NVIDIA prints 5.5, which belongs to 1074 MHz",
}
INT8_EXPLAINED = {
    "B300-SXM-288GB": "cut to 153.5 TOP/s; popular tables still print 4500",
    "GB300-288GB": "cut to 165 TOP/s",
}


def tensor_ratio(a: Accelerator) -> float | None:
    """Return the printed FP16 rate over units x multiply-adds x 2 x clock; None where that says nothing."""
    per_clock = FMA_PER_CLOCK.get(a.compute_capability)
    if not (per_clock and a.num_units and a.boost_clock_hz) or a.name in NO_MATRIX_UNITS:
        return None
    return a.peak_flops_per_s["fp16"] / (a.num_units * per_clock * 2 * a.boost_clock_hz)


def faults_of_tensor_peak(a: Accelerator) -> list[str]:
    ratio = tensor_ratio(a)
    if ratio is None:
        return []
    wanted, why = FP16_EXPLAINED.get(a.name, (0.5 if a.name in HALVED else 1.0, ""))
    if wanted is None or abs(ratio / wanted - 1) < 0.021:
        return []
    return [f"{a.name}: FP16 is {ratio:.3f} of units x clock, expected {wanted} {why}"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_file_holds_what_the_schema_wants(path: Path) -> None:
    tables = read_tables(path, "accelerator")
    found = list(accelerators_in(tables, path.name))
    assert list(tables) == [a.name.lower().replace(".", "-") for a in found]
    assert len({(a.vendor, a.architecture) for a in found}) == 1, "one file per vendor and architecture"


def test_a_wrong_field_is_found(tmp_path: Path) -> None:
    path = tmp_path / "planted.toml"
    path.write_text(FILES[0].read_text(encoding="utf-8").replace("bandwidth =", "bandwith =", 1))
    with pytest.raises(CatalogueError, match=r"bandwidth|bandwith"):
        read_tables(path, "accelerator")


def test_all_the_cards_are_there() -> None:
    assert len(EVERY) >= 83
    names = [plain(a.name) for a in EVERY]
    assert len(set(names)) == len(names)


def test_dense_fp16_is_units_times_clock() -> None:
    """dense FP16 = units x multiply-adds per clock and unit x 2 x clock, within 2 %, or one half of it."""
    compared = [a for a in EVERY if tensor_ratio(a) is not None]
    assert len(compared) > 90
    faults = [fault for a in compared for fault in faults_of_tensor_peak(a)]
    assert not faults, "\n".join(faults)


def test_a_peak_with_sparsity_is_found() -> None:
    a = load_catalogue().by_name["A100-SXM4-80GB"]
    assert faults_of_tensor_peak(replace(a, peak_flops_per_s={**a.peak_flops_per_s, "fp16": 624e12}))
    assert not faults_of_tensor_peak(a)


def test_every_explanation_is_needed() -> None:
    by_name = load_catalogue().by_name
    for name, (wanted, _) in FP16_EXPLAINED.items():
        assert wanted is None or abs(wanted - 1) > 0.03, name
        assert name in by_name
    assert set(by_name) >= HALVED | set(INT8_EXPLAINED)


def test_fp32_is_units_times_clock() -> None:
    for a in EVERY:
        per_clock = FP32_PER_CLOCK.get(a.compute_capability)
        if not (per_clock and a.num_units and a.boost_clock_hz) or a.name in FP32_EXPLAINED:
            continue
        ratio = a.peak_flops_per_s["fp32"] / (a.num_units * per_clock * 2 * a.boost_clock_hz)
        most = 1.16 if a.compute_capability in FP32_AT_ANOTHER_CLOCK else 1.021
        assert 0.979 < ratio < most, f"{a.name}: {ratio:.3f}"


# (over, under, what the quotient may be, where it is something else on purpose)
RATIOS = [
    ("fp8", "bf16", (2.0,), {"Gaudi3", "TPU-v6e", "Trainium1", "Inferentia2", "Trainium2", "Trainium3"}),
    ("fp8", "fp16", (2.0,), {"Gaudi3", "Trainium1", "Inferentia2", "Trainium2", "Trainium3"}),
    ("fp4", "fp8", (2.0, 3.0, 4.0), {"Trainium3", "MI350X", "MI355X"}),
    ("bf16", "fp16", (1.0,), {"MI100", "Gaudi3"}),
    ("fp16_accumulate_fp16", "fp16", (2.0,), set()),
    ("int8", "fp16", (2.0, 4.0), {"MI100", "MI210", "MI250", "MI250X", "MI250-GCD", "MI250X-GCD"}),
    ("tf32", "fp16", (0.5,), {"Gaudi3", "Trainium1", "Inferentia2", "Trainium2", "Trainium3"}),
]  # fmt: skip


@pytest.mark.parametrize(("over", "under", "wanted", "other"), RATIOS)
def test_rates_of_dtypes_stand_in_round_ratios(
    over: str, under: str, wanted: tuple[float, ...], other: set[str]
) -> None:
    for a in EVERY:
        peaks = a.peak_flops_per_s
        has_matrix_units = a.compute_capability not in {"6.0", "6.1", "7.0"} and a.name not in other | set(
            INT8_EXPLAINED
        )
        if over in peaks and under in peaks and has_matrix_units:
            ratio = peaks[over] / peaks[under]
            assert any(abs(ratio / w - 1) < 0.03 for w in wanted), (
                f"{a.name}: {over} / {under} is {ratio:.3f}"
            )


def test_what_a_generation_cannot_do_is_absent() -> None:
    for a in EVERY:
        if a.vendor == "NVIDIA":
            capability = tuple(map(int, a.compute_capability.split(".")))
            assert ("bf16" in a.peak_flops_per_s) == (capability >= (8, 0)), a.name
            assert ("tf32" in a.peak_flops_per_s) == (capability >= (8, 0)), a.name
            assert ("fp8" in a.peak_flops_per_s) == (capability >= (8, 9)), a.name
            assert ("fp4" in a.peak_flops_per_s) == (capability >= (10, 0)), a.name


RANGES = {
    "memory_capacity_bytes": (0.8e9, 400e9),
    "memory_bandwidth_bytes_per_s": (100e9, 70e12),
    "num_units": (1, 2000),
    "boost_clock_hz": (0.6e9, 3.2e9),
    "max_clock_hz": (1e9, 3.2e9),
    "l2_bytes": (1 * 2**20, 1024 * 2**20),
    "last_level_cache_bytes": (64 * 2**20, 512 * 2**20),
    "shared_memory_per_unit_bytes": (48 * 2**10, 4096 * 2**10),
    "register_file_per_unit_bytes": (128 * 2**10, 1024 * 2**10),
    "link_bandwidth_bytes_per_s": (10e9, 2e12),
    "power_limit_w": (50, 1500),
    "year": (2013, 2026),
}


@pytest.mark.parametrize("field", RANGES)
def test_a_figure_is_plausible(field: str) -> None:
    low, high = RANGES[field]
    for a in EVERY:
        value = getattr(a, field)
        assert value is None or low <= value <= high, f"{a.name}: {field} is {value}"


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"])
def test_a_peak_is_plausible(dtype: str) -> None:
    for a in EVERY:
        peak = a.peak_flops_per_s.get(dtype, 1e12)
        assert 0.06e12 <= peak <= 20e15, f"{a.name}: {dtype} is {peak}"


def test_capacity_and_usable_memory_belong_together() -> None:
    for a in EVERY:
        share = (a.memory_usable_bytes or a.usable_memory_bytes) / (a.memory_capacity_bytes * 2**30 / 1e9)
        assert 0.92 <= share <= 1.001, f"{a.name}: {share:.3f}"


def test_the_machine_balance_is_plausible() -> None:
    """FLOPs per byte at 16 bit: a wrong prefix or a bandwidth of another card lies far outside."""
    for a in EVERY:
        peak = a.peak_flops_per_s.get("bf16", a.peak_flops_per_s.get("fp16"))
        vector_only = a.compute_capability[:1] in {"3", "5", "6"} or a.memory_capacity_bytes < 1e9
        if peak is not None and not vector_only:
            assert 15 < peak / a.memory_bandwidth_bytes_per_s < 600, a.name


def test_links_are_known() -> None:
    known = {plain(n) for link in load_links().values() for n in (link.name, *link.aliases)}
    unlisted = {a.name for a in EVERY if a.link and plain(a.link) not in known}
    assert unlisted == {
        "Gaudi-HL-205",
        "IPU-Bow",
        "IPU-GC200",
        "Inferentia2",
        "MI100",
        "MI210",
        "MI325X",
        "TPU-v2",
        "TPU-v3",
        "Trainium3",
    }


def test_defaults_are_claimed_once() -> None:
    claims = [plain(d) for a in EVERY for d in a.default_for]
    assert sorted(set(claims)) == sorted(claims)
    assert not set(claims) & {plain(n) for a in EVERY for n in (a.name, *a.aliases)}
