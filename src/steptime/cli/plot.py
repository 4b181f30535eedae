"""Draw predictions: the roofline with every operator on it, and where the step's time goes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steptime.errors import InputError, MissingExtraError
from steptime.prediction import Prediction

_SUFFIXES = (".png", ".svg", ".html", ".pdf")
_SHARES = 8


def draw(predictions: Sequence[Prediction], path: Path) -> None:
    """Draw one row of two charts per prediction into ``path``.

    Raises
    ------
    InputError
        When the suffix is not one that we draw, or the file cannot be written.
    MissingExtraError
        When matplotlib is not installed.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"Plots are drawn to {', '.join(_SUFFIXES)}, not to '{path.suffix or path.name}'.")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("Drawing a plot", "plot") from None
    figure = Figure(figsize=(13, 4.6 * len(predictions)), layout="constrained")
    axes = figure.subplots(len(predictions), 2, squeeze=False)
    for (left, right), prediction in zip(axes, predictions, strict=True):
        _roofline(left, prediction)
        _breakdown(right, prediction)
    try:
        _save(figure, path)
    except OSError as error:
        raise InputError(f"The plot cannot be written to {path}: {error.strerror or error}.") from None


def _save(figure: Any, path: Path) -> None:
    if path.suffix.lower() != ".html":
        figure.savefig(path, dpi=130)
        return
    import io

    picture = io.StringIO()
    figure.savefig(picture, format="svg")
    svg = picture.getvalue()[picture.getvalue().index("<svg") :]
    path.write_text(f"<!doctype html><meta charset='utf-8'><title>steptime</title>{svg}\n", encoding="utf-8")


def _roofline(axis: Any, prediction: Prediction) -> None:
    t = prediction.times
    traffic = t.operators.bytes_read + t.operators.bytes_written
    shown = (t.operators.flops > 0) & (traffic > 0) & (t.device_s > 0)
    intensity = t.operators.flops[shown] / traffic[shown]
    rate = t.operators.flops[shown] / t.device_s[shown]
    weight = (t.device_s * t.operators.count)[shown]
    peak, bandwidth = prediction.peak_flops_per_s, prediction.accelerator.memory_bandwidth_bytes_per_s
    ridge = peak / bandwidth
    lowest = min(float(intensity.min(initial=ridge)), ridge) / 2
    highest = max(float(intensity.max(initial=ridge)), ridge) * 2
    axis.loglog([lowest, ridge, highest], [lowest * bandwidth, peak, peak], color="black", label="roofline")
    for kind in dict.fromkeys(t.operators.kind[shown]):
        mine = t.operators.kind[shown] == kind
        axis.scatter(
            intensity[mine], rate[mine], s=8 + 300 * weight[mine] / weight.sum(), alpha=0.6, label=str(kind)
        )
    axis.set(
        xlabel="FLOP per byte", ylabel="FLOP/s", title=f"{prediction.model} on {prediction.accelerator.name}"
    )
    axis.legend(loc="lower right", fontsize=8)


def _breakdown(axis: Any, prediction: Prediction) -> None:
    t = prediction.times
    cost = t.device_s * t.operators.count * 1e3
    kinds = np.char.add(np.char.add(t.operators.kind, " · "), t.operators.phase)
    names, inverse = np.unique(kinds, return_inverse=True)
    sums = np.bincount(inverse, weights=cost)
    order = np.argsort(-sums)[:_SHARES][::-1]
    axis.barh([str(names[i]) for i in order], sums[order], color="tab:blue")
    low, high = prediction.step_time_low_s * 1e3, prediction.step_time_high_s * 1e3
    axis.set(
        xlabel="ms on the device",
        title=f"step {prediction.step_time_s * 1e3:.3g} ms (80 %: {low:.3g} to {high:.3g})",
    )
