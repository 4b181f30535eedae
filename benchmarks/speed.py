"""Speed of what users wait for, whole processes and the vectorised core; run with ``make bench``.

Machines are shared and noisy: quote medians, and ratios within one run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from steptime.hardware import load_catalogue
from steptime.prediction.device_times import device_times
from steptime.workload.models import ModelRequest, load_workload

RUNS = 7
COMMANDS = {
    "steptime --help": ["--help"],
    "steptime predict resnet50 --on a100": ["predict", "resnet50", "--on", "a100"],
    "steptime predict llama-3-8b --on h100": [
        "predict",
        "llama-3-8b",
        "--on",
        "h100",
        "-b",
        "1",
        "-p",
        "bf16",
    ],
}


def median_s(act: Callable[[], object]) -> float:
    act()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def command(arguments: list[str]) -> Callable[[], object]:
    code = "from steptime.cli.main import main; main()"
    return lambda: subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)


def everywhere() -> Callable[[], object]:
    """ResNet-50 in mixed precision on every accelerator that has a rate for it."""
    catalogue = load_catalogue()
    usable = [
        a
        for a in catalogue.accelerators
        if {"fp32", "fp16"} <= set(a.peak_flops_per_s) and a.num_units and a.boost_clock_hz
    ]
    operators = load_workload(ModelRequest(name="resnet50", precision="amp-fp16")).operators.at(64)
    return lambda: device_times(
        operators, usable, catalogue.by_name, in_step="", channels_last=False, fused=False
    )


def main() -> None:
    for name, arguments in COMMANDS.items():
        print(f"{name:45} {median_s(command(arguments)) * 1e3:8.0f} ms")
    print(f"{'resnet50 on every accelerator':45} {median_s(everywhere()) * 1e3:8.1f} ms")


if __name__ == "__main__":
    main()
