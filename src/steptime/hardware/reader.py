"""Read catalogue files: quantities as printed become SI numbers here and nowhere else."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from steptime.errors import CatalogueError, InputError
from steptime.hardware.accelerator import Accelerator
from steptime.hardware.link import Link
from steptime.units import parse

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


def read_accelerators(path: Path, *, checked: bool) -> Iterator[Accelerator]:
    """Read every table of one TOML file.

    Parameters
    ----------
    path : Path
    checked : bool
        Validate every field with the schema. Users' files always are. The built-in shelf is not: loading
        pydantic and its models takes twice as long as reading the shelf (90 ms against 40 on a slow machine),
        in every run. The tests check the shelf instead.

    Raises
    ------
    CatalogueError
        When the file cannot be read, is no TOML, or a field is missing, unknown, or of the wrong kind.
    """
    for where, table in _tables(path, "accelerator", checked=checked):
        yield _made(_accelerator, table, where, str(path) if checked else path.name)


def read_links(path: Path, *, checked: bool) -> Iterator[Link]:
    """Read every link of one TOML file; as ``read_accelerators``.

    Raises
    ------
    CatalogueError
        When the file cannot be read, is no TOML, or a field is missing, unknown, or of the wrong kind.
    """
    for where, table in _tables(path, "link", checked=checked):
        yield _made(_link, table, where, str(path) if checked else path.name)


def _tables(path: Path, kind: str, *, checked: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{path} is no valid TOML: {error}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(f"The catalogue file {path} cannot be read: {error}.") from None
    if checked:
        from steptime.hardware.schema import check

        check(tables, kind, path)
    for key, table in tables.items():
        yield f"{path}, table [{key}]", table


def _made(make: Any, table: dict[str, Any], where: str, file: str) -> Any:
    try:
        return make(table, file)
    except InputError as error:
        raise CatalogueError(f"{where}: {error}") from None


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
