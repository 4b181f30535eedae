"""An installed package adds catalogue folders and sources of models; a broken one is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import steptime
from steptime.plugins import plugins

CARD = """
[acme-x1]
name = "X1-64GB"
vendor = "Acme"
architecture = "One"
year = 2026
peak_dense = { fp32 = "50 TFLOP/s", bf16 = "400 TFLOP/s" }
memory = { capacity = "64 GB", bandwidth = "2 TB/s" }
source = "our own data sheet"
"""
SOURCE = """
from dataclasses import replace
from pathlib import Path
from steptime.workload.models import load_workload

catalogue_folders = [Path(__file__).with_name("acme_records")]
model_sources = {
    "acme": lambda request: load_workload(replace(request, name=request.name.removeprefix("acme/"))),
    "broken": lambda request: 7,
}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Lay a package with one plug-in where Python looks for packages, as an installer does."""

    def lay(source: str) -> None:
        (tmp_path / "acme_steptime.py").write_text(source)
        (tmp_path / "acme_records").mkdir()
        (tmp_path / "acme_records" / "x1.toml").write_text(CARD)
        facts = tmp_path / "acme_steptime-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-steptime\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text("[steptime.plugins]\nacme = acme_steptime\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(__import__("sys").modules, "acme_steptime", raising=False)
        plugins.cache_clear()

    yield lay
    plugins.cache_clear()


def test_nothing_is_installed_with_the_house() -> None:
    plugins.cache_clear()
    assert dict(plugins()) == {}


def test_a_plug_in_adds_accelerators_and_models(install: Callable[[str], None]) -> None:
    install(SOURCE)
    assert steptime.load_catalogue().find("x1").accelerator.vendor == "Acme"
    mine, ours = (steptime.predict(m, on="x1", batch=8).step_time_s for m in ("acme/resnet50", "resnet50"))
    assert mine == ours


def test_what_is_no_workload_is_refused(install: Callable[[str], None]) -> None:
    install(SOURCE)
    with pytest.raises(steptime.StepTimeError, match="plug-in for broken/ gave a int"):
        steptime.predict("broken/thing", on="a100")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import no_such_package", "acme cannot be loaded .*no_such_package.*uninstall acme-steptime"),
        ("catalogue_folders = ['no/such/folder']", "names no/such/folder as a catalogue"),
    ],
)
def test_a_broken_plug_in_is_named(install: Callable[[str], None], source: str, words: str) -> None:
    install(source)
    with pytest.raises(steptime.StepTimeError, match=words):
        steptime.load_catalogue()
