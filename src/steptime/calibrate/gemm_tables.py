"""Read the tables of measured matrix products into columns, with the facts of the accelerator they ran on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.calibrate.split import is_held_out
from steptime.errors import CatalogueError
from steptime.hardware import Accelerator, load_catalogue

BURST = "gemm.parquet"
SINGLE = "matmul_fp32.parquet"
LOOPS = "gemm_sustained.csv"
# Names of the tables -> ours, and the size of an element of the operands. Outputs of fp8 and fp4 are bf16.
BURST_DTYPES = {"bfloat16": ("bf16", 2.0), "fp8": ("fp8", 1.0), "nvfp4": ("fp4", 0.5)}
# The burst tables hold six layers with weights of their own that are run one after another on one input, and time
# six rounds after three of warm-up: half way through, thirty-six products have been run.
BURST_COPIES, BURST_REPEATS = 6, 36


@dataclass(frozen=True, kw_only=True, slots=True)
class ProductTable:
    """Measured products of one accelerator and dtype, in columns of shape (rows,)."""

    accelerator: Accelerator
    dtype: str
    source: str
    dims: tuple[NDArray[np.float64], ...]  # batch, m, n, k
    measured_s: NDArray[np.float64]
    held_out: NDArray[np.bool_]
    element_bytes: float
    output_bytes: NDArray[np.float64]
    num_operand_copies: float

    @property
    def facts(self) -> dict[str, float]:
        """Return what the catalogue knows, by the names of the formula's arguments."""
        card = self.accelerator
        known = {
            "peak_flops_per_s": card.peak_flops_per_s.get(self.dtype),
            "bandwidth_bytes_per_s": card.memory_bandwidth_bytes_per_s,
            "l2_bytes": card.l2_bytes,
            "num_units": card.num_units,
            "clock_hz": card.boost_clock_hz,
        }
        missing = [name for name, value in known.items() if value is None]
        if missing:
            raise CatalogueError(
                f"The catalogue lacks {', '.join(missing)} of {card.name}, needed for {self.source}."
            )
        return {name: float(value) for name, value in known.items() if value is not None}

    @property
    def power_limit_w(self) -> float:
        """Return the power limit; infinite where none is stated."""
        return float(self.accelerator.power_limit_w or np.inf)

    def rows(self, keep: NDArray[Any]) -> ProductTable:
        """Return the rows that ``keep`` names."""
        return ProductTable(
            accelerator=self.accelerator,
            dtype=self.dtype,
            source=self.source,
            dims=tuple(d[keep] for d in self.dims),
            measured_s=self.measured_s[keep],
            held_out=self.held_out[keep],
            element_bytes=self.element_bytes,
            output_bytes=self.output_bytes[keep],
            num_operand_copies=self.num_operand_copies,
        )

    def sample(self, number: int) -> ProductTable:
        """Return at most ``number`` of the rows that may be fitted, always the same ones."""
        index = np.flatnonzero(~self.held_out)
        chosen = np.random.default_rng(0).permutation(index)[:number]
        return self.rows(np.sort(chosen))


def read_burst(data_dir: Path) -> Iterator[ProductTable]:
    """Yield the replays of short CUDA graphs, one table per accelerator and dtype."""
    import pandas as pd

    everything = pd.read_parquet(data_dir / BURST).assign(batch=1)
    for (accelerator, name), rows in everything.groupby(["accelerator", "dtype"], sort=True):
        dtype, size = BURST_DTYPES[name]
        yield _table(rows, accelerator, dtype, BURST, (size, np.full(len(rows), 2.0), BURST_COPIES))


def read_single(data_dir: Path) -> Iterator[ProductTable]:
    """Yield single fp32 products. In this table n is the inner length and k the columns of the result."""
    import pandas as pd

    everything = pd.read_parquet(data_dir / SINGLE)
    everything["held_out"] = is_held_out(
        np.where(everything.op == "linear", _keys(everything, "mnk"), _keys(everything, "bmnk"))
    )
    everything = everything.rename(columns={"n": "k", "k": "n"})
    for accelerator, rows in everything.groupby("accelerator", sort=True):
        yield _table(rows, accelerator, "fp32", SINGLE, (4.0, np.full(len(rows), 4.0), 1))


def read_loops(data_dir: Path) -> Iterator[ProductTable]:
    """Yield products in training loops; a weight gradient is added to an fp32 buffer, read and written."""
    import pandas as pd

    everything = pd.read_csv(data_dir / LOOPS)
    for accelerator, rows in everything.groupby("accelerator", sort=True):
        written = np.where(rows.dtype.str.endswith("fp32out"), 8.0, 2.0)
        yield _table(rows, accelerator, "bf16", LOOPS, (2.0, written, np.inf))


def _table(
    rows: Any, accelerator: str, dtype: str, source: str, sizes: tuple[Any, Any, float]
) -> ProductTable:
    held = rows.held_out.to_numpy() if "held_out" in rows else is_held_out(_keys(rows, "mnk"))
    return ProductTable(
        accelerator=_catalogue()[accelerator],
        dtype=dtype,
        source=source,
        dims=tuple(rows[c].to_numpy(dtype=float) for c in ("batch", "m", "n", "k")),
        measured_s=rows.latency_us.to_numpy(dtype=float) * 1e-6,
        held_out=held,
        element_bytes=sizes[0],
        output_bytes=sizes[1],
        num_operand_copies=sizes[2],
    )


def _catalogue() -> Mapping[str, Accelerator]:
    return load_catalogue().by_name


def _keys(rows: Any, letters: str) -> Any:
    columns = [rows["batch" if c == "b" else c].astype(str) for c in letters]
    return list(map(",".join, zip(*columns, strict=True)))
