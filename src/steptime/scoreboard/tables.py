"""Read a table of measurements and recognise by its columns which one it is."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pandas as pd

from steptime.errors import InputError

STEP_TABLES = ("timm_single_gpu", "transformers_fp32", "whole_models", "peak_memory")
_LATER = ("nccl_single_node", "llm_training", "gemm_power", "rnn")


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV or Parquet file.

    Raises
    ------
    InputError
        When the file is missing, damaged or of another kind.
    """
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path).reset_index(drop=True)
        if path.suffix == ".csv":
            return pd.read_csv(path, low_memory=False).reset_index(drop=True)
    except Exception as error:  # readers raise a dozen kinds for damaged files
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}.") from None
    raise InputError(f"{path.name}: measurements are read from .csv and .parquet files.")


def recognise(table: pd.DataFrame, where: str) -> str:
    """Name the data set that a table's columns make it.

    Raises
    ------
    InputError
        When the columns are those of none, or of one that is not judged yet.
    """
    columns = set(table.columns)
    if "accelerator" not in columns:
        raise InputError(f"{where} has no column 'accelerator', so its rows cannot be predicted.")
    for name, needed in _COLUMNS:
        if needed <= columns:
            if name in _LATER:
                raise InputError(f"{where} looks like {name}, which is not judged yet.")
            return name
    raise InputError(
        f"{where} has columns of no table that is known ({', '.join(n for n, _ in _COLUMNS if n not in _LATER)}); "
        f"it has {', '.join(sorted(columns)[:12])}."
    )


# Most particular first: the first whose columns are all there names the table.
_COLUMNS: tuple[tuple[str, set[str]], ...] = (
    ("nccl_single_node", {"message_bytes", "n_gpus", "latency_us"}),
    ("llm_training", {"tp", "pp", "step_ms"}),
    ("gemm_power", {"power_w", "m", "n", "k"}),
    ("rnn", {"cell", "timesteps", "hidden"}),
    ("transformers_fp32", {"model", "task", "measured_ms", "seq_len"}),
    ("timm_single_gpu", {"model", "task", "step_ms", "torch"}),
    ("peak_memory", {"model", "peak_memory_gb", "memory_kind", "batch"}),
    ("whole_models", {"model", "task", "measured_what"}),
    ("convolution_forward_fp32", {"kernel_size", "input_size", "latency_us"}),
    ("convolution", {"kh", "kw", "in_channels", "latency_us"}),
    ("gemm_sustained", {"m", "n", "k", "layout", "latency_us"}),
    ("matmul_fp32", {"m", "n", "k", "op", "latency_us"}),
    ("gemm", {"m", "n", "k", "latency_us"}),
    ("attention_training", {"q_len", "kv_len", "heads", "latency_us"}),
    ("attention_forward", {"seq_len", "heads", "head_dim", "latency_us"}),
    ("memory_bound_half", {"rows", "columns", "bytes_read", "latency_us"}),
    ("memory_bound_fp32", {"op", "rows", "columns", "latency_us"}),
)


def is_memory_table(table: pd.DataFrame) -> bool:
    """Tell a table of peak memory from one of throughput: both have the other's columns, mostly empty."""
    return bool(table["peak_memory_gb"].notna().mean() > 0.5) if "peak_memory_gb" in table else False


def own_tables() -> list[Path]:
    """Return the project's own tables of judges."""
    folder = Path(str(resources.files("steptime").joinpath("data", "measured")))
    return sorted(folder.glob("*.csv"))
