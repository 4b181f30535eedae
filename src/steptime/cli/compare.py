"""``steptime compare``: one workload on several accelerators, in one table."""

from __future__ import annotations

import json

import typer

from steptime.cli import options as o
from steptime.cli.output import print_comparison, say, working


def compare_command(  # every option of the command is an argument
    model: o.Model,
    on: o.On,
    batch: o.Batch = None,
    accumulation: o.Accumulation = 1,
    precision: o.Precision = "amp-fp16",
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
    plot: o.PlotFile = None,
    as_json: o.Json = False,
) -> None:
    """Compare MODEL on several accelerators; ratios are to the first."""
    from steptime.prediction import predict_request

    recipe = o.make_recipe(
        task=task, infer=infer, batch=batch, precision=precision, compiled=compiled, cuda_graph=cuda_graph,
        checkpointing=activation_checkpointing, accumulation=accumulation, optimizer=optimizer,
        implementation=implementation, channels_last=channels_last,
    )  # fmt: skip
    request = o.model_request(
        model, recipe, fixed_batch=fixed_batch, input_shape=input_shape, image_size=image_size, seq_len=seq_len,
        context_len=context_len, attention=attention, lora_rank=lora_rank, freeze=freeze, input_dtype=input_dtype,
    )  # fmt: skip
    with working(f"predicting {model}"):
        predictions = predict_request(request, recipe, on)
    if plot is not None:
        from steptime.cli.plot import draw

        draw(predictions, plot)
        say(f"plot written to {plot}", quiet=as_json)
    if as_json:
        typer.echo(json.dumps([p.to_dict() for p in predictions], indent=2))
        return
    print_comparison(predictions)
