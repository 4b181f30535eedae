"""``steptime predict``: one workload on one or more accelerators, in detail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from steptime.cli import options as o
from steptime.cli.output import print_explanation, print_prediction, say, working
from steptime.errors import InputError


def predict_command(  # every option of the command is an argument
    model: o.Model,
    on: o.On,
    batch: o.Batch = None,
    accumulation: o.Accumulation = 1,
    precision: o.Precision = "amp-bf16",
    optimizer: o.Optimizer = "adamw",
    implementation: o.Implementation = "foreach",
    task: o.Task = "train",
    infer: o.Infer = False,
    image_size: o.ImageSize = 0,
    seq_len: o.SeqLen = 0,
    context_len: o.ContextLen = 0,
    compiled: o.Compile = False,
    cuda_graph: o.CudaGraph = False,
    channels_last: o.ChannelsLast = False,
    activation_checkpointing: o.Checkpointing = False,
    attention: o.Attention = "sdpa",
    lora_rank: o.LoraRank = 0,
    freeze: o.Freeze = "",
    input_shape: o.InputShape = "",
    input_dtype: o.InputDtype = "float32",
    fixed_batch: o.FixedBatch = False,
    largest_batch: Annotated[
        bool, typer.Option("--largest-batch", help="Also find the largest batch that fits.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what bounds the step, by operator and module.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Write the step as a Chrome/Perfetto trace.")
    ] = None,
    plot: o.PlotFile = None,
    as_json: o.Json = False,
) -> None:
    """Predict step time, memory and throughput of MODEL on an accelerator."""
    from steptime.prediction import explain as explanation_of
    from steptime.prediction import largest_batch_of, predict_request

    recipe = o.make_recipe(
        task=task, infer=infer, batch=batch, precision=precision, compiled=compiled, cuda_graph=cuda_graph,
        checkpointing=activation_checkpointing, accumulation=accumulation, optimizer=optimizer,
        implementation=implementation, channels_last=channels_last,
    )  # fmt: skip
    if trace is not None and len(on) > 1:
        raise InputError("--trace writes one step: give a single --on.")
    request = o.model_request(
        model, recipe, fixed_batch=fixed_batch, input_shape=input_shape, image_size=image_size, seq_len=seq_len,
        context_len=context_len, attention=attention, lora_rank=lora_rank, freeze=freeze, input_dtype=input_dtype,
    )  # fmt: skip
    with working(f"predicting {model}"):
        predictions = predict_request(request, recipe, on)
        largest = [
            largest_batch_of(request, recipe, p.accelerator) if largest_batch else None for p in predictions
        ]
    if trace is not None:
        from steptime.prediction.timeline import write_trace

        write_trace(predictions[0], trace)
        say(f"trace written to {trace}; open it at ui.perfetto.dev or chrome://tracing", quiet=as_json)
    if plot is not None:
        from steptime.cli.plot import draw

        draw(predictions, plot)
        say(f"plot written to {plot}", quiet=as_json)
    if as_json:
        found = [
            {**p.to_dict(), **({"largest_batch": n} if largest_batch else {}),
             **({"explanation": explanation_of(p).to_dict()} if explain else {})}
            for p, n in zip(predictions, largest, strict=True)
        ]  # fmt: skip
        typer.echo(json.dumps(found[0] if len(found) == 1 else found, indent=2))
        return
    for prediction, most in zip(predictions, largest, strict=True):
        print_prediction(prediction, most)
        if explain:
            print_explanation(explanation_of(prediction))
