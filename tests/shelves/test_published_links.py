"""Facts about links hold together: schema, ranges, and what was reached is below what is stated."""

from __future__ import annotations

from pathlib import Path

import pytest

from house.places import DATA
from steptime.hardware import load_catalogue, load_links
from steptime.hardware.reader import links_in, read_tables

FILES = sorted((DATA / "published" / "links").glob("*.toml"))
EVERY = tuple(load_links().values())


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_file_holds_what_the_schema_wants(path: Path) -> None:
    assert list(links_in(read_tables(path, "link"), path.name))


def test_all_the_links_are_there() -> None:
    assert len(EVERY) >= 55


def test_figures_are_plausible() -> None:
    for link in EVERY:
        assert 1e9 < link.bandwidth_bytes_per_s < 2e12, link.name
        assert link.latency_s is None or 0.4e-6 <= link.latency_s <= 50e-6, link.name


def test_no_more_is_reached_than_is_stated() -> None:
    for link in EVERY:
        assert (
            link.reached_bytes_per_s is None
            or 0.6 < link.reached_bytes_per_s / link.bandwidth_bytes_per_s < 1
        ), link.name
        share = link.all_reduce_bus_fraction
        in_switch = link.kind == "switch"  # the switch adds up, so the bus figure may pass the link's
        assert share is None or 0.7 < share < (1.1 if in_switch else 1), link.name


def test_bus_bandwidth_is_its_share_of_the_link() -> None:
    for link in EVERY:
        within_a_node = link.kind in {"nvlink", "switch"}  # a network's share counts per accelerator
        if within_a_node and link.all_reduce_bus_bytes_per_s and link.all_reduce_bus_fraction:
            share = link.all_reduce_bus_bytes_per_s / link.bandwidth_bytes_per_s
            assert share == pytest.approx(link.all_reduce_bus_fraction, abs=0.06), link.name


def test_a_card_and_its_link_agree() -> None:
    """Boards that bridge or cut a link state their own rate; the others have the link's."""
    links = load_links()
    for a in load_catalogue().accelerators:
        if a.link in links and a.link_bandwidth_bytes_per_s is not None:
            assert a.link_bandwidth_bytes_per_s <= links[a.link].bandwidth_bytes_per_s * 1.001, a.name
