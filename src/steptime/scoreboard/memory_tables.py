"""Judge tables of memory-bound kernels by the class of each row, with the loop that measured it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steptime.hardware import Accelerator
from steptime.kernels import kernel_time_s
from steptime.prediction.fits import choose
from steptime.prediction.peaks import ELEMENT_BYTES, Machines
from steptime.records.kernel_names import kernel_class
from steptime.workload.table import Operators

# Tables whose kernels read what their predecessor wrote; the others flush the cache or sweep far beyond it.
_WARM = "vllm"


def names_of(table: pd.DataFrame) -> list[str]:
    """Return for each row its class of kernels, marked where the row found its inputs in the cache."""
    none = pd.Series([""] * len(table), index=table.index)
    provider, direction = table.get("provider", none).astype(str), table.get("direction", none).astype(str)
    return [
        kernel_class(op, provider=by, backward=way == "bwd") + ("/warm" if _WARM in by else "")
        for op, by, way in zip(table["op"], provider, direction, strict=True)
    ]


def memory_bound_times_s(
    operators: Operators, dataset: str, accelerator: Accelerator, by_name: Mapping[str, Accelerator]
) -> NDArray[np.float64]:
    """Return what the table's loop would report for each row.  [s]"""
    machines = Machines.of([accelerator])
    values = choose("memory_bound", [accelerator], ["fp32"], by_name).values
    size = np.array([ELEMENT_BYTES[str(d)] for d in operators.dtype])
    time_s = np.zeros(len(operators))
    for name in np.unique(operators.name):
        chosen = operators.name == name
        plain = str(name).removesuffix("/warm")
        time_s[chosen] = _kernels_s(operators, chosen, plain, machines, values, size, warm=plain != name)
        if dataset == "memory_bound_fp32":
            time_s[chosen] += _loop_s(operators.dims[chosen, 0], plain, values)
    return time_s


def _kernels_s(
    operators: Operators, chosen: NDArray[np.bool_], name: str, machines: Machines, values: Mapping[str, Any],
    size: NDArray[np.float64], *, warm: bool,
) -> NDArray[np.float64]:  # fmt: skip
    rows, columns = operators.dims[chosen, 0], operators.dims[chosen, 1]
    if name in ("elementwise", "gather"):
        rows, columns = operators.bytes_written[chosen] / size[chosen], np.ones(len(rows))
    return kernel_time_s(
        operators.bytes_read[chosen], operators.bytes_written[chosen], kernel_class=name, rows=rows, columns=columns,
        element_bytes=size[chosen], bandwidth_bytes_per_s=machines.bandwidth_bytes_per_s, l1_bytes=machines.l1_bytes,
        l2_bytes=machines.l2_bytes, num_units=machines.num_units, clock_hz=machines.clock_hz,
        cached_fraction=float(warm), fitted=values,
    )  # fmt: skip


def _loop_s(rows: NDArray[np.float64], name: str, values: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return what the loop adds; layer norms with random numbers of rows had a loop of their own."""
    usual = values.get(f"{name}_harness_s", np.zeros(1))
    random = values.get(f"{name}_random_harness_s", np.zeros(1))
    return np.asarray(np.where((rows % 1024 != 0) & (random > 0), random, usual), dtype=np.float64)
