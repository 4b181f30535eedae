"""Read the tables of measured convolutions into columns, with the facts of the accelerator they ran on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.calibrate.split import is_held_out
from steptime.errors import CatalogueError
from steptime.workload.operator import Direction

SINGLE_CALLS = "convolution_forward_fp32.parquet"
LIBRARIES = "convolution.parquet"
PRODUCTS = "gemm.parquet"
FACTS = "accelerators.csv"
SIZES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0}
DIRECTIONS = {
    "fwd": Direction.FORWARD,
    "bwd_data": Direction.DATA_GRADIENT,
    "bwd_weight": Direction.WEIGHT_GRADIENT,
}
_GIGA, _TERA, _MEBI = 1e9, 1e12, 1024.0**2
# Cards that DeepBench measured and the catalogue leaves out: fp32 Tflop/s, GB/s, units, MiB of L2 cache.
# Source: NVIDIA's product pages and the white papers of GM200, GP100 and GP102.
UNLISTED = {
    "GTX-1080-Ti": (11.34, 484.0, 28.0, 2.75),
    "TITAN-Xp": (12.15, 547.7, 30.0, 3.0),
    "TITAN-X-Pascal": (10.97, 480.0, 28.0, 3.0),
    "M40": (6.84, 288.0, 24.0, 3.0),
    "GTX-TITAN-X": (6.69, 336.5, 24.0, 3.0),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvolutionTable:
    """Measured convolutions of one accelerator and dtype, in columns of shape (rows,)."""

    accelerator: str
    dtype: str
    path: Path
    shape: Mapping[str, NDArray[Any]]  # arguments of the formula that differ from row to row
    facts: Mapping[str, float]  # arguments of the formula that the accelerator fixes
    measured_s: NDArray[np.float64]
    order: NDArray[np.float64]  # thousands of measurements taken before, on this accelerator
    held_out: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.measured_s)

    def rows(self, keep: NDArray[Any]) -> ConvolutionTable:
        """Return the rows that ``keep`` names."""
        return replace(
            self,
            shape={n: v[keep] for n, v in self.shape.items()},
            measured_s=self.measured_s[keep],
            order=self.order[keep],
            held_out=self.held_out[keep],
        )

    def sample(self, number: int) -> ConvolutionTable:
        """Return at most ``number`` of the rows that may be fitted, always the same ones."""
        chosen = np.random.default_rng(0).permutation(np.flatnonzero(~self.held_out))[:number]
        return self.rows(np.sort(chosen))


def single_calls(data_dir: Path) -> list[ConvolutionTable]:
    """Read the single-precision forward convolutions that were timed call by call."""
    path = data_dir / "measured" / SINGLE_CALLS
    table = _read(path)
    size, ones = table.input_size.to_numpy(float), np.ones(len(table))
    table = table.assign(
        dtype="fp32", direction=str(Direction.FORWARD), layout="NCHW", groups=ones, stride_h=table.stride,
        stride_w=table.stride, in_h=size, in_w=size, kh=table.kernel_size, kw=table.kernel_size,
    )  # fmt: skip
    out = (size + 2 * table.padding - table.kernel_size) // table.stride + 1
    columns = ["batch", "in_channels", "out_channels", "kernel_size", "input_size", "stride"]
    return _tables(path, table.assign(out_h=out, out_w=out), columns, data_dir)


def library_calls(data_dir: Path) -> list[ConvolutionTable]:
    """Read the tables of DeepBench and MIOpen: three directions, several dtypes."""
    path = data_dir / "measured" / LIBRARIES
    table = _read(path)
    table = table[(table.quality == "ok") & table.dtype.isin(list(SIZES))]
    table = table.assign(direction=table.direction.map(DIRECTIONS).astype(str))
    columns = [
        "batch",
        "in_channels",
        "out_channels",
        "in_h",
        "in_w",
        "kh",
        "kw",
        "stride_h",
        "stride_w",
        "groups",
    ]
    return _tables(path, table, columns, data_dir)


def products_as_convolutions(data_dir: Path) -> list[ConvolutionTable]:
    """Read bf16 matrix products of the size of convolutions: each is a 1 × 1 convolution of m points."""
    path = data_dir / "measured" / PRODUCTS
    table = _read(path)
    usual = (table.m >= 1024) & (table.k <= 9216) & (table.n <= 4096)
    table = table[(table.dtype == "bfloat16") & usual]
    ones = np.ones(len(table))
    sizes = dict.fromkeys(
        ["in_h", "in_w", "out_h", "out_w", "kh", "kw", "stride_h", "stride_w", "groups"], ones
    )
    table = table.assign(
        dtype="bf16", direction=str(Direction.FORWARD), layout="NHWC", batch=table.m, in_channels=table.k,
        out_channels=table.n, **sizes,
    )  # fmt: skip
    return _tables(path, table, ["m", "n", "k"], data_dir)


def _read(path: Path) -> Any:
    import pandas as pd

    if not path.exists():
        raise CatalogueError(f"{path.name} is missing; name the folder that holds the measured tables.")
    return pd.read_parquet(path)


def _tables(path: Path, table: Any, key_columns: list[str], data_dir: Path) -> list[ConvolutionTable]:
    facts = card_facts(data_dir)
    keys = table[key_columns].astype(int).astype(str).agg(",".join, axis=1)
    table = table.assign(held_out=is_held_out(keys), order=table.groupby("accelerator").cumcount() / 1000)
    found = []
    for (accelerator, dtype), part in table.groupby(["accelerator", "dtype"], sort=True):
        known = facts.get((accelerator, dtype))
        if known:
            found.append(_table(path, str(accelerator), str(dtype), part, known))
    return found


def _table(
    path: Path, accelerator: str, dtype: str, part: Any, facts: Mapping[str, float]
) -> ConvolutionTable:
    names = {
        "batch": "batch", "c_in": "in_channels", "c_out": "out_channels", "groups": "groups",
        "in_height": "in_h", "in_width": "in_w", "out_height": "out_h", "out_width": "out_w",
        "kernel_height": "kh", "kernel_width": "kw", "stride_height": "stride_h",
        "stride_width": "stride_w",
    }  # fmt: skip
    shape: dict[str, NDArray[Any]] = {ours: part[theirs].to_numpy(float) for ours, theirs in names.items()}
    shape["direction"] = part.direction.to_numpy(str)
    shape["channels_last"] = (part.layout != "NCHW").to_numpy(bool)
    return ConvolutionTable(
        accelerator=accelerator, dtype=dtype, path=path, shape=shape,
        facts={**facts, "element_bytes": SIZES[dtype], "tensor_cores": float(dtype != "fp32")},
        measured_s=part.latency_us.to_numpy(float) * 1e-6, order=part.order.to_numpy(float),
        held_out=part.held_out.to_numpy(bool),
    )  # fmt: skip


def card_facts(data_dir: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Return the arguments that an accelerator and a dtype fix, where the dtype has a peak rate."""
    import pandas as pd

    listed = pd.read_csv(data_dir / FACTS).set_index("name")
    columns = ["fp32_tflops", "memory_bandwidth_gb_per_s", "compute_units", "l2_mib"]
    found = {
        (str(name), dtype): _card(row[f"{dtype}_tflops"], *(row[c] for c in columns))
        for name, row in listed.iterrows()
        for dtype in ("fp32", "fp16", "bf16")
        if not np.isnan([row[f"{dtype}_tflops"], *(row[c] for c in columns)]).any()
    }
    return found | {(name, "fp32"): _card(card[0], *card) for name, card in UNLISTED.items()}


def _card(
    tflops: float, fp32_tflops: float, gb_per_s: float, units: float, l2_mib: float
) -> dict[str, float]:
    return {
        "peak_flops_per_s": tflops * _TERA, "vector_peak_flops_per_s": fp32_tflops * _TERA,
        "bandwidth_bytes_per_s": gb_per_s * _GIGA, "num_units": units, "l2_bytes": l2_mib * _MEBI,
    }  # fmt: skip
