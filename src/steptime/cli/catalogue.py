"""``steptime catalogue``: which accelerators and links are known, and what is known of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from steptime.errors import InputError
from steptime.hardware import Accelerator, Match, describe_sources, load_catalogue, load_links
from steptime.units import format_bytes, format_hertz, format_rate, format_seconds, format_watts

app = typer.Typer(
    no_args_is_help=True, help="Show the accelerators and links that are known, with their sources."
)

_Vendor = Annotated[str, typer.Option("--vendor", help="Only this vendor's: nvidia, amd, google, ...")]
_Architecture = Annotated[
    str, typer.Option("--architecture", help="Only this one: ampere, hopper, cdna3, ...")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]
_Name = Annotated[str, typer.Argument(help="An accelerator as you would type it: a100, 'rtx 4090', ...")]

_COLUMNS = ("accelerator", "memory", "bandwidth", "fp32", "16 bit", "fp8", "power", "facts")


@app.command("list")
def list_command(vendor: _Vendor = "", architecture: _Architecture = "", as_json: _Json = False) -> None:
    """List the accelerators by vendor and architecture."""
    found: Sequence[Accelerator] = load_catalogue().accelerators
    found = _only(found, "--vendor", vendor, lambda a: a.vendor)
    found = _only(found, "--architecture", architecture, lambda a: a.architecture)
    found = sorted(found, key=lambda a: (a.vendor.lower(), a.architecture.lower(), a.year, a.name))
    if as_json:
        typer.echo(json.dumps([a.to_dict() for a in found], indent=2))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in _COLUMNS:
        table.add_column(
            column, justify="left" if column in {"accelerator", "facts"} else "right", no_wrap=True
        )
    for (maker, family), group in groupby(found, key=lambda a: (a.vendor, a.architecture)):
        table.add_row(f"[bold]{maker} {family}[/bold]")
        for a in group:
            table.add_row(*_row(a))
    _console().print(table)
    typer.echo(f"{len(found)} accelerators. Rates are dense peaks in TFLOP/s; facts: how sure they are.")
    typer.echo("'steptime catalogue show NAME' tells all of one, with its sources.")


@app.command("show")
def show_command(name: _Name, as_json: _Json = False) -> None:
    """Show every fact of one accelerator, with sources and confidence."""
    match = load_catalogue().find(name)
    if as_json:
        sources = describe_sources(match.accelerator.source)
        found = {**match.accelerator.to_dict(), "sources": sources, "match_note": match.note}
        typer.echo(json.dumps(found, indent=2))
        return
    console = _console()
    console.print(f"[bold]{match.accelerator.name}[/bold]")
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for label, text in _facts(match):
        if text:
            table.add_row(label, text)
    console.print(table)


@app.command("links")
def links_command(as_json: _Json = False) -> None:
    """List the interconnects with their bandwidth per direction."""
    links = load_links().values()
    if as_json:
        found = [{**link.to_dict(), "sources": describe_sources(link.source)} for link in links]
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("link", "kind", "per direction", "reached", "latency", "facts"):
        table.add_column(
            column, justify="left" if column in {"link", "kind", "facts"} else "right", no_wrap=True
        )
    for link in links:
        rates = [_rate(r) for r in (link.bandwidth_bytes_per_s, link.reached_bytes_per_s)]
        latency = "" if link.latency_s is None else format_seconds(link.latency_s)
        table.add_row(link.name, link.kind, *rates, latency, link.confidence)
    _console().print(table)


def _console() -> Console:
    """Return a console that cuts no table for a reader that is no terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)


def _only(
    found: Sequence[Accelerator], flag: str, wanted: str, field: Callable[[Accelerator], str]
) -> Sequence[Accelerator]:
    if not wanted:
        return found
    kept = [a for a in found if _plain(field(a)) == _plain(wanted)]
    if not kept:
        known = ", ".join(sorted({field(a) for a in found}))
        raise InputError(f"{flag} '{wanted}' matches no accelerator; there are: {known}.")
    return kept


def _plain(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _rate(bytes_per_s: float | None) -> str:
    return "" if bytes_per_s is None else format_rate(bytes_per_s, "byte")


def _watts(a: Accelerator) -> str:
    return "" if a.power_limit_w is None else format_watts(a.power_limit_w)


def _row(a: Accelerator) -> list[str]:
    peaks = a.peak_flops_per_s
    rates = [peaks.get("fp32"), peaks.get("bf16", peaks.get("fp16")), peaks.get("fp8")]
    return [
        f"  {a.name}",
        format_bytes(a.memory_capacity_bytes, decimal=True),
        _rate(a.memory_bandwidth_bytes_per_s),
        *("" if rate is None else f"{rate / 1e12:,.4g}" for rate in rates),
        _watts(a),
        a.confidence,
    ]


def _facts(match: Match) -> list[tuple[str, str]]:
    a = match.accelerator
    clocks = (("boost", a.boost_clock_hz), ("at most", a.max_clock_hz))
    usable = "as drivers print it" if a.memory_usable_bytes else "assumed from the label"
    link = f"{a.link}, {_rate(a.link_bandwidth_bytes_per_s)} per direction"
    return [
        ("taken", match.note),
        ("vendor", ", ".join(filter(None, (a.vendor, a.architecture, str(a.year), a.form)))),
        ("compute capability", a.compute_capability),
        ("units", "" if a.num_units is None else f"{a.num_units} {a.unit_kind}"),
        ("clock", ", ".join(f"{word} {format_hertz(hz)}" for word, hz in clocks if hz)),
        *((f"peak {dtype}", format_rate(peak, "flop")) for dtype, peak in a.peak_flops_per_s.items()),
        ("memory", f"{format_bytes(a.memory_capacity_bytes, decimal=True)} {a.memory_type}"),
        ("usable memory", f"{format_bytes(a.usable_memory_bytes)}, {usable}"),
        ("bandwidth", _rate(a.memory_bandwidth_bytes_per_s)),
        *((label, "" if size is None else format_bytes(size)) for label, size in _caches(a)),
        ("link", link if a.link_bandwidth_bytes_per_s else a.link),
        ("PCIe", "" if a.pcie_generation is None else f"{a.pcie_generation}.0 x{a.pcie_lanes}"),
        ("power limit", _watts(a)),
        ("also called", ", ".join((*a.aliases, *(f"{d} (default)" for d in a.default_for)))),
        ("confidence", a.confidence),
        *(("source", line) for line in describe_sources(a.source)),
        ("locator", a.locator),
        ("retrieved", a.retrieved),
        ("note", a.note),
        ("file", a.file),
    ]


def _caches(a: Accelerator) -> list[tuple[str, float | None]]:
    return [
        ("L2", a.l2_bytes),
        ("last-level cache", a.last_level_cache_bytes),
        ("shared memory per unit", a.shared_memory_per_unit_bytes),
        ("registers per unit", a.register_file_per_unit_bytes),
    ]
