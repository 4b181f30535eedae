"""Judge tables of matrix products at the clock, and with the loop, that measured them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.hardware import Accelerator
from steptime.kernels import burst_clock_ratio, gemm_time_s, sustained_clock_ratio
from steptime.prediction.fits import choose
from steptime.prediction.peaks import Machines
from steptime.records.harness import loop_time_s
from steptime.workload.table import Operators

# How a table was measured: products with weights of their own that take turns, and products run when a row was timed.
# Source: the collector's description of the burst table; one product in a loop for the others.
_COPIES = {"gemm": 6, "matmul_fp32": 1, "gemm_sustained": np.inf}
_BURST_PRODUCTS = 36
_SIZES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "fp4": 0.5}


def product_times_s(
    operators: Operators, dataset: str, accelerator: Accelerator, by_name: Mapping[str, Accelerator]
) -> NDArray[np.float64]:
    """Return what the table's loop would report for each row, all of one dtype.  [s]"""
    dtype = str(operators.dtype[0])
    machines = Machines.of([accelerator])
    dtypes = machines.effective_dtypes(dtype)
    fit = choose("gemm", [accelerator], dtypes, by_name).values
    burst = dataset == "gemm"
    clock = choose("burst" if burst else "sustained", [accelerator], dtypes, by_name).values
    size = _SIZES[dtype]
    batch, m, n, k = operators.dims[:, :4].T
    facts: dict[str, Any] = {
        "element_bytes": size, "output_bytes": max(size, 2.0), "peak_flops_per_s": machines.peak(dtype),
        "bandwidth_bytes_per_s": machines.bandwidth_bytes_per_s, "l2_bytes": machines.l2_bytes,
        "num_units": machines.num_units, "clock_hz": machines.clock_hz, "num_operand_copies": _COPIES[dataset], **fit,
    }  # fmt: skip
    low = sustained_clock_ratio(
        machines.peak(dtype), power_limit_w=machines.power_limit_w, flop_energy_j=clock["flop_energy_j"],
        compute_efficiency_ratio=fit["compute_efficiency_ratio"],
    )  # fmt: skip
    if burst:
        first = gemm_time_s(batch, m, n, k, **facts)
        low = burst_clock_ratio(_BURST_PRODUCTS * first, sustained_ratio=low, settle_s=clock["settle_s"])
    kernel = gemm_time_s(batch, m, n, k, clock_ratio=low, **facts)
    cast = m * k * (2.0 + size) if burst and size < 2 else np.zeros(len(m))
    harness = choose("harness", [accelerator], dtypes, by_name).values
    return loop_time_s(
        kernel, m, cast, **(harness if dataset != "gemm_sustained" else {**harness, "timing_s": 0.0})
    )
