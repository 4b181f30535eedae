"""``steptime catalogue`` lists and shows what is known, for people and for machines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from steptime.cli.catalogue import app
from steptime.errors import InputError, UnknownNameError
from steptime.hardware import load_catalogue


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def parsed(*arguments: str) -> Any:
    return json.loads(output(*arguments, "--json"))


def test_every_accelerator_is_listed() -> None:
    text = output("list")
    assert all(a.name in text for a in load_catalogue().accelerators)
    assert len(parsed("list")) == len(load_catalogue().accelerators)


def test_the_list_can_be_narrowed() -> None:
    assert {a["vendor"] for a in parsed("list", "--vendor", "amd")} == {"AMD"}
    found = parsed("list", "--vendor", "NVIDIA", "--architecture", "blackwell ultra")
    assert {a["name"] for a in found} == {"B300-SXM-288GB", "GB300-288GB"}
    assert "2 accelerators" in output("list", "--architecture", "Blackwell-Ultra")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--vendor", "acme"], "AMD, AWS, Google"),
        (["--vendor", "amd", "--architecture", "hopper"], "CDNA, CDNA2"),
    ],
)
def test_a_filter_that_fits_nothing_says_what_there_is(arguments: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        output("list", *arguments)


def test_one_is_shown_with_its_sources_and_how_sure_they_are() -> None:
    text = output("show", "a100")
    for fact in ("'a100' is taken as A100-SXM4-80GB", "2.039 TB/s", "312 TFLOP/s", "1,410 MHz", "80 GB HBM2e",
                 "as drivers print it", "NVIDIA A100 tensor core GPU architecture", "confidence", "high",
                 "300 GB/s per direction", "400 W"):  # fmt: skip
        assert fact in text, fact


def test_one_is_shown_to_machines_in_si() -> None:
    facts = parsed("show", "mi300x")
    assert facts["name"] == "MI300X"
    assert facts["memory_bandwidth_bytes_per_s"] == 5.3e12
    assert facts["match_note"] == ""
    assert all(" [re" in line for line in facts["sources"])


def test_a_name_that_nothing_has_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean"):
        output("show", "h1000")


def test_links_are_listed() -> None:
    assert "NVLink4" in output("links")
    by_name = {link["name"]: link for link in parsed("links")}
    assert by_name["NVLink4"]["bandwidth_bytes_per_s"] == 4.5e11
    assert by_name["InfiniBand-NDR"]["latency_s"] == pytest.approx(1e-6)
