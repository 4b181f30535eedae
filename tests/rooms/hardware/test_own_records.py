"""Users' folders add and override records; what is wrong in a file is said with file, table and field."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steptime.errors import AmbiguousNameError, CatalogueError
from steptime.hardware import load_catalogue, load_links, user_folders
from steptime.hardware.catalogue import VARIABLE

CARD = """
[my-card]
name = "X1-64GB"
vendor = "Acme"
architecture = "One"
year = 2026
peak_dense = { fp32 = "50 TFLOP/s", bf16 = "400 TFLOP/s" }
memory = { capacity = "64 GB", bandwidth = "2 TB/s" }
source = "our own data sheet"
"""
LINK = """
[my-link]
name = "AcmeLink"
kind = "acme"
bandwidth_per_direction = "200 GB/s"
source = "our own data sheet"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def test_a_record_is_added(folder: Path) -> None:
    (folder / "acme").mkdir()
    (folder / "acme" / "cards.toml").write_text(CARD)
    a = load_catalogue().find("acme x1").accelerator
    assert (a.name, a.memory_bandwidth_bytes_per_s, a.peak_flops_per_s["bf16"]) == ("X1-64GB", 2e12, 4e14)
    assert (a.confidence, a.l2_bytes, a.power_limit_w) == ("medium", None, None)
    assert a.file == str(folder / "acme" / "cards.toml")
    assert load_catalogue().find("a100").accelerator.name == "A100-SXM4-80GB"


def test_a_record_overrides_one_of_the_same_name_however_it_is_spelt(folder: Path) -> None:
    (folder / "t4.toml").write_text(CARD.replace("X1-64GB", "t4"))
    assert load_catalogue().find("Tesla T4").accelerator.memory_capacity_bytes == 64e9
    assert "T4" not in load_catalogue().by_name


def test_a_record_can_be_what_a_family_means(folder: Path) -> None:
    (folder / "card.toml").write_text(CARD + 'default_for = ["a100"]\naliases = ["thing"]\n')
    assert load_catalogue().find("a100").accelerator.name == "X1-64GB"
    assert load_catalogue().find("THING").accelerator.name == "X1-64GB"
    assert load_catalogue().find("A100-SXM4-80GB").accelerator.default_for == ()


def test_an_alias_of_two_is_ambiguous(folder: Path) -> None:
    (folder / "card.toml").write_text(CARD + 'aliases = ["L40S"]\n')
    with pytest.raises(AmbiguousNameError, match="L40S, X1-64GB"):
        load_catalogue().find("l40s")


def test_a_later_folder_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("first", "64 GB"), ("second", "32 GB")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "card.toml").write_text(CARD.replace("64 GB", size))
    monkeypatch.setenv(VARIABLE, os.pathsep.join(str(tmp_path / n) for n in ("first", "second")))
    assert load_catalogue().find("X1-64GB").accelerator.memory_capacity_bytes == 32e9


def test_the_folder_of_the_platform_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "steptime" / "catalogue"
    own.mkdir(parents=True)
    (own / "card.toml").write_text(CARD)
    monkeypatch.setattr("steptime.hardware.catalogue.user_config_path", lambda name: tmp_path / name)
    assert user_folders() == (own,)
    assert load_catalogue().find("X1-64GB").accelerator.vendor == "Acme"


def test_links_lie_in_a_folder_of_their_own(folder: Path) -> None:
    (folder / "links").mkdir()
    (folder / "links" / "acme.toml").write_text(LINK)
    assert load_links()["AcmeLink"].bandwidth_bytes_per_s == 2e11
    assert "AcmeLink" not in load_catalogue().by_name
    assert load_links()["NVLink3"].bandwidth_bytes_per_s == 3e11


def test_a_folder_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(CatalogueError, match=r"STEPTIME_CATALOGUE names .*nowhere, which is no folder"):
        load_catalogue()


def test_one_card_twice_in_a_folder_is_refused(folder: Path) -> None:
    for name in ("a.toml", "b.toml"):
        (folder / name).write_text(CARD)
    with pytest.raises(CatalogueError, match=r"X1-64GB is described twice, in .*a\.toml and .*b\.toml"):
        load_catalogue()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"2 TB/s"', '"2 TB/s', "no valid TOML"),
        ("[my-card]", "", "'name' stands outside a table; begin each accelerator with a line like [my-"),
        ('year = 2026\n', "", "field 'year' is missing"),
        ("bandwidth =", "bandwith =", "field 'memory.bandwidth' is missing"),
        ("vendor =", 'vendr = "x"\nvendor =', "field 'vendr' is not known: did you mean 'vendor'?"),
        ("fp32 =", "fp33 =", "field 'peak_dense.fp33' is not known: did you mean 'fp32'?"),
        ("fp32 =", "zzz =", "field 'peak_dense.zzz' is not known: there are fp64"),
        ('"2 TB/s"', "2000", "field 'memory.bandwidth': must be text in quotes, got 2000"),
        ('"2 TB/s"', '"2 TB"', "field 'memory.bandwidth': '2 TB' is in byte, where byte/s is needed"),
        ('"2 TB/s"', '"2 parsec"', "field 'memory.bandwidth': '2 parsec' has a unit that is not known"),
        ('"2 TB/s"', '"0 TB/s"', "field 'memory.bandwidth': '0 TB/s' must be above zero"),
        ("2026", '"2026"', "field 'year'"),
        ("2026", "1926", "field 'year'"),
        ('source = "our own data sheet"', "source = []", "field 'source"),
        ('year = 2026', 'year = 2026\nconfidence = "sure"', "field 'confidence'"),
    ],
)  # fmt: skip
def test_a_fault_is_one_sentence_with_its_place(folder: Path, old: str, new: str, said: str) -> None:
    file = folder / "card.toml"
    assert old in CARD
    file.write_text(CARD.replace(old, new, 1))
    with pytest.raises(CatalogueError) as caught:
        load_catalogue()
    sentence = str(caught.value)
    assert said in sentence
    assert str(file) in sentence
    assert "\n" not in sentence
    assert not sentence.endswith(("?.", ".."))


def test_a_file_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / "card.toml").write_bytes(b"\xff\xfe\x00 not text")
    with pytest.raises(CatalogueError, match="cannot be read as text"):
        load_catalogue()


def test_a_file_with_a_byte_order_mark_is_read(folder: Path) -> None:
    (folder / "card.toml").write_bytes(b"\xef\xbb\xbf" + CARD.encode())
    assert load_catalogue().find("X1-64GB")


def test_a_fault_in_a_link_is_said(folder: Path) -> None:
    (folder / "links").mkdir()
    (folder / "links" / "acme.toml").write_text(LINK.replace("200 GB/s", "200 GB"))
    with pytest.raises(CatalogueError, match="field 'bandwidth_per_direction'"):
        load_links()
