"""Small factories for zoo models that no library offers in the form that people train.

Each returns ``(module, make_inputs)``; ``make_inputs(batch)`` makes one batch of inputs.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

Inputs = dict[str, torch.Tensor] | tuple[torch.Tensor, ...] | torch.Tensor


def _double_conv(c_in: int, c_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True),
        nn.Conv2d(c_out, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    """U-Net with batch normalisation and transposed convolutions [ronneberger2015], 2 classes."""

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512, 1024)) -> None:
        super().__init__()
        self.down = nn.ModuleList(_double_conv(a, b) for a, b in zip((3, *widths), widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in itertools.pairwise(widths))
        self.merge = nn.ModuleList(_double_conv(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, merge, skip in zip(reversed(self.up), reversed(self.merge), reversed(kept[:-1]), strict=True):
            x = merge(torch.cat([skip, up(x)], dim=1))
        return self.head(x)


class LstmLanguageModel(nn.Module):
    """Two-layer LSTM language model on WikiText-2's vocabulary, as PyTorch's example trains it."""

    def __init__(self, vocabulary: int = 33278, width: int = 650, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(0.5)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.5)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.dropout(self.embedding(tokens.t().contiguous())))
        return self.decoder(self.dropout(states)).flatten(0, 1)


class Dlrm(nn.Module):
    """Deep learning recommendation model [naumov2019] with the Criteo Kaggle table sizes capped at 1 M rows."""

    def __init__(self, tables: int = 26, rows: int = 1_000_000, width: int = 128) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = _mlp((13, 512, 256, width))
        pairs = (tables + 1) * tables // 2
        self.top = _mlp((width + pairs, 1024, 1024, 512, 256, 1), last=False)
        self.register_buffer("lower", torch.tril_indices(tables + 1, tables + 1, offset=-1), persistent=False)

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        found = [table(column[:, None]) for table, column in zip(self.tables, sparse.unbind(1), strict=True)]
        vectors = torch.stack([x, *found], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.lower[0], self.lower[1]]], dim=1))


def _mlp(widths: tuple[int, ...], *, last: bool = True) -> nn.Sequential:
    parts: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        parts += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*(parts if last else parts[:-1]))


class Ncf(nn.Module):
    """Neural collaborative filtering [he2017] on MovieLens-20M's users and items."""

    def __init__(self, users: int = 138493, items: int = 26744, factors: int = 64) -> None:
        super().__init__()
        self.user_gmf, self.item_gmf = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.user_mlp, self.item_mlp = nn.Embedding(users, 128), nn.Embedding(items, 128)
        self.mlp = _mlp((256, 256, 128, 64))
        self.head = nn.Linear(factors + 64, 1)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        gmf = self.user_gmf(user) * self.item_gmf(item)
        mlp = self.mlp(torch.cat([self.user_mlp(user), self.item_mlp(item)], dim=-1))
        return self.head(torch.cat([gmf, mlp], dim=-1))


class Ssd300(nn.Module):
    """SSD300 with a ResNet-50 backbone up to stage 3: scores and boxes of 8,732 anchors, 81 classes."""

    def __init__(self) -> None:
        super().__init__()
        import torchvision

        backbone = torchvision.models.resnet50(weights=None)
        parts = list(backbone.children())[:7]
        first = parts[6][0]
        first.conv1.stride = first.conv2.stride = first.downsample[0].stride = (1, 1)
        self.features = nn.Sequential(*parts)
        widths, middle = (1024, 512, 512, 256, 256, 256), (256, 256, 128, 128, 128)
        self.extra = nn.ModuleList(
            _extra(a, b, m, i) for i, (a, b, m) in enumerate(zip(widths, widths[1:], middle, strict=False))
        )
        anchors = (4, 6, 6, 6, 4, 4)
        self.boxes = nn.ModuleList(
            nn.Conv2d(w, n * 4, 3, padding=1) for w, n in zip(widths, anchors, strict=True)
        )
        self.scores = nn.ModuleList(
            nn.Conv2d(w, n * 81, 3, padding=1) for w, n in zip(widths, anchors, strict=True)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        maps = [self.features(x)]
        for block in self.extra:
            maps.append(block(maps[-1]))
        boxes = [h(m).flatten(2) for h, m in zip(self.boxes, maps, strict=True)]
        scores = [h(m).flatten(2) for h, m in zip(self.scores, maps, strict=True)]
        return torch.cat([b.reshape(b.shape[0], 4, -1) for b in boxes], 2), torch.cat(
            [s.reshape(s.shape[0], 81, -1) for s in scores], 2
        )


def _extra(c_in: int, c_out: int, middle: int, index: int) -> nn.Sequential:
    stride, padding = (2, 1) if index < 3 else (1, 0)
    return nn.Sequential(
        nn.Conv2d(c_in, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(inplace=True),
        nn.Conv2d(middle, c_out, 3, stride=stride, padding=padding, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True),
    )  # fmt: skip


def _images(size: int, channels: int = 3):
    return lambda batch: torch.empty(batch, channels, size, size)


def unet():
    """U-Net on 256 × 256 images."""
    return UNet(), _images(256)


def ssd300():
    """SSD300 on 300 × 300 images."""
    return Ssd300(), _images(300)


def lstm_lm():
    """LSTM language model on 35 tokens."""
    return LstmLanguageModel(), lambda batch: torch.empty(batch, 35, dtype=torch.long)


def dlrm():
    """DLRM on 13 dense and 26 sparse features."""
    return Dlrm(), lambda batch: (torch.empty(batch, 13), torch.empty(batch, 26, dtype=torch.long))


def ncf():
    """NCF on user-item pairs."""
    return Ncf(), lambda batch: (torch.empty(batch, dtype=torch.long), torch.empty(batch, dtype=torch.long))


def stable_diffusion_unet():
    """The U-Net of Stable Diffusion 1.5 on 64 × 64 latents and 77 text tokens (needs diffusers)."""
    from diffusers import UNet2DConditionModel

    module = UNet2DConditionModel(cross_attention_dim=768, attention_head_dim=8)
    return module, lambda batch: {
        "sample": torch.empty(batch, 4, 64, 64),
        "timestep": torch.empty(batch, dtype=torch.long),
        "encoder_hidden_states": torch.empty(batch, 77, 768),
    }
