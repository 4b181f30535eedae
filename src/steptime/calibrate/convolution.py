"""Fit the parameters of convolutions: python -m steptime.calibrate.convolution FOLDER

Five stages, each starting from the one before:

    1  forward, fp32, NVIDIA   one set for all cards, from which none may be far
    2  forward, fp32, NVIDIA   each card's own set
    3  gradients, fp32, NVIDIA ratios, from DeepBench's Pascal and Maxwell cards together
    4  AMD                     each card and dtype on its own, all directions
    5  tensor cores, NVIDIA    tiles from matrix products (a 1 × 1 convolution is one), the rest assumed
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.calibrate.convolution_tables import (
    UNLISTED,
    ConvolutionTable,
    library_calls,
    products_as_convolutions,
    single_calls,
)
from steptime.calibrate.fitted_file import FitError, FittedSet, source_of, write
from steptime.kernels.convolution import convolution_time_s

FloatArray = NDArray[np.float64]
FORMULA = "steptime.kernels.convolution.convolution_time_s"
COMMAND = "steptime calibrate convolution"
SHELF = Path(__file__).parents[1] / "data" / "fitted" / "convolution"

# Where every fit starts, and how far it may go. A value whose ends are equal is assumed, not fitted.
START: Mapping[str, tuple[float, float, float]] = {
    "ramp_s": (4e-6, 1e-6, 5e-5),
    "gemm_peak_fraction": (0.9, 0.3, 1.0),
    "small_tile_penalty": (1.0, 0.05, 8.0),
    "k_overhead": (20.0, 1.0, 400.0),
    "wave_quantisation": (0.7, 0.2, 1.0),
    "bandwidth_fraction": (0.6, 0.2, 1.0),
    "l2_usable_fraction": (0.3, 0.05, 1.0),
    "l2_bandwidth_ratio": (3.0, 1.0, 6.0),
    "alignment_bytes": (16.0, 16.0, 16.0),
    "layout_passes": (1.5, 0.2, 4.0),
    "grouped_ratio": (0.6, 0.05, 1.2),
    "grouped_channels_last_gradient_ratio": (0.06, 0.06, 0.06),
    "many_groups": (16.0, 16.0, 16.0),
    "weight_gradient_ratio": (0.8, 0.2, 1.2),
    "strided_gradient_ratio": (0.5, 0.2, 1.0),
    "k_split_least": (512.0, 16.0, 4096.0),
    "winograd_fused_peak_fraction": (0.75, 0.2, 1.0),
    "winograd_channel_overhead": (18.0, 1.0, 100.0),
    "winograd_peak_fraction": (0.9, 0.2, 1.0),
    "winograd_weight_gradient_ratio": (0.7, 0.2, 1.0),
    "filter_bandwidth_fraction": (0.3, 0.05, 1.0),
    "direct_peak_fraction": (0.15, 0.002, 0.6),
    "depthwise_peak_fraction": (0.07, 0.0005, 0.6),
    "depthwise_channels_last_peak_fraction": (0.09, 0.09, 0.09),
    "depthwise_weight_gradient_ratio": (0.35, 0.05, 1.2),
    "depthwise_channels_last_weight_gradient_ratio": (0.35, 0.35, 0.35),
}
FORWARD = (
    "gemm_peak_fraction", "small_tile_penalty", "k_overhead", "wave_quantisation", "bandwidth_fraction",
    "winograd_fused_peak_fraction", "winograd_channel_overhead", "winograd_peak_fraction",
    "filter_bandwidth_fraction",
)  # fmt: skip
GRADIENT = (
    "weight_gradient_ratio", "strided_gradient_ratio", "k_split_least", "winograd_weight_gradient_ratio",
    "direct_peak_fraction",
)  # fmt: skip
TILES = (
    "ramp_s", "gemm_peak_fraction", "small_tile_penalty", "k_overhead", "wave_quantisation",
    "bandwidth_fraction", "l2_usable_fraction", "l2_bandwidth_ratio",
)  # fmt: skip
GROUPS = ("grouped_ratio", "depthwise_peak_fraction", "depthwise_weight_gradient_ratio", "layout_passes")
ROWS = 1000  # of each table in one fit
# The host's share of one call: constant, growing with the calls made before, and with their square.
OVERHEAD_US = (50.0, 30.0, 10.0)
OVERHEAD_ENDS_US = ((5.0, 200.0), (1.0, 300.0), (0.5, 60.0))
# No operator was measured on these cards; round values near what the fit half of whole-model trainings on an
# RTX 3090 asks for when all else is simple. Whole models are what can settle them.
ASSUMED_ON_TENSOR_CORES = {
    "winograd_fused_peak_fraction": 0.0, "winograd_peak_fraction": 0.0, "layout_passes": 1.1,
    "grouped_ratio": 0.8, "grouped_channels_last_gradient_ratio": 0.05, "many_groups": 16.0,
    "weight_gradient_ratio": 1.1, "strided_gradient_ratio": 0.45, "k_split_least": 512.0,
    "direct_peak_fraction": 0.06, "depthwise_peak_fraction": 0.065,
    "depthwise_channels_last_peak_fraction": 0.1, "depthwise_weight_gradient_ratio": 0.38,
    "depthwise_channels_last_weight_gradient_ratio": 0.5,
}  # fmt: skip
# GeForce cards accumulate in fp32 at half rate, so tiles wait less for operands than on L40S; the catalogue's
# boost clock is one that they exceed.
ASSUMED_ON_GEFORCE = {
    "ramp_s": 4e-6, "gemm_peak_fraction": 1.05, "small_tile_penalty": 2.0, "k_overhead": 25.0,
    "bandwidth_fraction": 0.65, "wave_quantisation": 0.7, "l2_usable_fraction": 0.3,
    "l2_bandwidth_ratio": 3.0,
}  # fmt: skip
GEFORCE = ("RTX-3090", "RTX-4090")
_CALLS = (
    "latency of single calls: the host's share, which grows with the calls made before, was fitted beside"
)


def fit_convolution(data_dir: Path) -> list[FittedSet]:
    """Fit every set that the tables below ``data_dir`` allow."""
    calls, library = single_calls(data_dir), library_calls(data_dir)
    nvidia = [t for t in library if _by_nvidia(t, calls)]
    center = _center(calls)
    gradients = _gradients(nvidia, center)
    sets = [_own_set(t, {**center, **gradients}, nvidia) for t in calls]
    amd = [_amd_set(t) for t in library if t.accelerator.startswith("MI")]
    return [*sets, *amd, *_tensor_core_sets(products_as_convolutions(data_dir))]


def leave_one_out(data_dir: Path) -> dict[str, FitError]:
    """Predict each fp32 card's held-out rows from the other cards; only the host's share is its own."""
    calls = single_calls(data_dir)
    found = {}
    for table in calls:
        values = _center([t for t in calls if t is not table])
        overhead = _fit([table.sample(ROWS)], values, (), overhead=True)[1]
        found[table.accelerator] = _error(table, values, overhead[0])
    return found


def _by_nvidia(table: ConvolutionTable, calls: Sequence[ConvolutionTable]) -> bool:
    known = {*UNLISTED, *(t.accelerator for t in calls)}
    return table.dtype == "fp32" and table.accelerator in known


def _start(*fixed: Mapping[str, float]) -> dict[str, float]:
    values = {name: start for name, (start, _, _) in START.items()}
    for more in fixed:
        values |= more
    return values


def _center(calls: Sequence[ConvolutionTable]) -> dict[str, float]:
    return _fit([t.sample(ROWS) for t in calls], _start(), FORWARD, overhead=True)[0]


def _gradients(tables: Sequence[ConvolutionTable], center: Mapping[str, float]) -> dict[str, float]:
    """Return the ratios of the gradients, each card's speed being free beside them."""
    values, _ = _fit([t.sample(ROWS) for t in tables], dict(center), GRADIENT, overhead=True, speed=True)
    return {name: values[name] for name in GRADIENT}


def _own_set(
    table: ConvolutionTable, center: Mapping[str, float], nvidia: Sequence[ConvolutionTable]
) -> FittedSet:
    values, overhead = _fit([table.sample(ROWS)], dict(center), FORWARD, overhead=True, pull=0.3)
    rows = sum(int((~t.held_out).sum()) for t in nvidia)
    return _set(
        table, values, _error(table, values, overhead[0]),
        sources=[source_of(table.path, len(table.sample(ROWS))), source_of(nvidia[0].path, rows)],
        note=f"{_CALLS}: {', '.join(f'{o:.1f}' for o in overhead[0])} us times 1, thousands of calls, their"
        " square; gradients from Pascal and Maxwell cards; grouped and depthwise values are assumptions",
    )  # fmt: skip


def _amd_set(table: ConvolutionTable) -> FittedSet:
    everything = ("ramp_s", *FORWARD, *GRADIENT, *GROUPS)
    known = (
        {"winograd_fused_peak_fraction": 0.0, "winograd_peak_fraction": 0.0} if table.dtype != "fp32" else {}
    )
    free = [n for n in everything if n not in known and (n != "layout_passes" or known)]
    values, _ = _fit([table.sample(2 * ROWS)], _start(known), free, pull=0.1)
    sources = [source_of(table.path, len(table.sample(2 * ROWS)))]
    return _set(table, values, _error(table, values), sources=sources, note="best of MIOpen's solvers")


def _tensor_core_sets(tables: Sequence[ConvolutionTable]) -> list[FittedSet]:
    sets = []
    for table in tables:
        values, _ = _fit([table.sample(2 * ROWS)], _start(ASSUMED_ON_TENSOR_CORES), TILES, pull=0.1)
        sources = [source_of(table.path, len(table.sample(2 * ROWS)))]
        error = _error(table, values)
        note = (
            "tiles and memory from matrix products, whose error is stated;"
            " layouts, groups and gradients are assumptions"
        )
        sets += [_set(table, values, error, sources=sources, note=note, dtype=d) for d in ("bf16", "fp16")]
    values = _start(ASSUMED_ON_TENSOR_CORES, ASSUMED_ON_GEFORCE)
    note = (
        "assumption throughout: no operator was measured;"
        " round values near what whole models on an RTX 3090 ask for"
    )
    for card in GEFORCE:
        some = _set(tables[0], values, None, sources=sources, note=note, accelerator=card, dtype="fp16")
        sets.append(some)
    return sets


def _set(
    table: ConvolutionTable, values: Mapping[str, float], error: FitError | None, *,
    sources: Sequence[Mapping[str, object]], note: str, accelerator: str = "", dtype: str = "",
) -> FittedSet:  # fmt: skip
    numbers = {n: v for n, v in table.shape.items() if v.dtype.kind == "f"}
    return FittedSet(
        formula=FORMULA, accelerator=accelerator or table.accelerator, dtype=dtype or table.dtype,
        values={name: float(f"{values[name]:.4g}") for name in START}, sources=sources, command=COMMAND,
        error=error, valid={n: [float(v.min()), float(v.max())] for n, v in numbers.items()}, note=note,
    )  # fmt: skip


def _predict(
    table: ConvolutionTable, values: Mapping[str, float], overhead_us: Sequence[float]
) -> FloatArray:
    arguments: dict[str, Any] = {**table.shape, **table.facts, **values}
    kernel = convolution_time_s(**arguments)
    steps = (np.ones(len(table)), table.order, table.order**2)
    return kernel + 1e-6 * sum(o * s for o, s in zip(overhead_us, steps, strict=False))


def _error(
    table: ConvolutionTable, values: Mapping[str, float], overhead_us: Sequence[float] = ()
) -> FitError:
    unseen = table.rows(table.held_out)
    return FitError.of(_predict(unseen, values, overhead_us), unseen.measured_s)


def _fit(
    tables: Sequence[ConvolutionTable], start: dict[str, float], free: Sequence[str], *,
    overhead: bool = False, speed: bool = False, pull: float = 0.1,
) -> tuple[dict[str, float], list[list[float]]]:  # fmt: skip
    """Fit ``free`` to all tables at once; each has its own overhead and, where asked, its own speed.

    ``pull`` draws the logarithms of all values towards where they start: few rows leave them there.
    """
    from scipy.optimize import least_squares

    more = 3 * overhead + speed
    first = [start[n] for n in free] + ([*OVERHEAD_US] * overhead + [1.0] * speed) * len(tables)
    ends = [START[n][1:] for n in free] + ([*OVERHEAD_ENDS_US] * overhead + [(0.5, 1.5)] * speed) * len(
        tables
    )
    low, high = np.log(np.array(ends, dtype=float)).T + np.array([[-1e-9], [1e-9]])

    def parts(x: FloatArray) -> tuple[dict[str, float], list[list[float]]]:
        numbers = np.exp(x)
        own = numbers[len(free) :].reshape(len(tables), more).tolist() if more else [[] for _ in tables]
        return start | dict(zip(free, numbers, strict=False)), own

    def residuals(x: FloatArray) -> FloatArray:
        values, own = parts(x)
        pairs = zip(tables, own, strict=True)
        errors = [np.log(_predict(_sped(t, o[3:]), values, o[:3]) / t.measured_s) for t, o in pairs]
        count = sum(len(e) for e in errors)
        return np.concatenate([*errors, pull * 0.05 * np.sqrt(count / 100) * (x - np.log(first))])

    x = np.clip(np.log(first), low, high)
    for step in (0.05, 0.01):
        x = least_squares(
            residuals,
            x,
            bounds=(low, high),
            loss="soft_l1",
            f_scale=0.05,
            diff_step=np.array(step),
            max_nfev=40,
        ).x
    return parts(x)


def _sped(table: ConvolutionTable, speed: Sequence[float]) -> ConvolutionTable:
    """Return ``table`` as if its card computed ``speed`` times as fast."""
    peaks = {n: v * s for n, v in table.facts.items() for s in speed if n.endswith("flops_per_s")}
    return replace(table, facts={**table.facts, **peaks})


def main(arguments: Sequence[str], say: Callable[[str], None] = print) -> None:
    """Fit and write every set; say how far each is from rows that it did not see."""
    data_dir = Path(arguments[0])
    for fitted in fit_convolution(data_dir):
        path = write(fitted, SHELF)
        say(f"{path.name:30} {fitted.error}")
    for name, error in leave_one_out(data_dir).items():
        say(f"without itself: {name:20} {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
