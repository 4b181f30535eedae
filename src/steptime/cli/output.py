"""How predictions look in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.table import Table

from steptime.prediction import Explanation, Prediction
from steptime.units import format_bytes, format_flops, format_rate, format_seconds

# A file or a pipe has no edge to wrap at; a table there keeps its rows whole.
PIPE_WIDTH = 160
console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def say(text: str, *, quiet: bool = False) -> None:
    """Print a remark; on standard error when standard output is for machines."""
    typer.echo(text, err=quiet)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something runs, where a person watches."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(what):
        yield


def _interval(p: Prediction) -> str:
    return f"{format_seconds(p.step_time_low_s)} to {format_seconds(p.step_time_high_s)}"


def _throughput(p: Prediction) -> str:
    tokens = p.throughput_tokens_per_s
    samples = f"{p.throughput_samples_per_s:,.4g} samples/s"
    return samples if tokens is None else f"{samples}, {tokens:,.4g} tokens/s"


def print_prediction(p: Prediction, largest: int | None = None) -> None:
    """Print one prediction with its parts."""
    r = p.recipe
    head = f"{p.model} on {p.accelerator.name}: {r.task}, batch {r.batch}"
    head += f" × {r.accumulation}" if r.accumulation > 1 else ""
    console.print(f"[bold]{head}, {r.precision}, {r.mode}[/bold]")
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("step time", f"{format_seconds(p.step_time_s)}   80 %: {_interval(p)}   ({p.provenance})")
    if r.trains:
        parts = f"forward {format_seconds(p.forward_s)}, backward {format_seconds(p.backward_s)}"
        table.add_row("of which", f"{parts}, optimizer {format_seconds(p.optimizer_s)}")
    table.add_row(
        "clocks", f"device {format_seconds(p.device_s)}, host {format_seconds(p.host_s)}: {p.bound_by}-bound"
    )
    table.add_row("throughput", _throughput(p))
    table.add_row("work", f"{format_flops(p.flops)} per step, MFU {p.mfu:.1%}, HFU {p.hfu:.1%}")
    trainable = f", {p.num_trainable_parameters / 1e6:,.4g} M trained" if r.trains else ""
    table.add_row("parameters", f"{p.num_parameters / 1e6:,.4g} M{trainable}")
    _memory_rows(table, p, largest)
    console.print(table)
    _print_notes([p])


def _memory_rows(table: Table, p: Prediction, largest: int | None) -> None:
    m = p.memory
    verdict = "fits" if p.fits else "[red]does not fit[/red]"
    table.add_row(
        "memory",
        f"{format_bytes(m.peak_allocated_bytes)} allocated, {format_bytes(m.peak_reserved_bytes)} reserved "
        f"of {format_bytes(p.accelerator.usable_memory_bytes)}: {verdict}",
    )
    parts = sorted(m.parts.items(), key=lambda item: -item[1])
    table.add_row(
        "", ", ".join(f"{name.replace('_', ' ')} {format_bytes(size)}" for name, size in parts if size > 0)
    )
    if largest is not None:
        table.add_row("largest batch", str(largest) if largest else "none fits, not even 1")
    if not p.fits:
        table.add_row("what helps", what_helps(p))


def what_helps(p: Prediction) -> str:
    """Name what lowers the memory of a run that does not fit."""
    r = p.recipe
    remedies = (
        ["--largest-batch shows what fits, --accumulation keeps the global batch"] if r.batch > 1 else []
    )
    if r.trains and r.checkpointing == "none":
        remedies.append("--activation-checkpointing")
    if r.precision in {"fp32", "tf32"}:
        remedies.append("--precision amp-bf16")
    if r.trains and r.optimizer in {"adam", "adamw"}:
        remedies.append("--optimizer adamw8bit or --lora-rank 16")
    return "; ".join(remedies) or "an accelerator with more memory, or several"


def print_comparison(predictions: Sequence[Prediction]) -> None:
    """Print one table, a row per accelerator, ratios to the first."""
    first = predictions[0]
    r = first.recipe
    console.print(f"[bold]{first.model}: {r.task}, batch {r.batch}, {r.precision}, {r.mode}[/bold]")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in (
        "accelerator",
        "step time",
        "80 % interval",
        "throughput",
        "ratio",
        "MFU",
        "memory",
        "bound by",
        "basis",
    ):
        table.add_column(name, justify="left" if name in {"accelerator", "bound by", "basis"} else "right")
    for p in predictions:
        speed = p.throughput_samples_per_s / first.throughput_samples_per_s
        tokens = p.throughput_tokens_per_s
        rate = (
            format_rate(p.throughput_samples_per_s, "samples")
            if tokens is None
            else format_rate(tokens, "tokens")
        )
        memory = format_bytes(p.memory.peak_reserved_bytes)
        table.add_row(
            p.accelerator.name, format_seconds(p.step_time_s), _interval(p), rate, f"{speed:.2f}×", f"{p.mfu:.0%}",
            memory if p.fits else f"[red]{memory}, does not fit[/red]", p.bound_by, p.provenance,
        )  # fmt: skip
    console.print(table)
    _print_notes(predictions)


def _print_notes(predictions: Sequence[Prediction]) -> None:
    """Print each fallback once, with the accelerators that it concerns when not all."""
    where: dict[str, list[str]] = {}
    for p in predictions:
        for note in p.fallbacks:
            where.setdefault(note, []).append(p.accelerator.name)
    for note, names in where.items():
        prefix = "" if len(names) == len(predictions) else f"{', '.join(names)}: "
        console.print(f"[dim]note: {prefix}{note}[/dim]", soft_wrap=True)


def print_explanation(e: Explanation) -> None:
    """Print what bounds a step and what costs most."""
    shares = ", ".join(f"{share:.0%} {name}" for name, share in e.shares.items())
    console.print(f"limits: {shares}; {e.roofline_ratio:.2f}× the roofline's time")
    for title, costs in (("operators", e.operators), ("modules", e.modules)):
        table = Table(title=f"costliest {title}", title_justify="left", box=None, padding=(0, 2, 0, 0))
        for name in (title[:-1], "time", "share", "count", "limit"):
            table.add_column(name, justify="left" if name in {title[:-1], "limit"} else "right")
        for c in costs:
            table.add_row(c.name, format_seconds(c.time_s), f"{c.share_ratio:.1%}", str(c.count), c.bound)
        console.print(table)
