"""Capture every model of zoo.toml anew: ``make zoo`` (needs the extra ``torch``, and diffusers for one model)."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from pathlib import Path

from rich.progress import track

from steptime.workload.capture import CaptureRequest, capture_many
from steptime.workload.file import SUFFIX, save

ROOT = Path(__file__).resolve().parent
TARGET = ROOT.parent / "src" / "steptime" / "data" / "captured" / "zoo"


def main() -> int:
    models = tomllib.loads((ROOT / "zoo.toml").read_text(encoding="utf-8"))["models"]
    wanted = {
        CaptureRequest(
            model=spec.replace("zoo/", f"{ROOT}/"), task=task, precision=precision
        ): f"{stem}.{task}.{precision}"
        for stem, spec in models.items()
        for task in ("train", "infer")
        for precision in ("fp32", "amp-fp16")
    }
    failed = 0
    for request, workload in track(capture_many(list(wanted)), total=len(wanted), description="capturing"):
        if isinstance(workload, str):
            print(f"{wanted[request]}: {workload}", file=sys.stderr)
            failed += 1
            continue
        stem = wanted[request].split(".")[0]
        origin = {k: v for k, v in workload.origin.items() if k != "request"}
        save(replace(workload, model=stem, origin=origin), TARGET / f"{wanted[request]}{SUFFIX}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
