"""Fit the matrix-product formula to one table or to several at once, with priors that keep it physical."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.calibrate.gemm_tables import BURST_REPEATS, ProductTable
from steptime.kernels.gemm import gemm_time_s
from steptime.kernels.gemm_clock import burst_clock_ratio, sustained_clock_ratio

Values = Mapping[str, float]
Predict = Callable[[ProductTable, Values], NDArray[np.float64]]
# Errors beyond this are weighed by their size, not its square: a library's odd choice must not bend the physics.
SOFT_ERROR = 0.05
BF16_BYTES = 2.0
# What belongs to a measurement and not to the kernel: power and its control, timing one call, casting to fp8 or fp4.
BESIDE = ("flop_energy_j", "settle_s", "timing_s", "cast_s", "cast_row_s", "cast_bytes_per_s")
# Steps of the numerical derivative, in the logarithm of a parameter: coarse over the steps of waves, then fine.
DERIVATIVE_STEPS = (0.02, 0.004)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prior:
    """Where a parameter is looked for: its start, its limits, and by what factor it may move lightly."""

    start: float
    low: float
    high: float
    width: float = 0.7


def kernel_values(values: Values) -> dict[str, float]:
    """Return what the formula takes."""
    return {n: v for n, v in values.items() if n not in BESIDE}


def product_time_s(table: ProductTable, values: Values, clock_ratio: Any = 1.0) -> NDArray[np.float64]:
    """Time of each product of a table by the formula; values that it does not take are left out."""
    batch, m, n, k = table.dims
    facts: dict[str, Any] = {**table.facts, **kernel_values(values)}
    return gemm_time_s(
        batch,
        m,
        n,
        k,
        element_bytes=table.element_bytes,
        output_bytes=table.output_bytes,
        num_operand_copies=table.num_operand_copies,
        clock_ratio=clock_ratio,
        **facts,
    )


def burst_time_s(table: ProductTable, values: Values) -> NDArray[np.float64]:
    """Time of each product in a burst: the clock falls the further, the longer the burst has lasted."""
    low = long_run_ratio(table, values)
    first = product_time_s(table, values)
    ratio = burst_clock_ratio(BURST_REPEATS * first, sustained_ratio=low, settle_s=values["settle_s"])
    return product_time_s(table, values, ratio)


def cast_time_s(table: ProductTable, values: Values) -> NDArray[np.float64]:
    """Time of a burst that casts its bf16 input first: a kernel of its own, one block per row."""
    _, m, _, k = table.dims
    traffic_bytes = m * k * (BF16_BYTES + table.element_bytes)
    cast_s = np.hypot(values["cast_row_s"] * m, traffic_bytes / values["cast_bytes_per_s"])
    return burst_time_s(table, values) + values["cast_s"] + cast_s


def loop_time_s(table: ProductTable, values: Values) -> NDArray[np.float64]:
    """Time of each product in a loop that has run for long; `timing_s` is what timing one call adds."""
    return product_time_s(table, values, long_run_ratio(table, values)) + values.get("timing_s", 0.0)


def long_run_ratio(table: ProductTable, values: Values) -> float:
    """Return the clock ratio that the power limit of the table's accelerator enforces in the end."""
    return float(
        sustained_clock_ratio(
            table.facts["peak_flops_per_s"],
            power_limit_w=table.power_limit_w,
            flop_energy_j=values["flop_energy_j"],
            compute_efficiency_ratio=values["compute_efficiency_ratio"],
        )
    )


def fit_tables(
    tables: Sequence[ProductTable],
    priors: Mapping[str, Prior],
    predict: Predict,
    *,
    fixed: Values,
    families: Sequence[str] = (),
    per_family: Sequence[str] = (),
    ridge: float = 1.0,
) -> dict[str, dict[str, float]]:
    """Fit all tables at once; return the values by family. Names in ``per_family`` differ between families.

    The loss is the soft absolute logarithm of predicted over measured, plus how far each parameter strayed from
    its prior in units of its width: 100 rows weigh as much as one width, whatever their number.
    """
    from scipy.optimize import least_squares

    families = families or ["all"] * len(tables)
    keys = [(n, f) for n in priors for f in (sorted(set(families)) if n in per_family else [""])]
    start, low, high = (
        np.log([getattr(priors[n], side) for n, _ in keys]) for side in ("start", "low", "high")
    )
    width = np.array([priors[n].width for n, _ in keys])
    weight = ridge * SOFT_ERROR * np.sqrt(sum(t.measured_s.size for t in tables) / 100)
    logs = [np.log(t.measured_s) for t in tables]

    def values_of(x: NDArray[np.float64], family: str) -> dict[str, float]:
        own = {n: float(np.exp(v)) for (n, f), v in zip(keys, x, strict=True) if f in ("", family)}
        return {**fixed, **own}

    def residuals(x: NDArray[np.float64]) -> NDArray[np.float64]:
        fits = [
            np.log(predict(t, values_of(x, f))) - y for t, f, y in zip(tables, families, logs, strict=True)
        ]
        return np.concatenate([*fits, weight * (x - start) / width])

    x = np.clip(start, low + 1e-6, high - 1e-6)
    for step in DERIVATIVE_STEPS:
        found = least_squares(
            residuals, x, bounds=(low, high), loss="soft_l1", f_scale=SOFT_ERROR, diff_step=step, max_nfev=40
        )
        x = found.x
    return {f: values_of(x, f) for f in sorted(set(families))}
