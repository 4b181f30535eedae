"""Hugging Face configurations: the bundled ones by every name that people use, and what their fields mean."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from steptime.errors import InputError
from steptime.workload.transformer.checked import check_sizes

Config = Mapping[str, Any]


@lru_cache(maxsize=1)
def _bundled() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    text = (
        resources.files("steptime").joinpath("data", "captured", "configs.json").read_text(encoding="utf-8")
    )
    content = json.loads(text)
    names = {_plain(n): n for n in content["configs"]}
    for name, config in content["configs"].items():
        names.update({_plain(alias): name for alias in config.get("aliases", ())})
    return content["configs"], names


def _plain(name: str) -> str:
    """Drop owner, case, dashes, underscores, spaces and the suffixes that hubs add; dots tell 1.3b from 13b."""
    short = name.lower().removeprefix("hf/").split("/")[-1]
    short = re.sub(r"-(hf|v0\.1|v0\.3)$", "", short)
    return re.sub(r"[-_ ]", "", short)


def known_configs() -> list[str]:
    """Return the names of the bundled configurations."""
    return sorted(_bundled()[0])


def find_config(name: str) -> tuple[Config, str] | None:
    """Return a configuration and its name, by path or by what people call it; None when there is none.

    Raises
    ------
    InputError
        When a path is given and holds no configuration.
    """
    path = Path(name.removeprefix("hf/"))
    if name and path.is_dir() and not (path / "config.json").is_file():
        raise InputError(f"The folder {name} holds no config.json, so it names no model.")
    if name and (path.suffix == ".json" or path.is_dir()):
        return _read(path / "config.json" if path.is_dir() else path)
    configs, names = _bundled()
    found = names.get(_plain(name))
    return None if found is None else (configs[found], found)


def _read(path: Path) -> tuple[Config, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a configuration: {error}.") from None
    if not isinstance(content, dict) or "model_type" not in content:
        raise InputError(f"{path} is no Hugging Face configuration: it has no 'model_type'.")
    check_sizes(content, str(path))
    return content, path.parent.name if path.stem == "config" and path.parent.name else path.stem


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoder:
    """The fields of a configuration under one name each."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    positions: int
    act: str
    gated: bool
    tied: bool


def field(config: Config, *names: str, default: Any = None) -> Any:
    """Return the first of several spellings of a field.

    Raises
    ------
    InputError
        When none is there and there is no default.
    """
    for name in names:
        if config.get(name) is not None:
            return config[name]
    if default is None:
        raise InputError(f"The configuration of type '{config.get('model_type')}' lacks '{names[0]}'.")
    return default


def decoder_fields(config: Config, *, gated: bool, act: str, tied: bool) -> Decoder:
    """Read the sizes that all families share; arguments are the family's defaults."""
    hidden = int(field(config, "hidden_size", "n_embd", "d_model", "dim"))
    heads = int(field(config, "num_attention_heads", "n_head", "num_heads", "n_heads"))
    return Decoder(
        hidden=hidden, heads=heads,
        layers=int(field(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")),
        kv_heads=int(field(config, "num_key_value_heads", default=heads)),
        head_dim=int(field(config, "head_dim", default=max(hidden // heads, 1))),
        inner=int(field(config, "intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim", default=4 * hidden)),
        vocabulary=int(field(config, "vocab_size")),
        positions=int(field(config, "max_position_embeddings", "n_positions", default=2048)),
        act=str(field(config, "hidden_act", "activation_function", "hidden_activation", "activation", default=act)),
        gated=gated, tied=bool(config.get("tie_word_embeddings", tied)),
    )  # fmt: skip
