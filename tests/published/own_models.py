"""Configurations and modules that people's reports describe but no bundled model is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "gpt-neo-1.3b": {
        "model_type": "gpt_neo", "hidden_size": 2048, "num_layers": 24, "num_heads": 16, "vocab_size": 50257,
        "max_position_embeddings": 2048, "window_size": 256, "attention_types": [[["global", "local"], 12]],
    },
    # mT5-small; the checkpoint keeps a head of its own
    "mt5-small": {
        "model_type": "t5", "d_model": 512, "d_ff": 1024, "d_kv": 64, "num_heads": 6, "num_layers": 8,
        "vocab_size": 250112, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
    },
    "qwen2.5-1.5b": {
        "model_type": "qwen2", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True,
    },
    "mistral-small-24b": {
        "model_type": "mistral", "hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 131072,
    },
    "gemma-2b": {
        "model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
        "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000,
        "hidden_act": "gelu", "tie_word_embeddings": True,
    },
}  # fmt: skip


def gpt(hidden: int, layers: int, heads: int, vocabulary: int, **fields: Any) -> dict[str, Any]:
    """Describe a GPT-2 of another size."""
    return {
        "model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads, "vocab_size": vocabulary,
        "n_positions": 2048, **fields,
    }  # fmt: skip


def configuration(folder: Path, content: str | dict[str, Any]) -> str:
    """Write a configuration, by name or as fields, and return its path."""
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIGURATIONS[content] if isinstance(content, str) else content))
    return str(path)


def module_file(folder: Path) -> str:
    """Write the modules below into a file and return its path."""
    path = folder / "modules.py"
    path.write_text(MODULES, encoding="utf-8")
    return str(path)


MODULES = """
from torch import nn
from torch.nn import functional as F


def linear_1024():
    return nn.Linear(1024, 1024)


def linear_5120():
    return nn.Linear(5120, 5120)


def grouped():
    return nn.Conv2d(512, 512, 3, padding=1, groups=4, bias=False)


def dense():
    return nn.Conv2d(512, 512, 3, padding=1, bias=False)


class TwoAttentions(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        fused = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v + fused


class Alias(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64, bias=False)
        self.same = self.layer

    def forward(self, x):
        return self.same(self.layer(x))


def step(width_in, width, stride):
    return nn.Sequential(nn.Conv2d(width_in, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width))


class Block(nn.Module):
    def __init__(self, width_in, width, stride):
        super().__init__()
        self.one, self.two, self.grows = step(width_in, width, stride), step(width, width, 1), width - width_in

    def forward(self, x):
        y = self.two(F.relu(self.one(x)))
        if self.grows:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.grows // 2, self.grows // 2))
        return F.relu(x + y)


def resnet20():
    parts, width_in = [step(3, 16, 1), nn.ReLU()], 16
    for width in (16, 32, 64):
        for i in range(3):
            parts.append(Block(width_in, width, 2 if i == 0 and width > 16 else 1))
            width_in = width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
"""
