"""Fit the matrix-product kernel: own sets, sets pooled by how the units copy, and the energy of an operation.

Three tables, three folders of the shelf: bursts of half, fp8 and fp4 products and single fp32 products give
`gemm/`; how fast and how far the clock fell in the bursts gives `burst/`; loops give `sustained/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from steptime.calibrate.fitted_file import FitError, FittedSet, source_of, write
from steptime.calibrate.gemm_fit import (
    BESIDE,
    Predict,
    Prior,
    burst_time_s,
    cast_time_s,
    fit_tables,
    kernel_values,
    loop_time_s,
)
from steptime.calibrate.gemm_tables import (
    BURST,
    ProductTable,
    read_burst,
    read_loops,
    read_single,
)

COMMAND = "steptime calibrate gemm --data DIR"
GEMM = "steptime.kernels.gemm.gemm_time_s"
BURST_CLOCK = "steptime.kernels.gemm_clock.burst_clock_ratio"
LONG_CLOCK = "steptime.kernels.gemm_clock.sustained_clock_ratio"
HARNESS = "steptime.records.harness.loop_time_s"
FOLDERS = {GEMM: "gemm", BURST_CLOCK: "burst", LONG_CLOCK: "sustained", HARNESS: "harness"}
# A loop that times no single call, and one that casts nothing.
NO_HARNESS = {"timing_s": 0.0, "cast_s": 0.0, "cast_row_s": 0.0, "cast_bytes_per_s": 1e15}
# Rows per table: enough that another draw moves no error by 0.1 points; fewer where several tables are fitted at once.
OWN_ROWS, POOLED_ROWS = 3000, 1000
# An accelerator with rows of its own may stray further from the priors than a pool that serves strangers. Its waves may
# be a balanced grid or a plain one: the loss has a minimum at either.
OWN_RIDGE, TAILS = 0.3, (0.6, 0.95)
SYNCHRONOUS, ASYNCHRONOUS = "pooled-synchronous", "pooled-asynchronous"

# Where tensor cores copy asynchronously by a unit of their own (Hopper, data-centre Blackwell), the inner loop and
# the waves differ in kind; everything else is shared when sets are pooled.
PER_FAMILY = (
    "latency_per_k_s", "wave_cycles", "tail_fraction", "unit_load_bytes_per_s", "prologue_k", "l2_usable_fraction",
    "flop_energy_j",
)  # fmt: skip
# Priors: what a designer of the chip would guess. Narrow where the meaning leaves little room.
HALF = {
    "launch_cycles": Prior(start=4000, low=500, high=8000, width=0.3),
    "compute_efficiency_ratio": Prior(start=0.9, low=0.4, high=1, width=0.08),
    "tile_overhead": Prior(start=2, low=0.1, high=100, width=0.3),
    "unit_load_bytes_per_s": Prior(start=8e10, low=1e10, high=2e12),
    "store_scale": Prior(start=11e3, low=1e3, high=1e5),
    "latency_per_k_s": Prior(start=2.5e-9, low=5e-11, high=2e-8),
    "prologue_k": Prior(start=40, low=1, high=600, width=0.3),
    "tail_fraction": Prior(start=0.6, low=0.03, high=1, width=0.3),
    "wave_cycles": Prior(start=500, low=20, high=5000, width=0.3),
    "split_s": Prior(start=2e-6, low=1e-7, high=5e-6),
    "load_efficiency_ratio": Prior(start=0.8, low=0.4, high=1, width=0.1),
    "store_efficiency_ratio": Prior(start=0.75, low=0.3, high=1, width=0.2),
    "l2_usable_fraction": Prior(start=0.7, low=0.2, high=1, width=0.3),
    "flop_energy_j": Prior(start=1.42e-12, low=2e-13, high=4e-12, width=0.15),
}
CAST = {
    "cast_s": Prior(start=3e-6, low=1e-7, high=2e-5),
    "cast_row_s": Prior(start=1e-9, low=1e-11, high=1e-8),
    "cast_bytes_per_s": Prior(start=1.5e12, low=1e11, high=1e13),
}
SINGLES = {
    "compute_efficiency_ratio": Prior(start=0.95, low=0.4, high=1, width=0.2),
    "tile_overhead": Prior(start=5, low=0.1, high=100),
    "store_scale": Prior(start=3e4, low=5e3, high=5e5),
    "tail_fraction": Prior(start=0.7, low=0.03, high=1),
    "wave_cycles": Prior(start=600, low=20, high=5000),
    "load_efficiency_ratio": Prior(start=0.85, low=0.4, high=1, width=0.2),
    "far_pitch_bytes": Prior(start=1.2e5, low=8e3, high=1e6),
    "far_pitch_slowdown_ratio": Prior(start=0.3, low=0.01, high=5),
    "timing_s": Prior(start=2e-5, low=1e-6, high=6e-5),
}
ENERGY = Prior(start=1.5e-11, low=1e-12, high=5e-11)
# The clock follows within milliseconds; a fit of it moves no error by more than 0.1 points.
SETTLE_S = 0.005
NEAR = {"far_pitch_bytes": 1e12, "far_pitch_slowdown_ratio": 0.0, "narrowest_tile": 1.0}
# Rate left without 16-byte rows. The tables have none, so these are measurements of others: 107-116 of 156 TFLOP/s on
# RTX 4090 (pytorch/pytorch#181718), about a fifth on H100 (meta-pytorch/float8_experimental#145).
MISALIGNED = {SYNCHRONOUS: 0.7, ASYNCHRONOUS: 0.2}
# What products of fp32 cannot show because arithmetic hides it: taken from the pooled synchronous half fit, rounded.
HIDDEN = {
    "launch_cycles": 4000.0, "store_efficiency_ratio": 0.7, "l2_usable_fraction": 0.7, "unit_load_bytes_per_s": 6e10,
    "latency_per_k_s": 3.8e-9, "prologue_k": 40.0, "split_s": 2.2e-6, "misaligned_ratio": 1.0,
}  # fmt: skip
TWINS = ("A100-PCIE-40GB", "A100-PCIE-80GB")  # one chip, 250 and 300 W: what differs is the power
NARROWEST = (1.0, 128.0)


def write_gemm(data_dir: Path, shelf: Path) -> list[Path]:
    """Fit everything and write it below ``shelf``, each formula's sets into the folder that is theirs."""
    return [write(s, shelf / FOLDERS[s.formula]) for s in fit_gemm(data_dir)]


def fit_gemm(data_dir: Path) -> list[FittedSet]:
    """Fit all sets from the tables in ``data_dir``; the same tables give the same sets."""
    bursts = list(read_burst(data_dir))
    half = [t for t in bursts if t.dtype == "bf16"]
    own = {t.accelerator.name: _own(t) for t in half}
    sets = [
        s
        for t in bursts
        for s in _sets_of_burst(t, own[t.accelerator.name] if t in half else _own(t), data_dir)
    ]
    sets += _pooled(half, data_dir)
    sets += _sets_of_singles(list(read_single(data_dir)), data_dir)
    by_name = {t.accelerator.name: t for t in half}
    sets += [_loops(t, own[_measured_like(t, by_name)], data_dir) for t in read_loops(data_dir)]
    return sets


def leave_one_out(data_dir: Path) -> dict[str, FitError]:
    """Predict each accelerator's held-out bf16 products by parameters fitted on the others only."""
    half = [t for t in read_burst(data_dir) if t.dtype == "bf16"]
    return {t.accelerator.name: FitError.of(*_predicted_by_others(t, half)) for t in half}


def family_of(table: ProductTable) -> str:
    """Return the pooled set that an accelerator belongs to, by its compute capability."""
    capability = float(table.accelerator.compute_capability or 0)
    return ASYNCHRONOUS if 9 <= capability < 12 else SYNCHRONOUS


def _own(table: ProductTable) -> dict[str, float]:
    """Fit one table from both ends of how waves are scheduled, and keep what describes its fitted rows better."""
    sample, predict = table.sample(OWN_ROWS), _clock(table)
    found = []
    for tail in TAILS:
        priors = {**_priors(table), "tail_fraction": replace(HALF["tail_fraction"], start=tail)}
        found.append(fit_tables([sample], priors, predict, fixed=_fixed(table), ridge=OWN_RIDGE)["all"])
    return min(found, key=lambda v: FitError.of(predict(sample, v), sample.measured_s).mean)


def _priors(table: ProductTable) -> dict[str, Prior]:
    return HALF if table.dtype == "bf16" else {**HALF, **CAST}


def _clock(table: ProductTable) -> Predict:
    return burst_time_s if table.dtype == "bf16" else cast_time_s


def _fixed(table: ProductTable) -> dict[str, float]:
    return {**NEAR, "settle_s": SETTLE_S, "misaligned_ratio": MISALIGNED[family_of(table)]}


def _sets_of_burst(table: ProductTable, values: Mapping[str, float], data_dir: Path) -> Iterator[FittedSet]:
    """Yield the kernel's set, and the one that says what the power limit did to the clock in the burst."""
    held = table.rows(table.held_out)
    error = FitError.of(_clock(table)(held, values), held.measured_s)
    beside = ", ".join(f"{n} {values[n]:.3g}" for n in BESIDE if n in values)
    gemm = _set(table, GEMM, kernel_values(values), error, data_dir)
    yield replace(
        gemm, note=f"Error with the measurement's own share: {beside}. misaligned_ratio is an assumption."
    )
    clock = {n: values[n] for n in ("flop_energy_j", "settle_s")}
    yield replace(
        _set(table, BURST_CLOCK, clock, error, data_dir), note="Fitted together with the kernel's set."
    )
    yield _harness(table, values, error, data_dir)


def _harness(table: ProductTable, values: Mapping[str, float], error: FitError, data_dir: Path) -> FittedSet:
    """Return what the table's loop adds to the kernel."""
    added = {n: values.get(n, absent) for n, absent in NO_HARNESS.items()}
    return replace(
        _set(table, HARNESS, added, error, data_dir), note="Fitted together with the kernel's set."
    )


def _pooled(half: Sequence[ProductTable], data_dir: Path) -> Iterator[FittedSet]:
    """Yield one set per family, whose error is that of leaving each accelerator out."""
    values = _fit_pool(half)
    for family, found in values.items():
        members = [t for t in half if family_of(t) == family]
        pairs = [_predicted_by_others(t, half) for t in members]
        error = FitError.of(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
        names = ", ".join(t.accelerator.name for t in members)
        pool = _set(members[0], GEMM, kernel_values(found), error, data_dir)
        yield replace(
            pool,
            accelerator=family,
            sources=[source_of(data_dir / BURST, POOLED_ROWS * len(half))],
            note=f"For relatives of {names}; error on each of them, left out of the fit in turn.",
        )


def _fit_pool(half: Sequence[ProductTable]) -> dict[str, dict[str, float]]:
    found = fit_tables(
        [t.sample(POOLED_ROWS) for t in half],
        HALF,
        burst_time_s,
        fixed={**NEAR, "settle_s": SETTLE_S, "misaligned_ratio": 1.0},  # no row of the tables is
        families=[family_of(t) for t in half],
        per_family=PER_FAMILY,
    )
    return {family: {**values, "misaligned_ratio": MISALIGNED[family]} for family, values in found.items()}


def _predicted_by_others(table: ProductTable, half: Sequence[ProductTable]) -> tuple[Any, Any]:
    others = [t for t in half if t.accelerator.name != table.accelerator.name]
    held = table.rows(table.held_out)
    return burst_time_s(held, _fit_pool(others)[family_of(table)]), held.measured_s


def _sets_of_singles(tables: Sequence[ProductTable], data_dir: Path) -> Iterator[FittedSet]:
    """Yield each accelerator's fp32 set, and the energy of an fp32 operation from two power limits of one chip."""
    twins = [t for t in tables if t.accelerator.name in TWINS]
    free = {**SINGLES, "flop_energy_j": ENERGY}
    shared = fit_tables(
        [t.sample(OWN_ROWS) for t in twins],
        free,
        loop_time_s,
        fixed={**HIDDEN, "narrowest_tile": NARROWEST[-1]},
    )["all"]
    held = [t.rows(t.held_out) for t in twins]
    error = FitError.of(
        np.concatenate([loop_time_s(t, shared) for t in held]), np.concatenate([t.measured_s for t in held])
    )
    energy = {"flop_energy_j": shared["flop_energy_j"]}
    for twin in twins:
        note = f"From {' and '.join(TWINS)}, which differ in their power limit only; error of both with shared values."
        yield replace(_set(twin, LONG_CLOCK, energy, error, data_dir), note=note)
    for table in tables:
        yield from _single(table, {**HIDDEN, **energy}, data_dir)


def _single(table: ProductTable, fixed: Mapping[str, float], data_dir: Path) -> Iterator[FittedSet]:
    sample = table.sample(OWN_ROWS)
    found = [
        fit_tables([sample], SINGLES, loop_time_s, fixed={**fixed, "narrowest_tile": width})["all"]
        for width in NARROWEST
    ]
    values = min(found, key=lambda v: FitError.of(loop_time_s(sample, v), sample.measured_s).mean)
    held = table.rows(table.held_out)
    error = FitError.of(loop_time_s(held, values), held.measured_s)
    hidden = ", ".join(HIDDEN)
    yield _harness(table, values, error, data_dir)
    yield replace(
        _set(table, GEMM, kernel_values(values), error, data_dir),
        note=f"Not identified by fp32 products and taken from the half sets: {hidden}. Error with the measurement's "
        f"own share: timing_s {values['timing_s']:.3g}, flop_energy_j {values['flop_energy_j']:.3g}.",
    )


def _measured_like(table: ProductTable, own: Mapping[str, ProductTable]) -> str:
    """Return the accelerator of the same architecture whose burst was measured."""
    name, kin = table.accelerator.name, table.accelerator.architecture
    return name if name in own else next(n for n in own if own[n].accelerator.architecture == kin)


def _loops(table: ProductTable, values: Mapping[str, float], data_dir: Path) -> FittedSet:
    fixed = {n: v for n, v in values.items() if n != "flop_energy_j"}
    found = fit_tables([table.sample(OWN_ROWS)], {"flop_energy_j": ENERGY}, loop_time_s, fixed=fixed)["all"]
    held = table.rows(table.held_out)
    error = FitError.of(loop_time_s(held, found), held.measured_s)
    return _set(table, LONG_CLOCK, {"flop_energy_j": found["flop_energy_j"]}, error, data_dir)


def _set(
    table: ProductTable, formula: str, values: Mapping[str, float], error: FitError, data_dir: Path
) -> FittedSet:
    return FittedSet(
        formula=formula,
        accelerator=table.accelerator.name,
        dtype=table.dtype,
        values={n: float(f"{v:.5g}") for n, v in values.items()},
        sources=[source_of(data_dir / table.source, int((~table.held_out).sum()))],
        command=COMMAND,
        error=error,
        valid={
            n: [float(d.min()), float(d.max())]
            for n, d in zip(("batch", "m", "n", "k"), table.dims, strict=True)
        },
    )
