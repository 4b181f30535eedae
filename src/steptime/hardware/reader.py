"""Read catalogue files: quantities as printed become SI numbers here and nowhere else."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

from steptime.errors import CatalogueError, InputError
from steptime.hardware.accelerator import Accelerator
from steptime.units import parse

_PEAK_UNITS = "flop/s"


def read_accelerators(text: str, where: str, *, checked: bool) -> Iterator[Accelerator]:
    """Read every table of one TOML file.

    Parameters
    ----------
    text : str
    where : str
        The file's name, for messages.
    checked : bool
        Validate every field (pydantic). The built-in shelf is validated by the tests instead: validating it in
        every run would cost a sixth of a prediction's time.

    Raises
    ------
    CatalogueError
        When the file is no TOML, or a field is missing, unknown, or of the wrong kind.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{where} is no valid TOML: {error}.") from None
    if checked:
        from steptime.hardware.schema import check

        check(tables, where)
    for key, table in tables.items():
        try:
            yield _accelerator(table, where)
        except InputError as error:
            raise CatalogueError(f"{where}, table [{key}]: {error}") from None


def _optional(table: dict[str, Any], key: str, unit: str) -> float | None:
    return parse(table[key], unit) if key in table else None


def _accelerator(table: dict[str, Any], where: str) -> Accelerator:
    memory, cache, link = table["memory"], table.get("cache", {}), table.get("link", {})
    units, pcie = table.get("units", {}), table.get("pcie", {})
    return Accelerator(
        name=table["name"], vendor=table["vendor"], architecture=table["architecture"], year=table["year"],
        peak_flops_per_s={d: parse(p.replace("OP/s", "FLOP/s") if "FLOP" not in p else p, _PEAK_UNITS)
                          for d, p in table["peak_dense"].items()},
        memory_capacity_bytes=parse(memory["capacity"], "byte"),
        memory_bandwidth_bytes_per_s=parse(memory["bandwidth"], "byte/s"),
        form=table["form"], source=table["source"], confidence=table["confidence"],
        num_units=units.get("count"), unit_kind=units.get("kind", ""),
        boost_clock_hz=_optional(table, "boost_clock", "Hz"), max_clock_hz=_optional(table, "max_clock", "Hz"),
        memory_usable_bytes=_optional(memory, "usable", "byte"), memory_type=memory.get("type", ""),
        l2_bytes=_optional(cache, "l2", "byte"), last_level_cache_bytes=_optional(cache, "last_level", "byte"),
        shared_memory_per_unit_bytes=_optional(cache, "shared_per_unit", "byte"),
        register_file_per_unit_bytes=_optional(cache, "registers_per_unit", "byte"),
        link=link.get("name", ""), link_bandwidth_bytes_per_s=_optional(link, "bandwidth_per_direction", "byte/s"),
        pcie_generation=pcie.get("generation"), pcie_lanes=pcie.get("lanes"),
        power_limit_w=_optional(table, "power_limit", "W"), compute_capability=table.get("compute_capability", ""),
        aliases=tuple(table.get("aliases", ())), default_for=tuple(table.get("default_for", ())),
        note=table.get("note", ""), retrieved=str(table.get("retrieved", "")), file=where,
    )  # fmt: skip
