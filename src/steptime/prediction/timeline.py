"""The predicted step as a trace that Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from steptime.errors import InputError
from steptime.kernels import finish_time_s
from steptime.prediction.prediction import Prediction

_HOST, _DEVICE = 0, 1


def trace_events(prediction: Prediction) -> list[dict[str, Any]]:
    """Return complete events (``ph = X``, microseconds) of the host's and the device's lane."""
    t, sequence = prediction.times, prediction.sequence
    host, device = t.host_s[sequence], t.device_s[sequence]
    issued = np.cumsum(host)
    finished = finish_time_s(host, device)
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "tid": lane, "name": "thread_name", "args": {"name": name}}
        for lane, name in ((_HOST, "host issues"), (_DEVICE, prediction.accelerator.name))
    ]
    ops = t.operators
    # one event per kernel: a trace is a list of them, so this loop is the output itself
    for row, h_end, h, d_end, d in zip(sequence, issued, host, finished, device, strict=True):
        args = {"module": str(ops.module[row]), "dtype": str(ops.dtype[row]), "flops": float(ops.flops[row]),
                "bytes_read": float(ops.bytes_read[row]), "bytes_written": float(ops.bytes_written[row])}  # fmt: skip
        for lane, end, took in ((_HOST, h_end, h), (_DEVICE, d_end, d)):
            if took > 0:
                events.append(
                    {"ph": "X", "pid": 0, "tid": lane, "name": str(ops.name[row]), "cat": str(ops.phase[row]),
                     "ts": (end - took) * 1e6, "dur": took * 1e6, "args": args}
                )  # fmt: skip
    return events


def write_trace(prediction: Prediction, path: Path) -> None:
    """Write the step as Chrome trace JSON.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    content = {"traceEvents": trace_events(prediction), "displayTimeUnit": "ms",
               "otherData": {"model": prediction.model, "predicted_by": "steptime"}}  # fmt: skip
    try:
        path.write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:
        raise InputError(f"The trace cannot be written to {path}: {error.strerror or error}.") from None
