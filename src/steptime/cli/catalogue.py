"""``steptime catalogue``: which accelerators and links are known, and what is known of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from steptime.errors import InputError
from steptime.hardware import Accelerator, Match, load_catalogue, load_links
from steptime.units import format_bytes, format_hertz, format_rate, format_watts

app = typer.Typer(
    no_args_is_help=True, help="The accelerators and links that steptime knows, with their sources."
)

_Vendor = Annotated[str, typer.Option("--vendor", help="Only this vendor's: nvidia, amd, google, ...")]
_Architecture = Annotated[
    str, typer.Option("--architecture", help="Only this architecture: ampere, hopper, cdna3, ...")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]
_Name = Annotated[
    str, typer.Argument(help="An accelerator as you would type it: a100, 'h100 sxm', 'rtx 4090'.")
]

_COLUMNS = (
    "accelerator",
    "architecture",
    "year",
    "memory",
    "bandwidth",
    "fp32",
    "tf32",
    "bf16/fp16",
    "fp8",
    "power",
    "facts",
)
_LEFT = {"accelerator", "architecture", "facts"}


@app.command("list")
def list_command(vendor: _Vendor = "", architecture: _Architecture = "", as_json: _Json = False) -> None:
    """List the accelerators, by vendor and architecture."""
    found: Sequence[Accelerator] = load_catalogue().accelerators
    found = _only(found, "--vendor", vendor, lambda a: a.vendor)
    found = _only(found, "--architecture", architecture, lambda a: a.architecture)
    found = sorted(found, key=lambda a: (a.vendor.lower(), a.year, a.architecture, a.name))
    if as_json:
        typer.echo(json.dumps([a.to_dict() for a in found], indent=2))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in _LEFT else "right", no_wrap=True)
    for a in found:
        table.add_row(*_row(a))
    _console().print(table)
    typer.echo(
        f"{len(found)} accelerators; dense peaks. 'steptime catalogue show NAME' tells all of one, with its source."
    )


@app.command("show")
def show_command(name: _Name, as_json: _Json = False) -> None:
    """Show every fact of one accelerator, with source and confidence."""
    match = load_catalogue().find(name)
    if as_json:
        typer.echo(json.dumps({**match.accelerator.to_dict(), "match_note": match.note}, indent=2))
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
    """List the interconnects, bandwidth per direction."""
    links = load_links().values()
    if as_json:
        typer.echo(json.dumps([link.to_dict() for link in links], indent=2))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("link", "kind", "per direction", "reached", "latency", "facts"):
        table.add_column(
            column, justify="right" if column in {"per direction", "reached", "latency"} else "left"
        )
    for link in links:
        reached = link.reached_bytes_per_s
        table.add_row(
            link.name, link.kind, format_rate(link.bandwidth_bytes_per_s, "byte"),
            "" if reached is None else format_rate(reached, "byte"),
            "" if link.latency_s is None else f"{link.latency_s * 1e6:g} µs", link.confidence,
        )  # fmt: skip
    _console().print(table)


def _console() -> Console:
    """Return a console that never folds a table for a reader that is no terminal."""
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


def _row(a: Accelerator) -> tuple[str, ...]:
    half = a.peak_flops_per_s.get("bf16", a.peak_flops_per_s.get("fp16"))
    return (
        a.name, f"{a.vendor} {a.architecture}", str(a.year), format_bytes(a.memory_capacity_bytes, decimal=True),
        format_rate(a.memory_bandwidth_bytes_per_s, "byte"), _peak(a.peak_flops_per_s.get("fp32")),
        _peak(a.peak_flops_per_s.get("tf32")), _peak(half), _peak(a.peak_flops_per_s.get("fp8")),
        "" if a.power_limit_w is None else format_watts(a.power_limit_w), a.confidence,
    )  # fmt: skip


def _peak(flops_per_s: float | None) -> str:
    return "" if flops_per_s is None else format_rate(flops_per_s, "flop")


def _facts(match: Match) -> list[tuple[str, str]]:
    a = match.accelerator
    clocks = [
        f"{word} {format_hertz(hz)}"
        for word, hz in (("boost", a.boost_clock_hz), ("at most", a.max_clock_hz))
        if hz
    ]
    usable = "read from a machine" if a.memory_usable_bytes else "assumed from the label"
    link = (
        f"{a.link}, {format_rate(a.link_bandwidth_bytes_per_s, 'byte')} per direction"
        if a.link_bandwidth_bytes_per_s
        else a.link
    )
    return [
        ("taken", match.note),
        ("vendor", f"{a.vendor}, {a.architecture}, {a.year}, {a.form}"),
        ("compute capability", a.compute_capability),
        ("units", "" if a.num_units is None else f"{a.num_units} {a.unit_kind}".strip()),
        ("clock", ", ".join(clocks)),
        *((f"peak {dtype}", format_rate(peak, "flop")) for dtype, peak in a.peak_flops_per_s.items()),
        ("memory", f"{format_bytes(a.memory_capacity_bytes, decimal=True)} {a.memory_type}".strip()),
        ("usable memory", f"{format_bytes(a.usable_memory_bytes)}, {usable}"),
        ("bandwidth", format_rate(a.memory_bandwidth_bytes_per_s, "byte")),
        *((label, "" if size is None else format_bytes(size)) for label, size in _caches(a)),
        ("link", link),
        ("PCIe", "" if a.pcie_generation is None else f"{a.pcie_generation}.0 x{a.pcie_lanes}"),
        ("power limit", "" if a.power_limit_w is None else format_watts(a.power_limit_w)),
        ("also called", ", ".join((*a.aliases, *(f"{d} (default)" for d in a.default_for)))),
        ("confidence", a.confidence),
        ("source", a.source),
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
