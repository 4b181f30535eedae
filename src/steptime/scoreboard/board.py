"""Judge tables and sum the verdicts up: per data set and accelerator, with the worst rows and the residuals."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steptime.prediction.interval import widening
from steptime.records.split import is_held_out, sets_intervals
from steptime.scoreboard.kernel_tables import judge_kernels
from steptime.scoreboard.score import Score, score
from steptime.scoreboard.steps import judge_steps
from steptime.scoreboard.tables import STEP_TABLES, is_memory_table, read_table, recognise
from steptime.scoreboard.verdicts import Judgement, NotMapped, Verdict

Progress = Callable[[str, int, int], None]
QUANTILES = (0.1, 0.9)
MIN_ROWS = 8
SEED = 20261201


def judge_file(
    path: Path, *, held_out: bool, limit: int, progress: Progress
) -> tuple[Judgement, pd.DataFrame]:
    """Judge one table; ``limit`` takes a sample of its rows with a fixed seed."""
    table = read_table(path)
    dataset = recognise(table, path.name)
    if dataset == "whole_models" and is_memory_table(table):
        dataset = "peak_memory"
    if dataset == "peak_memory" and not is_memory_table(table):
        dataset = "whole_models"
    if limit and len(table) > limit:
        table = table.sample(limit, random_state=SEED).sort_index()
    if dataset not in STEP_TABLES:
        return _sound(judge_kernels(table, dataset, held_out=held_out)), table
    if held_out and dataset == "timm_single_gpu":
        table = table[is_held_out(table["model"])]
    records = table.to_dict("records")
    judgement = judge_steps(records, dataset, progress)
    return _renumbered(_sound(judgement), list(table.index)), table


def _sound(judgement: Judgement) -> Judgement:
    """Set aside the rows whose measurement is no number above zero."""
    sound = [bool(0 < v.measured < np.inf) for v in judgement.verdicts]
    refused = [
        NotMapped(row=v.row, dataset=v.dataset, accelerator=v.accelerator, reason="the measurement is no number above zero")
        for v, yes in zip(judgement.verdicts, sound, strict=True)
        if not yes
    ]  # fmt: skip
    return Judgement(
        verdicts=[v for v, yes in zip(judgement.verdicts, sound, strict=True) if yes],
        not_mapped=[*judgement.not_mapped, *refused],
    )


def _renumbered(judgement: Judgement, index: Sequence[Any]) -> Judgement:
    """Give rows the numbers that they have in the file."""
    from dataclasses import replace

    return Judgement(
        verdicts=[replace(v, row=int(index[v.row])) for v in judgement.verdicts],
        not_mapped=[replace(n, row=int(index[n.row])) for n in judgement.not_mapped],
    )


def scores(judgement: Judgement) -> list[Score]:
    """Sum up per data set and accelerator."""
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for v in judgement.verdicts:
        groups.setdefault((v.dataset, v.accelerator), []).append(v)
    lost: dict[str, int] = {}
    for n in judgement.not_mapped:
        lost[n.dataset] = lost.get(n.dataset, 0) + 1
    return [_score(d, a, rows, lost.get(d.split(" ")[0], 0)) for (d, a), rows in sorted(groups.items())]


def totals(judgement: Judgement) -> list[Score]:
    """Sum up per data set, all accelerators together."""
    groups: dict[str, list[Verdict]] = {}
    for v in judgement.verdicts:
        groups.setdefault(v.dataset, []).append(v)
    lost: dict[str, int] = {}
    for n in judgement.not_mapped:
        lost[n.dataset] = lost.get(n.dataset, 0) + 1
    return [_score(d, "all", rows, lost.get(d.split(" ")[0], 0)) for d, rows in sorted(groups.items())]


def _score(dataset: str, accelerator: str, rows: Sequence[Verdict], not_mapped: int) -> Score:
    def column(name: str) -> np.ndarray[Any, Any]:
        return np.array([getattr(v, name) for v in rows], dtype=float)

    low, high, roofline = column("low"), column("high"), column("roofline")
    unseen = ~sets_intervals(v.subject for v in rows)
    judged = unseen if np.isfinite(low).all() and unseen.any() else None
    names = sorted({n for v in rows for n in v.rivals})
    rivals = {n: np.array([v.rivals.get(n, np.nan) for v in rows]) for n in names}
    return score(
        dataset, accelerator, column("measured"), column("predicted"), low=low, high=high, interval_rows=judged, roofline=roofline if np.isfinite(roofline).all() else None, rivals=rivals,
        not_mapped=not_mapped,
    )  # fmt: skip


def worst(judgement: Judgement, dataset: str, count: int = 5) -> list[Verdict]:
    """Return the rows of a data set that are furthest off."""
    mine = [v for v in judgement.verdicts if v.dataset == dataset]
    return sorted(mine, key=lambda v: -abs(v.error))[:count]


def residuals(judgement: Judgement) -> dict[str, dict[str, dict[str, float]]]:
    """Return quantiles of measured over predicted by class, wider classes behind narrower ones.

    Half of the models set them; how many measurements of the other half lie between is the scoreboard's coverage.
    """
    step: dict[str, list[float]] = {}
    other: dict[str, list[float]] = {}
    chosen = sets_intervals(v.subject for v in judgement.verdicts)
    for v in (v for v, yes in zip(judgement.verdicts, chosen, strict=True) if yes):
        ratio = v.measured / v.predicted
        kind, *rest = v.group.split("/")
        if kind in {"memory", "kernel"}:
            other.setdefault(v.group, []).append(ratio)
            continue
        family, provenance, dtype = rest
        for key in widening(kind, family, provenance, dtype):
            step.setdefault(key, []).append(ratio)
    return {"step_time": _quantiles(step), "other": _quantiles(other)}


def _quantiles(ratios: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        key: {
            "low_ratio": _order(values, QUANTILES[0]),
            "high_ratio": _order(values, QUANTILES[1]),
            "rows": len(values),
        }
        for key, values in sorted(ratios.items())
        if len(values) >= MIN_ROWS
    }


def _order(values: list[float], level: float) -> float:
    """Return the order statistic that a new row passes with probability ``level`` (split conformal prediction)."""
    n = len(values)
    rank = int(np.clip(np.floor(level * (n + 1)) if level < 0.5 else np.ceil(level * (n + 1)), 1, n))
    return round(float(np.sort(values)[rank - 1]), 4)


def write_rows(judgement: Judgement, path: Path) -> None:
    """Write the prediction beside each row; rows without one with the reason."""
    found = [
        {"dataset": v.dataset, "row": v.row, "accelerator": v.accelerator, "subject": v.subject, "measured": v.measured,
         "predicted": v.predicted, "low": v.low, "high": v.high, "roofline": v.roofline, "error": v.error,
         "not_mapped": ""} for v in judgement.verdicts
    ] + [
        {"dataset": n.dataset, "row": n.row, "accelerator": n.accelerator, "not_mapped": n.reason}
        for n in judgement.not_mapped
    ]  # fmt: skip
    pd.DataFrame(found).to_csv(path, index=False)


def write_residuals(judgement: Judgement, path: Path) -> None:
    """Write the residuals that give predictions their intervals."""
    content = {
        "schema": "steptime.residuals/1",
        "command": "steptime validate --write-residuals",
        **residuals(judgement),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
