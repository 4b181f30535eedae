"""Sample the project's own tables of judges from the public ones: ``python zoo/sample_judges.py DIR``.

Only rows that no fit has seen: whole tables that only judge, or rows held out by the hash. Workloads of held-out
models that must be captured are kept beside the zoo, so that judging needs no torch. One seed, so the same tables
give the same samples.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pandas as pd

from steptime.hardware import load_catalogue
from steptime.records import is_held_out
from steptime.scoreboard.cases import NotMappedError, read_case
from steptime.scoreboard.kernel_tables import READERS
from steptime.scoreboard.steps import judge_name
from steptime.scoreboard.tables import read_table
from steptime.workload.capture import capture_many
from steptime.workload.file import SUFFIX, save
from steptime.workload.models import capture_request, needs_capture

DATA = Path(__file__).resolve().parent.parent / "src" / "steptime" / "data"
SEED, PER_GROUP, NUM_MODELS = 20261201, 100, 30
KERNELS = (
    "gemm.parquet",
    "matmul_fp32.parquet",
    "attention_forward.parquet",
    "convolution_forward_fp32.parquet",
    "memory_bound_fp32.csv",
)


def sample_kernels(folder: Path) -> None:
    for name in KERNELS:
        table = read_table(folder / name)
        stem = Path(name).stem
        held = table[is_held_out(READERS[stem](table).keys)]
        groups = [c for c in ("accelerator", "dtype") if c in held]
        parts = [g.sample(min(PER_GROUP, len(g)), random_state=SEED) for _, g in held.groupby(groups)]
        sample = pd.concat(parts).drop(columns=[c for c in ("kernels",) if c in held])
        sample.assign(role="judge", source=name).to_csv(DATA / "measured" / f"{stem}.csv", index=False)


def sample_steps(folder: Path, name: str, dataset: str, *, captured: bool) -> pd.DataFrame:
    """Keep the rows that can be predicted from bundled data, or whose workload is captured on the way."""
    table = read_table(folder / name)
    if dataset == "timm_single_gpu":
        models = sorted(set(table["model"][is_held_out(table["model"])]))
        chosen = pd.Series(models).sample(NUM_MODELS, random_state=SEED)
        table = table[table["model"].isin(chosen)]
    kept, requests = [], {}
    for index, row in zip(table.index, table.to_dict("records"), strict=True):
        try:
            case = read_case(row, int(index), dataset)
        except NotMappedError:
            continue
        if not needs_capture(case.request):
            kept.append(index)
        elif captured:
            requests.setdefault(case.request, []).append(index)
    for request, rows in _keep_workloads(requests):
        del request
        kept += rows
    return table.loc[sorted(kept)]


def _keep_workloads(requests: dict) -> list:
    captures = {capture_request(r): r for r in requests}
    found = []
    for capture, workload in capture_many(list(captures)):
        if isinstance(workload, str):
            continue
        request = captures[capture]
        origin = {k: v for k, v in workload.origin.items() if k != "request"}
        from dataclasses import replace

        save(replace(workload, origin=origin), DATA / "captured" / "judge" / judge_name(request))
        found.append((request, requests[request]))
    return found


def main() -> int:
    folder = Path(sys.argv[1])
    shutil.rmtree(DATA / "captured" / "judge", ignore_errors=True)
    for old in (DATA / "measured").glob("*.csv"):
        old.unlink()
    sample_kernels(folder)
    for name, dataset, captured in (
        ("transformers_fp32_single_gpu.csv", "transformers_fp32", False), ("timm_single_gpu.parquet", "timm_single_gpu", True),
        ("whole_models.csv", "whole_models", False), ("peak_memory.csv", "peak_memory", False),
    ):  # fmt: skip
        rows = sample_steps(folder, name, dataset, captured=captured)
        rows = rows.drop(
            columns=[
                c
                for c in ("source_path", "params_m", "samples_per_s", "rel_spread", "n_runs", "power_w")
                if c in rows
            ]
        )
        rows.assign(role="judge").to_csv(DATA / "measured" / f"{Path(name).stem}.csv", index=False)
    load_catalogue()
    sizes = sum(p.stat().st_size for p in (DATA / "measured").glob("*.csv"))
    print(
        f"{sizes / 1e6:.2f} MB of tables, {len(list((DATA / 'captured' / 'judge').glob('*' + SUFFIX)))} workloads"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
