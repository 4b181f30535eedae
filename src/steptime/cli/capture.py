"""``steptime capture``: record a model's step once, into a file that predicts without torch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from steptime.cli import options as o
from steptime.cli.output import say, working
from steptime.errors import InputError
from steptime.units import format_flops
from steptime.workload.capture import CaptureRequest, capture
from steptime.workload.file import SUFFIX, save
from steptime.workload.recipe import parse_precision
from steptime.workload.table import Workload


def capture_command(  # every option of the command is an argument
    model: o.Model,
    task: Annotated[str, typer.Option("--task", help="train or infer.")] = "train",
    precision: o.Precision = "amp-bf16",
    image_size: o.ImageSize = 0,
    seq_len: o.SeqLen = 0,
    input_shape: o.InputShape = "",
    input_dtype: o.InputDtype = "float32",
    batch: Annotated[int, typer.Option("--batch", "-b", help="Batch of a --fixed-batch capture.")] = 1,
    fixed_batch: o.FixedBatch = False,
    activation_checkpointing: o.Checkpointing = False,
    attention: o.Attention = "sdpa",
    freeze: o.Freeze = "",
    lora_rank: o.LoraRank = 0,
    time_limit: Annotated[
        float, typer.Option("--time-limit", help="Seconds after which the capture is given up.")
    ] = 300.0,
    memory_limit: Annotated[
        float, typer.Option("--memory-limit", help="GiB after which it is given up.")
    ] = 8.0,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Use what was captured before.")] = True,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; NAME.workload.json.gz here.")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Record one step of MODEL on fake tensors and write it to a file."""
    if not (0 < time_limit < math.inf and 0 < memory_limit < math.inf):
        raise InputError("--time-limit and --memory-limit must be numbers above zero.")
    known = parse_precision(precision)
    request = CaptureRequest(
        model=model, task=task,
        precision={"tf32": "fp32", "fp8": "amp-bf16"}.get(known, known),
        batches=(batch,) if fixed_batch else (2, 3), image_size=image_size, seq_len=seq_len,
        input_shape=o.parse_shape(input_shape), input_dtype=input_dtype, attention=attention, freeze=freeze,
        checkpointing="full" if activation_checkpointing else "none", lora_rank=lora_rank,
    )  # fmt: skip
    with working(f"capturing {model}"):
        workload = capture(
            request, use_cache=cache, time_limit_s=time_limit, memory_limit_bytes=int(memory_limit * 2**30)
        )
    target = output or Path(f"{_file_name(model)}.{request.task}{SUFFIX}")
    if not target.name.endswith(SUFFIX):
        raise InputError(f"A workload's file ends in {SUFFIX}; '{target.name}' does not.")
    save(workload, target)
    facts = _facts(workload, target)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        say(f"{name.replace('_', ' '):24} {value}")


def _file_name(model: str) -> str:
    return model.rpartition("/")[2].replace(":", ".").replace(".py", "").removesuffix(".json")


def _facts(workload: Workload, target: Path) -> dict[str, object]:
    at_one = workload.operators.at(workload.fixed_batch or 1)
    return {
        "file": str(target),
        "parameters": workload.num_parameters,
        "trainable_parameters": workload.num_trainable_parameters,
        "flops_per_sample": format_flops(at_one.total_flops / (workload.fixed_batch or 1)),
        "operators": len(workload.sequence),
        "distinct_operators": len(workload.operators),
        "unknown_operators": list(workload.unknown_operators),
        "notes": list(workload.notes),
    }
