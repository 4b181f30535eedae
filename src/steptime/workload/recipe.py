"""How a model is trained or run: precision, optimizer, batch, recomputation, execution mode."""

from __future__ import annotations

from dataclasses import dataclass

from steptime.errors import InputError, UnknownNameError

PRECISIONS = ("fp32", "tf32", "amp-fp16", "amp-bf16", "fp16", "bf16", "fp8")
TASKS = ("train", "infer", "prefill", "decode")
MODES = ("eager", "compiled", "cuda-graph")
CHECKPOINTING = ("none", "full")
MOST_SAMPLES = 2**40  # beyond any data set
TRAINING_BATCH = 32  # samples of a training step when nobody says how many
IMPLEMENTATIONS = ("foreach", "fused", "for-loop")
_SPELLINGS = {"amp": "amp-fp16", "half": "fp16", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
              "amp_fp16": "amp-fp16", "amp_bf16": "amp-bf16", "fp16-amp": "amp-fp16", "bf16-amp": "amp-bf16",
              "mixed": "amp-bf16", "te-fp8": "fp8"}  # fmt: skip


def parse_precision(text: str) -> str:
    """Return the canonical name of a precision as a person spells it.

    Raises
    ------
    UnknownNameError
        When nothing is called that.
    """
    name = _SPELLINGS.get(text.lower().strip(), text.lower().strip())
    if name not in PRECISIONS:
        raise UnknownNameError("precision", text, PRECISIONS, f"Known are {', '.join(PRECISIONS)}.")
    return name


def product_dtype(precision: str) -> str:
    """Return the dtype in which a precision multiplies matrices."""
    return precision.removeprefix("amp-")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How a workload is run on one accelerator.

    ``batch`` is the micro-batch; ``accumulation`` micro-batches make one optimizer step.
    """

    task: str = "train"
    precision: str = "fp32"
    batch: int = 1
    accumulation: int = 1
    optimizer: str = "adamw"
    implementation: str = "foreach"
    mode: str = "eager"
    channels_last: bool = False
    checkpointing: str = "none"
    expandable_segments: bool = False

    def __post_init__(self) -> None:
        _one_of("task", self.task, TASKS)
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("execution mode", self.mode, MODES)
        _one_of("activation checkpointing", self.checkpointing, CHECKPOINTING)
        _one_of("optimizer implementation", self.implementation, IMPLEMENTATIONS)
        for name in ("batch", "accumulation"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"The {name} must be a whole number of at least 1, not {value!r}.")
            if value > MOST_SAMPLES:
                raise InputError(f"The {name} can be {MOST_SAMPLES:,} at most, not {value:,}.")

    @property
    def trains(self) -> bool:
        """Whether there is a backward pass and an optimizer step."""
        return self.task == "train"


def _one_of(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UnknownNameError(what, value, known, f"Known are {', '.join(known)}.")
