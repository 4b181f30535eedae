"""What is to be captured: a plain record that travels to the child process as JSON."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass

from steptime.errors import InputError, UnknownNameError

TASKS = ("train", "infer")
ATTENTIONS = ("sdpa", "eager")
INPUT_DTYPES = (
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)


def check_choices(*, attention: str, input_dtype: str, freeze: str) -> None:
    """Refuse options of a capture that mean nothing.

    Raises
    ------
    InputError
        Naming what is possible.
    """
    if attention not in ATTENTIONS:
        raise UnknownNameError("attention", attention, ATTENTIONS, f"Known are {', '.join(ATTENTIONS)}.")
    if input_dtype not in INPUT_DTYPES:
        raise UnknownNameError(
            "input dtype", input_dtype, INPUT_DTYPES, f"Known are {', '.join(INPUT_DTYPES)}."
        )
    try:
        re.compile(freeze)
    except re.error as error:
        raise InputError(f"'{freeze}' is no regular expression for --freeze: {error}.") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureRequest:
    """One capture: which model, on which shapes, under which recipe.

    ``batches`` are two sizes for a workload that scales with the batch, or one for a fixed one;
    ``image_size`` and ``seq_len`` of 0 mean the model's own default; ``freeze`` is a regular expression of
    the parameters' names that get no gradient; ``input_shape`` is one sample's, for modules that tell nothing.
    """

    model: str
    task: str = "train"
    precision: str = "fp32"
    batches: tuple[int, ...] = (2, 3)
    image_size: int = 0
    seq_len: int = 0
    input_shape: tuple[int, ...] = ()
    input_dtype: str = "float32"
    checkpointing: str = "none"
    freeze: str = ""
    lora_rank: int = 0
    attention: str = "sdpa"

    def __post_init__(self) -> None:
        if not self.batches or len(self.batches) > 2 or any(b < 1 for b in self.batches):
            raise InputError(
                f"A capture takes one or two batch sizes of at least 1, not {list(self.batches)}."
            )
        if (
            self.image_size < 0
            or self.seq_len < 0
            or self.lora_rank < 0
            or any(d < 1 for d in self.input_shape)
        ):
            raise InputError("Image size, sequence length, LoRA rank and input shape cannot be negative.")
        check_choices(attention=self.attention, input_dtype=self.input_dtype, freeze=self.freeze)
        if self.task not in TASKS:
            raise UnknownNameError("task", self.task, TASKS, f"A capture is for {' or '.join(TASKS)}.")

    def to_json(self) -> str:
        """Return the request as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> CaptureRequest:
        """Read what ``to_json`` wrote."""
        fields = json.loads(text)
        fields["batches"], fields["input_shape"] = tuple(fields["batches"]), tuple(fields["input_shape"])
        return cls(**fields)

    def digest(self, *versions: str) -> str:
        """Return a key for the cache: request and versions of everything that shapes the table."""
        return hashlib.sha256("\n".join([self.to_json(), *versions]).encode()).hexdigest()[:24]
