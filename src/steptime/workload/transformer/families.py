"""Each family of models as its Hugging Face code runs it: embeddings, blocks, head and loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steptime.workload.transformer import layers as ops
from steptime.workload.transformer.blocks import Shape, attend, feed_forward, norm, project, rotary
from steptime.workload.transformer.config import Config, Decoder, decoder_fields, field
from steptime.workload.transformer.experts import Experts, mixture
from steptime.workload.transformer.tape import Tape, Tensor

Build = Callable[[Tape, Config, Shape], None]


def _tokens(tape: Tape, shape: Shape, count: int | None = None) -> Tensor:
    return tape.make((shape.batch, count or shape.tokens), "int", "input", before=True)


def _finish(tape: Tape, logits: Tensor, targets: Tensor, *, upcast: bool = True) -> None:
    """Compute the loss and run the backward pass, or end an inference."""
    loss = ops.cross_entropy(tape, logits, targets, upcast=upcast) if tape.trains else None
    del logits
    tape.end_forward()
    if loss is not None:
        tape.backward(loss)


def _rate(config: Config, *names: str, default: float) -> float:
    value = next((config[n] for n in names if config.get(n) is not None), default)
    return float(value)


# ---- encoders


def bert(tape: Tape, config: Config, shape: Shape) -> None:
    """BERT and RoBERTa with a masked-language-model head."""
    d = decoder_fields(config, gated=False, act="gelu", tied=True)
    rate = _rate(config, "hidden_dropout_prob", "dropout", default=0.1)
    attention_rate = _rate(config, "attention_probs_dropout_prob", "attention_dropout", default=0.1)
    ids = _tokens(tape, shape)
    tape.module = "embeddings"
    table = tape.weight(d.vocabulary, d.hidden, trainable=shape.trains_base)
    x = ops.embedding(tape, ids, table)
    if config["model_type"] != "distilbert":
        x = ops.add(
            tape,
            x,
            ops.embedding(
                tape,
                _tokens(tape, shape),
                tape.weight(
                    int(field(config, "type_vocab_size", default=2)), d.hidden, trainable=shape.trains_base
                ),
            ),
        )
    positions = tape.make((1, shape.tokens), "int")
    x = ops.add(
        tape,
        x,
        ops.embedding(tape, positions, tape.weight(d.positions, d.hidden, trainable=shape.trains_base)),
    )
    x = ops.dropout(tape, norm(tape, x, d.hidden, shape, kind="layer"), rate)
    for i in range(d.layers):
        tape.module = f"encoder.layer.{i}"
        x = _bert_layer(tape, x, d, shape, rate, attention_rate)
    tape.module = "cls"
    if "BertForQuestionAnswering" in (config.get("architectures") or ()):
        spans = project(tape, x, 2, d.hidden, shape, bias=True).view(2 * shape.batch, shape.tokens)
        _finish(tape, spans, _tokens(tape, shape, 2), upcast=False)
        return
    x = ops.activation(tape, project(tape, x, d.hidden, d.hidden, shape, bias=True), "gelu")
    x = norm(tape, x, d.hidden, shape, kind="layer")
    bias = tape.weight(d.vocabulary, trainable=shape.trains_base)
    _finish(tape, ops.linear(tape, x, table, bias), ids, upcast=False)


def _bert_layer(
    tape: Tape, x: Tensor, d: Decoder, shape: Shape, rate: float, attention_rate: float
) -> Tensor:
    q, k, v = (project(tape, x, d.hidden, d.hidden, shape, bias=True, adapted=i != 1) for i in range(3))
    a = attend(tape, q, k, v, shape, heads=d.heads, kv_heads=d.heads, width=d.head_dim, width_v=d.head_dim,
               causal=0, rate=attention_rate)  # fmt: skip
    del q, k, v
    a = ops.dropout(tape, project(tape, a, d.hidden, d.hidden, shape, bias=True), rate)
    x = norm(tape, ops.add(tape, a, x), d.hidden, shape, kind="layer")
    f = ops.dropout(
        tape, feed_forward(tape, x, d.hidden, d.inner, shape, act=d.act, gated=False, bias=True), rate
    )
    return norm(tape, ops.add(tape, f, x), d.hidden, shape, kind="layer")


# ---- GPT-2 and OPT


def gpt2(tape: Tape, config: Config, shape: Shape) -> None:
    """GPT-2 and OPT: learned positions, LayerNorm before each part, a plain feed-forward."""
    opt = config["model_type"] == "opt"
    d = decoder_fields(config, gated=False, act="relu" if opt else "gelu_new", tied=True)
    rate = _rate(config, "resid_pdrop", "dropout", default=0.1)
    attention_rate = _rate(config, "attn_pdrop", "attention_dropout", default=0.0 if opt else 0.1)
    ids = _tokens(tape, shape)
    tape.module = "embeddings"
    table = tape.weight(d.vocabulary, d.hidden, trainable=shape.trains_base)
    places = tape.weight(d.positions + (2 if opt else 0), d.hidden, trainable=shape.trains_base)
    positions = tape.make((shape.batch if opt else 1, shape.tokens), "int")
    x = ops.add(tape, ops.embedding(tape, ids, table), ops.embedding(tape, positions, places))
    x = x if opt else ops.dropout(tape, x, _rate(config, "embd_pdrop", default=0.1))
    for i in range(d.layers):
        tape.module = f"layers.{i}"
        x = _gpt2_layer(tape, x, d, shape, opt=opt, rate=rate, attention_rate=attention_rate)
    tape.module = "head"
    x = norm(tape, x, d.hidden, shape, kind="layer")
    _finish(tape, ops.linear(tape, x, table), ids)


def _gpt2_layer(
    tape: Tape, x: Tensor, d: Decoder, shape: Shape, *, opt: bool, rate: float, attention_rate: float
) -> Tensor:
    h = norm(tape, x, d.hidden, shape, kind="layer")
    if opt:
        q, k, v = (project(tape, h, d.hidden, d.hidden, shape, bias=True, adapted=i != 1) for i in range(3))
    else:
        q, k, v = ops.split(
            tape, project(tape, h, 3 * d.hidden, d.hidden, shape, bias=True, adapted=True), [d.hidden] * 3
        )
    if not shape.cached:  # decoding replaces whole caches: memory counts those
        tape.keep(k, v)
    a = attend(tape, q, k, v, shape, heads=d.heads, kv_heads=d.heads, width=d.head_dim, width_v=d.head_dim,
               causal=1, rate=attention_rate, clamped=opt)  # fmt: skip
    del q, k, v, h
    x = ops.add(tape, ops.dropout(tape, project(tape, a, d.hidden, d.hidden, shape, bias=True), rate), x)
    h = norm(tape, x, d.hidden, shape, kind="layer")
    f = feed_forward(tape, h, d.hidden, d.inner, shape, act=d.act, gated=False, bias=True)
    return ops.add(tape, x, ops.dropout(tape, f, rate))


# ---- LLaMA and its kin


def llama(tape: Tape, config: Config, shape: Shape) -> None:
    """LLaMA, Mistral, Qwen, Gemma, Phi-3, and mixtures of experts on the same frame."""
    d = decoder_fields(config, gated=True, act="silu", tied=str(config["model_type"]).startswith("gemma"))
    ids = _tokens(tape, shape)
    tape.module = "embed_tokens"
    table = tape.weight(d.vocabulary, d.hidden, trainable=shape.trains_base)
    x = ops.embedding(tape, ids, table)
    rope = int(field(config, "qk_rope_head_dim", default=d.head_dim))
    cos, sin = (tape.make((1, shape.tokens, rope), x.dtype) for _ in range(2))
    for i in range(d.layers):
        tape.module = f"layers.{i}"
        x = _llama_layer(tape, x, d, config, shape, i, (cos, sin))
    tape.module = "lm_head"
    x = norm(tape, x, d.hidden, shape, kind="rms")
    head = table if d.tied else tape.weight(d.vocabulary, d.hidden, trainable=shape.trains_base)
    _finish(tape, ops.linear(tape, x, head), ids)


def _llama_layer(
    tape: Tape, x: Tensor, d: Decoder, config: Config, shape: Shape, index: int, rope: tuple[Tensor, Tensor]
) -> Tensor:
    h = norm(tape, x, d.hidden, shape, kind="rms")
    latent = config.get("kv_lora_rank")
    a = (
        _latent_attention(tape, h, d, config, shape, rope)
        if latent
        else _grouped_attention(tape, h, d, config, shape, index, rope)
    )
    x = ops.add(tape, x, a)
    h = norm(tape, x, d.hidden, shape, kind="rms")
    experts = experts_of(config, index)
    if experts is None:
        f = feed_forward(
            tape, h, d.hidden, d.inner, shape, act=d.act, gated=True, bias=bool(config.get("mlp_bias", False))
        )
    else:
        f = mixture(tape, h, d.hidden, shape, experts)
    return ops.add(tape, x, f)


_QKV_BIAS = {"qwen2": True, "qwen2_moe": True}


def _grouped_attention(
    tape: Tape, h: Tensor, d: Decoder, config: Config, shape: Shape, index: int, rope: tuple[Tensor, Tensor]
) -> Tensor:
    bias = bool(config.get("attention_bias", _QKV_BIAS.get(str(config["model_type"]), False)))
    sizes = (d.heads * d.head_dim, d.kv_heads * d.head_dim, d.kv_heads * d.head_dim)
    q, k, v = (project(tape, h, n, d.hidden, shape, bias=bias, adapted=i != 1) for i, n in enumerate(sizes))
    if str(config["model_type"]).startswith(("qwen3", "gemma3")):
        q, k = (norm(tape, t, d.head_dim, shape, kind="rms") for t in (q, k))
    q, k = rotary(tape, q, *rope), rotary(tape, k, *rope)
    if not shape.cached:  # decoding replaces whole caches: memory counts those
        tape.keep(k, v)
    a = attend(tape, q, k, v, shape, heads=d.heads, kv_heads=d.kv_heads, width=d.head_dim, width_v=d.head_dim,
               causal=window_of(config, index, shape) if shape.tokens > 1 else 0)  # fmt: skip
    del q, k, v
    return project(
        tape,
        a,
        d.hidden,
        sizes[0],
        shape,
        bias=bias and str(config["model_type"]) not in _QKV_BIAS,
        adapted=True,
    )


def window_of(config: Config, index: int, shape: Shape) -> float:
    """Return 1 for a causal layer, or the number of keys that a layer with a sliding window sees."""
    window = config.get("sliding_window")
    every = config.get("sliding_window_pattern")
    local = (
        bool(window)
        and config.get("use_sliding_window", True)
        and (every is None or (index + 1) % int(every) != 0)
    )
    return float(window) if local and window is not None and int(window) < shape.keys else 1.0


def _latent_attention(
    tape: Tape, h: Tensor, d: Decoder, config: Config, shape: Shape, rope: tuple[Tensor, Tensor]
) -> Tensor:
    """Multi-head latent attention of DeepSeek-V2 and V3."""
    nope, turned = int(config["qk_nope_head_dim"]), int(config["qk_rope_head_dim"])
    width_v, latent = int(config["v_head_dim"]), int(config["kv_lora_rank"])
    width = nope + turned
    if config.get("q_lora_rank"):
        rank = int(config["q_lora_rank"])
        c = norm(tape, project(tape, h, rank, d.hidden, shape, bias=False), rank, shape, kind="rms")
        q = project(tape, c, d.heads * width, rank, shape, bias=False, adapted=True)
    else:
        q = project(tape, h, d.heads * width, d.hidden, shape, bias=False, adapted=True)
    compressed = project(tape, h, latent + turned, d.hidden, shape, bias=False)
    c_kv, k_rope = ops.split(tape, compressed, [latent, turned])
    kv = project(
        tape,
        norm(tape, c_kv, latent, shape, kind="rms"),
        d.heads * (nope + width_v),
        latent,
        shape,
        bias=False,
    )
    q_pass, q_rope = ops.split(tape, q, [d.heads * nope, d.heads * turned])
    k_pass, v = ops.split(tape, kv, [d.heads * nope, d.heads * width_v])
    q_rope, k_rope = rotary(tape, q_rope, *rope), rotary(tape, k_rope, *rope)
    rows = shape.batch * shape.tokens
    q = _joined(tape, q_pass, q_rope, (rows, d.heads * width))
    k = _joined(tape, k_pass, k_rope, (rows, d.heads * width))
    a = attend(tape, q, k, v, shape, heads=d.heads, kv_heads=d.heads, width=width, width_v=width_v,
               causal=1.0 if shape.tokens > 1 else 0)  # fmt: skip
    return project(tape, a, d.hidden, d.heads * width_v, shape, bias=False, adapted=True)


def _joined(tape: Tape, a: Tensor, b: Tensor, shape: tuple[int, int]) -> Tensor:
    out = tape.make(shape, a.dtype)
    from steptime.workload.operator import Kind

    tape.record(Kind.COPY, "cat", (out.numel,), (a, b), (out,))
    sizes = (a.shape, b.shape)

    def backward(grad: Tensor) -> tuple[Tensor, Tensor]:
        made = [tape.make(s, grad.dtype) for s in sizes]
        tape.record(Kind.COPY, "split", (grad.numel,), (grad,), made)
        return made[0], made[1]

    return tape.attach(out, (a, b), backward)


def experts_of(config: Config, index: int) -> Experts | None:
    """Return the mixture of experts of a layer, None for a dense one."""
    number = config.get("num_local_experts") or config.get("n_routed_experts") or config.get("num_experts")
    if not number or index < int(config.get("first_k_dense_replace", 0)):
        return None
    inner = int(field(config, "moe_intermediate_size", "intermediate_size"))
    shared = int(config.get("n_shared_experts") or 0) * inner or int(
        config.get("shared_expert_intermediate_size") or 0
    )
    return Experts(
        number=int(number), per_token=int(field(config, "num_experts_per_tok")), inner=inner, shared_inner=shared,
        act=str(config.get("hidden_act", "silu")),
    )  # fmt: skip


# ---- T5 and Switch


def t5(tape: Tape, config: Config, shape: Shape) -> None:
    """T5 and Switch Transformers: encoder and decoder with relative positions, attention in eager kernels."""
    d = decoder_fields(config, gated=False, act="relu", tied=True)
    d_kv = int(field(config, "d_kv", default=d.head_dim))
    gated = str(config.get("feed_forward_proj", "relu")).startswith("gated")
    ids, targets = _tokens(tape, shape), _tokens(tape, shape)
    tape.module = "shared"
    table = tape.weight(d.vocabulary, d.hidden, trainable=shape.trains_base)
    x = ops.dropout(tape, ops.embedding(tape, ids, table), _rate(config, "dropout_rate", default=0.1))
    for i in range(d.layers):
        tape.module = f"encoder.block.{i}"
        x = _t5_layer(tape, x, d, config, shape, i, d_kv=d_kv, gated=gated, memory=None, causal=0)
    memory = norm(tape, x, d.hidden, shape, kind="rms")
    y = ops.dropout(tape, ops.embedding(tape, targets, table), _rate(config, "dropout_rate", default=0.1))
    for i in range(int(config.get("num_decoder_layers") or d.layers)):
        tape.module = f"decoder.block.{i}"
        y = _t5_layer(tape, y, d, config, shape, i, d_kv=d_kv, gated=gated, memory=memory, causal=1)
    tape.module = "lm_head"
    y = norm(tape, y, d.hidden, shape, kind="rms")
    head = table if d.tied else tape.weight(d.vocabulary, d.hidden, trainable=shape.trains_base)
    _finish(tape, ops.linear(tape, ops.scale(tape, y), head), targets, upcast=False)


def _t5_layer(tape: Tape, x: Tensor, d: Decoder, config: Config, shape: Shape, index: int, *, d_kv: int, gated: bool,
              memory: Tensor | None, causal: float) -> Tensor:  # fmt: skip
    rate = _rate(config, "dropout_rate", default=0.1)
    if index == 0:
        tape.weight(
            int(config.get("relative_attention_num_buckets", 32)), d.heads, trainable=shape.trains_base
        )
    for source, mask in ((None, causal), (memory, 0.0)) if memory is not None else ((None, causal),):
        h = norm(tape, x, d.hidden, shape, kind="rms")
        inner = d.heads * d_kv
        q = project(tape, h, inner, d.hidden, shape, bias=False, adapted=True)
        k, v = (
            project(tape, source or h, inner, d.hidden, shape, bias=False, adapted=i == 1) for i in range(2)
        )
        a = attend(tape, q, k, v, shape, heads=d.heads, kv_heads=d.heads, width=d_kv, width_v=d_kv, causal=mask,
                   rate=rate, bias=True)  # fmt: skip
        del q, k, v, h
        x = ops.add(tape, x, ops.dropout(tape, project(tape, a, d.hidden, inner, shape, bias=False), rate))
    h = norm(tape, x, d.hidden, shape, kind="rms")
    every = int(config.get("decoder_sparse_step" if memory is not None else "encoder_sparse_step") or 0)
    if config.get("num_experts") and every and index % every == (1 if every > 1 else 0):
        f = mixture(
            tape,
            h,
            d.hidden,
            shape,
            Experts(
                number=int(config["num_experts"]),
                per_token=1,
                inner=d.inner,
                capacity=int(config.get("expert_capacity") or 0),
                gated=False,
                act="relu",
            ),
        )
    else:
        f = feed_forward(
            tape, h, d.hidden, d.inner, shape, act="gelu_new" if gated else "relu", gated=gated, bias=False
        )
    return ops.add(tape, x, ops.dropout(tape, f, rate))


FAMILIES: Mapping[str, Build] = {
    "bert": bert, "roberta": bert, "distilbert": bert, "gpt2": gpt2, "opt": gpt2, "t5": t5, "switch_transformers": t5,
    **dict.fromkeys(
        ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "mixtral", "qwen2_moe", "qwen3_moe",
         "deepseek_v2", "deepseek_v3"), llama,
    ),
}  # fmt: skip


def uses_experts(config: Config) -> bool:
    """Tell whether a configuration has experts."""
    return any(config.get(n) for n in ("num_local_experts", "n_routed_experts", "num_experts"))
