"""A name means what the person, the driver, the cloud or the paper that writes it means."""

from __future__ import annotations

import pytest

from steptime.errors import AmbiguousNameError, UnknownNameError
from steptime.hardware import load_catalogue

TYPED = {
    "A100-80GB": "A100-SXM4-80GB",
    "a100-80g": "A100-SXM4-80GB",
    "a100 80": "A100-SXM4-80GB",
    "a100 80 GB": "A100-SXM4-80GB",
    "a100 sxm": "A100-SXM4-80GB",
    "a100 pci-e 40gb": "A100-PCIE-40GB",
    "A100-PCIe-40GB": "A100-PCIE-40GB",
    "h100 sxm": "H100-SXM5-80GB",
    "h100sxm": "H100-SXM5-80GB",
    "H100 PCIe": "H100-PCIE-80GB",
    "h100 nvl": "H100-NVL-94GB",
    "v100-16gb": "V100-SXM2-16GB",
    "V100-32GB": "V100-SXM2-32GB",
    "rtx 3090": "RTX-3090",
    "3090": "RTX-3090",
    "3090 ti": "RTX-3090-Ti",
    "3080": "RTX-3080-10GB",
    "rtx4090": "RTX-4090",
    "GeForce-RTX-4090": "RTX-4090",
    "4080": "RTX-4080",
    "1080": "GTX-1080",
    "gtx1080ti": "GTX-1080-Ti",
    "a6000": "RTX-A6000",
    "rtx 6000 ada": "RTX-6000-Ada",
    "Quadro RTX 6000": "Quadro-RTX-6000",
    "t4 16gb": "T4",
    "l40s": "L40S",
    "l40": "L40",
    "a10": "A10",
    "a10g": "A10G",
    "mi300x": "MI300X",
    "mi250": "MI250",
    "tpu v4": "TPU-v4",
    "tpuv4": "TPU-v4",
    "v5e": "TPU-v5e",
    "trillium": "TPU-v6e",
    "gaudi 2": "Gaudi2",
    "trn1": "Trainium1",
    "TITAN X": "TITAN-X-Pascal",
}

DRIVERS = {
    "NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB",
    "NVIDIA A100 80GB PCIe": "A100-PCIE-80GB",
    "NVIDIA A100-PCIE-40GB": "A100-PCIE-40GB",
    "NVIDIA H100 80GB HBM3": "H100-SXM5-80GB",
    "NVIDIA H100 PCIe": "H100-PCIE-80GB",
    "NVIDIA H100 NVL": "H100-NVL-94GB",
    "NVIDIA H200": "H200-SXM-141GB",
    "NVIDIA GH200 480GB": "GH200-96GB",
    "NVIDIA GH200 144G HBM3e": "GH200-144GB",
    "NVIDIA B200": "B200-SXM-180GB",
    "NVIDIA B300 SXM6 AC": "B300-SXM-288GB",
    "NVIDIA L4": "L4",
    "NVIDIA A40": "A40",
    "Tesla V100-SXM2-16GB": "V100-SXM2-16GB",
    "Tesla V100S-PCIE-32GB": "V100S-PCIE-32GB",
    "Tesla P100-PCIE-16GB": "P100-PCIE-16GB",
    "Tesla T4": "T4",
    "Tesla K80": "K80",
    "NVIDIA TITAN V": "TITAN-V",
    "NVIDIA TITAN RTX": "TITAN-RTX",
    "NVIDIA TITAN X (Pascal)": "TITAN-X-Pascal",
    "GeForce GTX TITAN X": "GTX-TITAN-X",
    "NVIDIA GeForce GTX 1080 Ti": "GTX-1080-Ti",
    "GeForce RTX 2070 with Max-Q Design": "RTX-2070-MaxQ",
    "NVIDIA GeForce RTX 3080 Laptop GPU": "RTX-3080-Laptop-16GB",
    "NVIDIA GeForce RTX 4090": "RTX-4090",
    "NVIDIA RTX A6000": "RTX-A6000",
    "NVIDIA RTX 6000 Ada Generation": "RTX-6000-Ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTX-PRO-6000-Blackwell-WS",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "RTX-PRO-6000-Blackwell-MaxQ",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX-PRO-6000-Blackwell-Server",
    "AMD Instinct MI300X": "MI300X",
    "AMD Instinct MI300X OAM": "MI300X",
    "Radeon RX 6800 XT": "RX6800XT",
    "Radeon RX Vega 64": "Vega64",
    "TPU v5 lite": "TPU-v5e",
    "NVIDIA-A100-SXM4-40GB": "A100-SXM4-40GB",
    "nvidia-tesla-t4": "T4",
}

# As tables of published measurements write them.
TABLES = {
    "A100 (form factor and memory not stated by the source)": "A100-SXM4-80GB",
    "A100-40GB (form factor not stated)": "A100-SXM4-40GB",
    "A100-PCIe-40GB (250 W)": "A100-PCIE-40GB",
    "A100-PCIe-80GB (300 W)": "A100-PCIE-80GB",
    "A100-SXM4 (memory not stated)": "A100-SXM4-80GB",
    "A100-SXM4-80GB (500 W)": "A100-SXM4-80GB",
    "A100-SXM4-?GB": "A100-SXM4-80GB",
    "GB200": "GB200-186GB",
    "H100-80GB (form factor not stated)": "H100-SXM5-80GB",
    "H100-SXM5-96GB": "H100-SXM5-96GB",
    "M60 (one GPU of the two)": "M60",
    "P100-PCIe-16GB": "P100-PCIE-16GB",
    "TITAN-X-Maxwell": "GTX-TITAN-X",
    "TITAN-Xp": "TITAN-Xp",
    "V100-SXM2-16GB (300 W)": "V100-SXM2-16GB",
    "V100-SXM3-32GB (DGX-2)": "V100-SXM3-32GB",
    "RTX-3080-Laptop-16GB": "RTX-3080-Laptop-16GB",
    "Quadro-RTX-5000": "Quadro-RTX-5000",
    "Vega-FE": "Vega-FE",
    "MI60": "MI60",
}


@pytest.mark.parametrize(("name", "meant"), [*TYPED.items(), *DRIVERS.items(), *TABLES.items()])
def test_a_name_is_understood(name: str, meant: str) -> None:
    assert load_catalogue().find(name).accelerator.name == meant


def test_every_record_is_found_by_its_own_names() -> None:
    catalogue = load_catalogue()
    for a in catalogue.accelerators:
        for name in (a.name, a.name.lower(), a.name.replace("-", " "), f"{a.vendor} {a.name}", *a.aliases):
            match = catalogue.find(name)
            assert (match.accelerator.name, match.note) == (a.name, ""), name
        assert all(catalogue.find(d).accelerator.name == a.name for d in a.default_for)


@pytest.mark.parametrize(
    "family",
    [
        "a100",
        "A100",
        "h100",
        "v100",
        "p100",
        "h200",
        "b200",
        "b300",
        "gb200",
        "gh200",
        "h800",
        "a800",
        "h20",
        "mi300",
        "t4",
    ],
)
def test_a_family_is_enough_and_the_guess_is_told(family: str) -> None:
    match = load_catalogue().find(family)
    named_alone = {"t4", "h200", "b200"}  # an accelerator, or the words of a single one
    assert (
        match.note == f"'{family}' is taken as {match.accelerator.name}, its default" or family in named_alone
    )


def test_what_is_left_aside_is_told() -> None:
    match = load_catalogue().find("A100-SXM4-80GB (500 W)")
    assert match.note == "(500 W) is left aside"


def test_a_name_without_doubt_has_no_note() -> None:
    assert load_catalogue().find("NVIDIA A100-SXM4-80GB").note == ""
    assert load_catalogue().find("rtx 4090").note == ""


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("a100 pcie", ["A100-PCIE-40GB", "A100-PCIE-80GB"]),
        ("v100 pcie", ["V100-PCIE-16GB", "V100-PCIE-32GB"]),
        ("titan", ["GTX-TITAN-X", "TITAN-RTX", "TITAN-V", "TITAN-X-Pascal", "TITAN-Xp"]),
    ],
)
def test_ambiguity_is_reported_not_guessed(name: str, candidates: list[str]) -> None:
    with pytest.raises(AmbiguousNameError, match="Say which") as caught:
        load_catalogue().find(name)
    assert caught.value.candidates == candidates


def test_a_long_list_of_candidates_is_cut() -> None:
    with pytest.raises(AmbiguousNameError, match=r"and \d+ more") as caught:
        load_catalogue().find("rtx")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("h1000", "h100"),
        ("rtx 4091", "RTX-4090"),
        ("l40x", "L40"),
        ("mi3000x", "MI300X"),
        ("A100-SXM4-8GB", "A100-SXM4-80GB"),
    ],
)
def test_a_miss_suggests(name: str, suggestion: str) -> None:
    with pytest.raises(UnknownNameError, match="catalogue list") as caught:
        load_catalogue().find(name)
    assert suggestion in caught.value.suggestions


@pytest.mark.parametrize(
    "name", ["", " ", "nvidia", "ampere", "hbm3", "RTX 4090 D", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "()"]
)
def test_what_names_no_accelerator_is_no_match(name: str) -> None:
    with pytest.raises(UnknownNameError):
        load_catalogue().find(name)
