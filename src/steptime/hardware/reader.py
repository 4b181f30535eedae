"""Read catalogue files: quantities as printed become SI numbers here and nowhere else."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from steptime.errors import CatalogueError, InputError
from steptime.hardware.accelerator import Accelerator
from steptime.hardware.link import Link
from steptime.units import parse

_Noun = TypeVar("_Noun")

# Fields of a record that are the same in the file and in the noun.
_ACCELERATOR_WORDS = (
    "name",
    "vendor",
    "architecture",
    "year",
    "confidence",
    "form",
    "compute_capability",
    "locator",
    "note",
)
_LINK_WORDS = ("name", "kind", "confidence", "lanes", "latency_basis", "locator", "note")


def parse_tables(content: bytes, where: str) -> dict[str, dict[str, Any]]:
    """Parse one TOML file.

    Raises
    ------
    CatalogueError
        When it is no text or no TOML.
    """
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CatalogueError(f"{where} cannot be read as text: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{where} is no valid TOML: {error}.") from None


def read_tables(path: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Parse a user's file of accelerators or links and validate every field.

    The built-in shelf is not validated: loading pydantic and its models takes twice as long as loading the
    whole catalogue, in every run. The tests validate it instead.

    Raises
    ------
    CatalogueError
        When the file cannot be read, is no TOML, or a field is missing, unknown, or of the wrong kind.
    """
    from steptime.hardware.schema import check

    try:
        content = path.read_bytes()
    except OSError as error:
        raise CatalogueError(f"The catalogue file {path} cannot be read: {error}.") from None
    tables = parse_tables(content, str(path))
    check(tables, kind, path)
    return tables


def accelerators_in(tables: Mapping[str, Mapping[str, Any]], file: str) -> Iterator[Accelerator]:
    """Make an accelerator of every table of one file.

    Raises
    ------
    CatalogueError
        When a table holds what no accelerator can be.
    """
    return _made(_accelerator, tables, file)


def links_in(tables: Mapping[str, Mapping[str, Any]], file: str) -> Iterator[Link]:
    """Make a link of every table of one file.

    Raises
    ------
    CatalogueError
        When a table holds what no link can be.
    """
    return _made(_link, tables, file)


def _made(
    make: Callable[[Mapping[str, Any], str], _Noun], tables: Mapping[str, Mapping[str, Any]], file: str
) -> Iterator[_Noun]:
    for key, table in tables.items():
        try:
            yield make(table, file)
        except InputError as error:
            raise CatalogueError(f"{file}, table [{key}]: {error}") from None


def _optional(table: Mapping[str, Any], key: str, unit: str) -> float | None:
    return parse(table[key], unit) if key in table else None


def _source(table: Mapping[str, Any]) -> str:
    """Join several sources: ``nvidia2020a100, bekman2026``."""
    source = table["source"]
    return source if isinstance(source, str) else ", ".join(source)


def _words(table: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: table[name] for name in names if name in table}


def _accelerator(table: Mapping[str, Any], file: str) -> Accelerator:
    units, memory, cache = table.get("units", {}), table["memory"], table.get("cache", {})
    link, pcie = table.get("link", {}), table.get("pcie", {})
    return Accelerator(
        **_words(table, _ACCELERATOR_WORDS),
        source=_source(table),
        peak_flops_per_s={dtype: parse(peak, "flop/s") for dtype, peak in table["peak_dense"].items()},
        num_units=units.get("count"),
        unit_kind=units.get("kind", ""),
        boost_clock_hz=_optional(table, "boost_clock", "Hz"),
        max_clock_hz=_optional(table, "max_clock", "Hz"),
        memory_capacity_bytes=parse(memory["capacity"], "byte"),
        memory_usable_bytes=_optional(memory, "usable", "byte"),
        memory_type=memory.get("type", ""),
        memory_bandwidth_bytes_per_s=parse(memory["bandwidth"], "byte/s"),
        l2_bytes=_optional(cache, "l2", "byte"),
        last_level_cache_bytes=_optional(cache, "last_level", "byte"),
        shared_memory_per_unit_bytes=_optional(cache, "shared_per_unit", "byte"),
        register_file_per_unit_bytes=_optional(cache, "registers_per_unit", "byte"),
        link=link.get("name", ""),
        link_bandwidth_bytes_per_s=_optional(link, "bandwidth_per_direction", "byte/s"),
        pcie_generation=pcie.get("generation"),
        pcie_lanes=pcie.get("lanes"),
        power_limit_w=_optional(table, "power_limit", "W"),
        aliases=tuple(table.get("aliases", ())),
        default_for=tuple(table.get("default_for", ())),
        retrieved=str(table.get("retrieved", "")),
        file=file,
    )


def _link(table: Mapping[str, Any], file: str) -> Link:
    seen = table.get("all_reduce", {})
    return Link(
        **_words(table, _LINK_WORDS),
        source=_source(table),
        bandwidth_bytes_per_s=parse(table["bandwidth_per_direction"], "byte/s"),
        reached_bytes_per_s=_optional(table, "reached_per_direction", "byte/s"),
        all_reduce_bus_bytes_per_s=_optional(seen, "bus_bandwidth", "byte/s"),
        all_reduce_bus_fraction=seen.get("fraction_of_link"),
        condition=seen.get("condition", ""),
        latency_s=_optional(table, "latency", "s"),
        aliases=tuple(table.get("aliases", ())),
        retrieved=str(table.get("retrieved", "")),
        file=file,
    )
