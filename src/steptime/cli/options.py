"""The options that say what is run, shared by ``predict`` and ``compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steptime.errors import InputError
from steptime.workload.models import ModelRequest
from steptime.workload.recipe import TRAINING_BATCH, Recipe, parse_precision

Model = Annotated[
    str,
    typer.Argument(
        help="A bundled model (resnet50, bert-large, llama-3-8b), timm/NAME, torchvision/NAME, a config.json, "
        "a captured workload, or file.py:factory."
    ),
]
On = Annotated[
    list[str],
    typer.Option("--on", help="Accelerator, as you would type it (a100, 'rtx 4090'); repeat for several."),
]
Batch = Annotated[
    int | None, typer.Option("--batch", "-b", help="Samples per step; 32 when training, 1 for inference.")
]
Accumulation = Annotated[int, typer.Option("--accumulation", help="Micro-batches per optimizer step.")]
Precision = Annotated[
    str, typer.Option("--precision", "-p", help="fp32, tf32, amp-fp16, amp-bf16, fp16, bf16 or fp8.")
]
Optimizer = Annotated[
    str, typer.Option("--optimizer", help="sgd, sgd-momentum, adam, adamw, adafactor, adamw8bit, ...")
]
Implementation = Annotated[
    str, typer.Option("--implementation", help="How the optimizer runs: foreach, fused or for-loop.")
]
Task = Annotated[str, typer.Option("--task", help="train, infer, prefill or decode.")]
Infer = Annotated[bool, typer.Option("--infer", help="One forward pass instead of a training step.")]
ImageSize = Annotated[int, typer.Option("--image-size", help="Pixels per side; 0 is the model's own.")]
SeqLen = Annotated[int, typer.Option("--seq-len", "-s", help="Tokens per sample; 0 is the model's default.")]
ContextLen = Annotated[int, typer.Option("--context-len", help="Tokens in the KV cache when decoding.")]
Compile = Annotated[bool, typer.Option("--compile", help="As torch.compile runs it: point-wise work merged.")]
CudaGraph = Annotated[bool, typer.Option("--cuda-graph", help="Replay the step as one CUDA graph.")]
ChannelsLast = Annotated[bool, typer.Option("--channels-last", help="Images in channels_last memory format.")]
Checkpointing = Annotated[
    bool, typer.Option("--activation-checkpointing", help="Recompute each block in the backward pass.")
]
Attention = Annotated[
    str, typer.Option("--attention", help="sdpa (one fused kernel) or eager (bmm and softmax).")
]
LoraRank = Annotated[
    int, typer.Option("--lora-rank", help="Train low-rank adapters of this rank on frozen weights.")
]
Freeze = Annotated[
    str, typer.Option("--freeze", help="Regular expression of the parameters that are not trained.")
]
InputShape = Annotated[
    str, typer.Option("--input-shape", help="One sample's shape for a factory of your own: 3,224,224.")
]
InputDtype = Annotated[str, typer.Option("--input-dtype", help="dtype of that sample: float32, int64, ...")]
FixedBatch = Annotated[
    bool, typer.Option("--fixed-batch", help="Capture at exactly --batch (for models that change with it).")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]
PlotFile = Annotated[
    Path | None, typer.Option("--plot", help="Draw roofline and breakdown to a .png, .svg or .html file.")
]


def parse_shape(text: str) -> tuple[int, ...]:
    """Read ``3,224,224``.

    Raises
    ------
    InputError
        When it is not whole numbers of at least 1 with commas between.
    """
    try:
        shape = tuple(int(part) for part in text.replace("x", ",").split(",") if part.strip())
    except ValueError:
        raise InputError(f"'{text}' is no shape: write whole numbers with commas, like 3,224,224.") from None
    if any(n < 1 for n in shape):
        raise InputError(f"'{text}' is no shape: every number must be at least 1.")
    return shape


def make_recipe(*, task: str, infer: bool, batch: int | None, precision: str, compiled: bool, cuda_graph: bool,
                checkpointing: bool, **rest: Any) -> Recipe:  # fmt: skip
    """Read the options of a run.

    Raises
    ------
    InputError
        When a value is unknown, or two contradict each other.
    """
    if compiled and cuda_graph:
        raise InputError(
            "--compile and --cuda-graph exclude each other: a compiled step is a graph of its own."
        )
    if infer and task not in {"train", "infer"}:
        raise InputError(f"--infer contradicts --task {task}: give one of them.")
    task = "infer" if infer else task
    return Recipe(
        task=task, batch=(TRAINING_BATCH if task == "train" else 1) if batch is None else batch,
        precision=parse_precision(precision), mode="compiled" if compiled else "cuda-graph" if cuda_graph else "eager",
        checkpointing="full" if checkpointing else "none", **rest,
    )  # fmt: skip


def model_request(
    name: str, recipe: Recipe, *, fixed_batch: bool, input_shape: str, **shapes: Any
) -> ModelRequest:
    """Say which workload a run needs."""
    for what, value in shapes.items():
        if isinstance(value, int) and value < 0:
            raise InputError(f"--{what.replace('_', '-')} cannot be negative.")
    return ModelRequest(
        name=name, task=recipe.task, precision=recipe.precision, checkpointing=recipe.checkpointing,
        input_shape=parse_shape(input_shape), fixed_batch=recipe.batch if fixed_batch else 0, **shapes,
    )  # fmt: skip
