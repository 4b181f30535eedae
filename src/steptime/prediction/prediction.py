"""What is predicted for one workload on one accelerator, and how it travels as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.hardware import Accelerator
from steptime.memory import MemoryPrediction
from steptime.workload.recipe import Recipe
from steptime.workload.table import Operators

SCHEMA = "steptime.prediction/1"
PROVENANCES = ("calibrated", "transferred", "extrapolated")


@dataclass(frozen=True, kw_only=True)
class OperatorTimes:
    """Where the time of each operator row goes; every array of shape (rows,), for one occurrence."""

    operators: Operators
    device_s: NDArray[np.float64]
    host_s: NDArray[np.float64]
    compute_floor_s: NDArray[np.float64]
    memory_floor_s: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Step time, memory and throughput of one workload on one accelerator, with an 80 % interval.

    ``mfu`` is model FLOPs utilisation: FLOPs that the mathematics needs (no recomputation), over the step
    time and the dense peak of the precision's product dtype. ``hfu`` counts recomputation too.
    ``provenance`` is calibrated (this accelerator was measured), transferred (a relative of its
    architecture was), or extrapolated. ``fallbacks`` lists everything that was assumed in place of a fact.
    """

    model: str
    accelerator: Accelerator
    recipe: Recipe
    step_time_s: float
    step_time_low_s: float
    step_time_high_s: float
    forward_s: float
    backward_s: float
    optimizer_s: float
    host_s: float
    device_s: float
    roofline_s: float
    flops: float
    model_flops: float
    peak_flops_per_s: float
    num_parameters: int
    num_trainable_parameters: int
    tokens_per_sample: int
    memory: MemoryPrediction
    fits: bool
    provenance: str
    fallbacks: tuple[str, ...]
    sources: tuple[str, ...]
    times: OperatorTimes = field(repr=False)
    sequence: NDArray[np.int64] = field(repr=False)

    @property
    def samples_per_step(self) -> int:
        """Samples that one optimizer step (or one inference) works on."""
        return self.recipe.batch * self.recipe.accumulation

    @property
    def throughput_samples_per_s(self) -> float:
        """Samples per second."""
        return self.samples_per_step / self.step_time_s

    @property
    def throughput_tokens_per_s(self) -> float | None:
        """Tokens per second; None for models without tokens."""
        return self.throughput_samples_per_s * self.tokens_per_sample if self.tokens_per_sample else None

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation."""
        return self.model_flops / (self.step_time_s * self.peak_flops_per_s)

    @property
    def hfu(self) -> float:
        """Hardware FLOPs utilisation: recomputed FLOPs count as well."""
        return self.flops / (self.step_time_s * self.peak_flops_per_s)

    @property
    def bound_by(self) -> str:
        """What the step waits for: host, compute or memory."""
        if self.host_s > self.device_s:
            return "host"
        count = self.times.operators.count
        compute = float(self.times.compute_floor_s @ count)
        return "compute" if compute > float(self.times.memory_floor_s @ count) else "memory"

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as plain data, SI units; the operator table stays behind."""
        names = (
            "model", "step_time_s", "step_time_low_s", "step_time_high_s", "forward_s", "backward_s", "optimizer_s",
            "host_s", "device_s", "roofline_s", "throughput_samples_per_s", "throughput_tokens_per_s",
            "samples_per_step", "flops", "model_flops", "mfu", "hfu", "peak_flops_per_s", "bound_by",
            "num_parameters", "num_trainable_parameters", "tokens_per_sample", "fits", "provenance",
        )  # fmt: skip
        return {
            "schema": SCHEMA,
            "accelerator": self.accelerator.name,
            "recipe": asdict(self.recipe),
            **{n: getattr(self, n) for n in names},
            "peak_memory_allocated_bytes": self.memory.peak_allocated_bytes,
            "peak_memory_reserved_bytes": self.memory.peak_reserved_bytes,
            "memory": self.memory.to_dict(),
            "fallbacks": list(self.fallbacks),
            "sources": list(self.sources),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return ``to_dict`` as JSON."""
        return json.dumps(self.to_dict(), indent=indent)
