"""The child process of a capture: user code may hang, abort or eat memory, and only takes this with it.

python -m steptime.workload.capture.worker OUTPUT     one request from standard input
python -m steptime.workload.capture.worker --serve    many, one JSON line each, forked after the imports
"""

from __future__ import annotations

import collections
import json
import logging
import os
import re
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from steptime.errors import CaptureError, InputError, StepTimeError
from steptime.workload.capture.request import CaptureRequest
from steptime.workload.table import ParameterGroup, Workload

EXIT_REFUSED = 3  # the request cannot be captured; the reason is on standard output as JSON


def _parameter_groups(module: Any) -> list[ParameterGroup]:
    from steptime.workload.capture.session import DTYPES

    shapes = collections.Counter(
        (tuple(p.shape), p.requires_grad, DTYPES.get(p.dtype, "int")) for p in module.parameters()
    )
    return [
        ParameterGroup(shape=shape, count=count, trainable=trainable, dtype=dtype)
        for (shape, trainable, dtype), count in shapes.items()
    ]


def _prepare(module: Any, request: CaptureRequest) -> None:
    """Set the module up as the request trains it: mode, frozen parameters, adapters, recomputation, dtype."""
    from steptime.workload.capture import adapt

    module.train(request.task == "train")
    if request.freeze:
        adapt.freeze(module, request.freeze)
    if request.lora_rank:
        adapt.add_lora(module, request.lora_rank)
    if request.checkpointing == "full" and not getattr(module, "is_gradient_checkpointing", False):
        adapt.checkpoint_blocks(module)
    if request.precision in {"bf16", "fp16"}:
        adapt.to_dtype(module, request.precision)


def capture_here(request: CaptureRequest) -> Workload:
    """Capture in this process (the child's side; also for tests that trust their module)."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from steptime.workload.capture.fake import to_fake
    from steptime.workload.capture.session import record_step
    from steptime.workload.capture.sources import build
    from steptime.workload.trace import merge, same_structure

    torch.backends.mha.set_fastpath_enabled(False)
    built = build(request)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    _prepare(built.module, request)
    to_fake(built.module, mode)
    autocast = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16, "fp8": torch.bfloat16}.get(
        request.precision
    )
    unknown: set[str] = set()
    notes: set[str] = set()

    def record(batch: int) -> Any:
        built.module.zero_grad(set_to_none=True)
        trace, new_unknown, new_notes = record_step(
            built.module, lambda: _cast_inputs(built.make_inputs(batch), request.precision),
            built.loss_of if request.task == "train" else None,
            mode=mode, autocast=autocast, causal_mask=built.causal_mask,
        )  # fmt: skip
        unknown.update(new_unknown)
        notes.update(new_notes)
        return trace

    notes.update(built.notes)
    with built.around():
        traces = [record(batch) for batch in request.batches]
        if len(traces) == 2 and not same_structure(*traces):
            # a module that caches something in its first call is recorded again in its steady state
            traces[0] = record(request.batches[0])
    return merge(
        traces, request.batches, model=request.model, task=request.task, precision=request.precision,
        parameters=_parameter_groups(built.module), image_size=built.image_size,
        tokens_per_sample=built.tokens_per_sample, unknown_operators=tuple(sorted(unknown)),
        notes=tuple(sorted(notes)),
        origin={**built.origin, "torch": torch.__version__, "request": json.loads(request.to_json())},
    )  # fmt: skip


def _cast_inputs(inputs: Any, precision: str) -> Any:
    """Give a half-precision model inputs of its dtype."""
    import torch

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    if dtype is None:
        return inputs
    return torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, inputs
    )


def _where_in_user_code(error: BaseException) -> str:
    """Point at the deepest frame outside torch and steptime."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {Path(error.filename).name}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f
        for f in frames
        if not re.search(
            r"[/\\](torch|steptime|lib[/\\]python3[^/\\]*(?![/\\]site-packages))[/\\]|^<", f.filename
        )
    ]
    return f" at {Path(own[-1].filename).name}:{own[-1].lineno} ({own[-1].line})" if own else ""


def explain_failure(error: BaseException, model: str) -> StepTimeError:
    """Turn whatever a model raised into one sentence with a way out."""
    if isinstance(error, StepTimeError):
        return error
    name, text = type(error).__name__, " ".join(str(error).split())[:300]
    where = _where_in_user_code(error)
    if name in {
        "DataDependentOutputException",
        "GuardOnDataDependentSymNode",
        "DynamicOutputShapeException",
    } or ("Local scalar" in text or "data-dependent" in text.lower()):
        return CaptureError(
            f"{model} branches on the values of its tensors{where}: without data they are not known. "
            "Replace the branch by a fixed one for the capture (for example an argument or an attribute that skips it)."
        )
    return CaptureError(f"{model} raised {name}{where}: {text}")


def run(request: CaptureRequest, output: Path) -> int:
    """Capture and write the workload; report a refusal on standard output; return the exit code."""
    from steptime.workload.file import save

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    try:
        save(capture_here(request), output)
    except (Exception, SystemExit) as error:  # whatever user code raises becomes one sentence
        told = explain_failure(error, request.model)
        kind = "InputError" if isinstance(told, InputError) else "CaptureError"
        print(json.dumps({"error": kind, "message": str(told)}), flush=True)  # noqa: T201  # the parent reads it
        return EXIT_REFUSED
    print(json.dumps({"ok": str(output)}), flush=True)  # noqa: T201
    return 0


def _serve() -> None:
    """Fork one grandchild per line; the imports are paid once."""
    import torch

    from steptime.workload.capture.torchvision_schemas import declare_missing_operators

    torch.set_num_threads(1)
    declare_missing_operators()
    for library in ("timm", "transformers"):
        try:
            __import__(library)
        except ImportError:
            continue
    import torch._dynamo
    import torch.nn.attention  # what the first capture would import

    for line in sys.stdin:
        job = json.loads(line)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os._exit(_serve_one(job))
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, EXIT_REFUSED):
            message = f"the capture process ended with code {code}"
            print(json.dumps({"error": "CaptureError", "message": message}), flush=True)  # noqa: T201


def _serve_one(job: dict[str, Any]) -> int:
    import signal

    signal.alarm(int(job.get("time_limit_s", 300)))
    code = run(CaptureRequest.from_json(json.dumps(job["request"])), Path(job["output"]))
    sys.stdout.flush()
    return code


def main() -> None:
    """Entry point of the child process."""
    if sys.argv[1:] == ["--serve"]:
        _serve()
        return
    sys.exit(run(CaptureRequest.from_json(sys.stdin.read()), Path(sys.argv[1])))


if __name__ == "__main__":
    main()
