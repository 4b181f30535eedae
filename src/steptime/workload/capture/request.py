"""What is to be captured: a plain record that travels to the child process as JSON."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from steptime.errors import InputError


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
