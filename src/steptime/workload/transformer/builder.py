"""From a Hugging Face configuration to a workload, without torch."""

from __future__ import annotations

import collections
from dataclasses import replace

from steptime.errors import InputError
from steptime.workload.table import ParameterGroup, Workload
from steptime.workload.trace import Trace, merge
from steptime.workload.transformer.blocks import Shape
from steptime.workload.transformer.config import Config, decoder_fields, field
from steptime.workload.transformer.experts import BALANCED
from steptime.workload.transformer.families import FAMILIES, uses_experts
from steptime.workload.transformer.tape import Tape

DEFAULT_SEQ_LEN = 512
_BATCHES = (2, 3)
_ENCODER_DECODERS = ("t5", "switch_transformers")


def can_build(config: Config) -> bool:
    """Tell whether a configuration's family is known here."""
    return config.get("model_type") in FAMILIES


def build_transformer(
    config: Config, *, task: str = "train", precision: str = "fp32", seq_len: int = 0, attention: str = "sdpa",
    checkpointing: str = "none", lora_rank: int = 0, context_len: int = 0, name: str = "",
) -> Workload:  # fmt: skip
    """Build the workload of one training step or one inference.

    Parameters
    ----------
    config : mapping
        A config.json.
    task : str
        train, infer (a forward pass), prefill, or decode (one token against ``context_len`` cached ones).
    precision : str
        fp32, tf32, amp-fp16, amp-bf16, fp16 or bf16.
    seq_len : int
        Tokens of a sample; 0 takes 512, or all positions of a model with fewer.
    attention : str
        sdpa or eager.
    checkpointing : str
        none; full recomputation is captured through torch.
    lora_rank : int
        Train adapters of this rank on frozen weights.
    context_len : int
        Tokens in the cache when decoding.

    Raises
    ------
    InputError
        When the family is unknown, a field is missing, or a length is not possible.
    """
    if not can_build(config):
        raise InputError(
            f"Configurations of type '{config.get('model_type')}' are not built here ({', '.join(FAMILIES)} are): "
            "install steptime[torch] and give hf/PATH to capture it."
        )
    if checkpointing != "none":
        raise InputError(
            "Activation checkpointing of a configuration is captured through torch: install steptime[torch]."
        )
    limit = int(field(config, "max_position_embeddings", "n_positions", default=1 << 20))
    tokens = 1 if task == "decode" else seq_len or min(DEFAULT_SEQ_LEN, limit)
    if (
        config.get("model_type") in {"bert", "roberta", "gpt2", "opt", "distilbert"}
        and tokens + context_len > limit
    ):
        raise InputError(f"This model has {limit} positions; {tokens + context_len} tokens do not fit.")
    if task == "decode" and context_len < 1:
        raise InputError("Decoding needs --context-len: how many tokens are in the cache.")
    traces: list[Trace] = []
    parameters: list[ParameterGroup] = []
    for batch in _BATCHES:
        shape = Shape(batch=batch, tokens=tokens, cached=context_len if task == "decode" else 0, attention=attention,
                      lora_rank=lora_rank, trains_base=not lora_rank)  # fmt: skip
        try:
            trace, parameters = _trace(config, shape, trains=task == "train", precision=precision)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise InputError(
                f"The configuration of type '{config.get('model_type')}' describes no model that can be built "
                f"({type(error).__name__}: {error}): compare its fields with a published one."
            ) from None
        traces.append(trace)
    workload = merge(
        traces, _BATCHES, model=name or str(config.get("model_type")), task=task, precision=precision,
        parameters=parameters, tokens_per_sample=tokens, notes=(BALANCED,) if uses_experts(config) else (),
        origin={"builder": "transformer", "model_type": config.get("model_type")},
    )  # fmt: skip
    return replace(workload, precision=precision)


def _trace(
    config: Config, shape: Shape, *, trains: bool, precision: str
) -> tuple[Trace, list[ParameterGroup]]:
    half = precision.removeprefix("amp-") if precision.startswith("amp-") else None
    dtype = precision if precision in {"fp16", "bf16"} else "fp32"
    tape = Tape(half=half, dtype=dtype, trains=trains)
    FAMILIES[str(config["model_type"])](tape, config, shape)
    counts = collections.Counter(tape.parameters)
    groups = [ParameterGroup(shape=s, count=n, trainable=t, dtype=d) for (s, t, d), n in counts.items()]
    return tape.finish(), groups


def kv_cache_bytes(config: Config, tokens: int, *, element_bytes: float = 2) -> float:
    """Bytes of keys and values that one sequence of ``tokens`` leaves in the cache.

    Grouped heads are kept once, layers with a sliding window keep the window, latent attention keeps the latent.
    """
    d = decoder_fields(config, gated=True, act="silu", tied=False)
    if config.get("kv_lora_rank"):
        return float(
            d.layers
            * (int(config["kv_lora_rank"]) + int(config["qk_rope_head_dim"]))
            * tokens
            * element_bytes
        )
    window, every = config.get("sliding_window"), config.get("sliding_window_pattern")
    kept = 0
    for layer in range(d.layers):
        local = (
            window
            and config.get("use_sliding_window", True)
            and (every is None or (layer + 1) % int(every) != 0)
        )
        kept += min(tokens, int(window)) if local and window is not None else tokens
    return float(2 * d.kv_heads * d.head_dim * kept * element_bytes)
