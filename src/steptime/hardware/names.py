"""How people, drivers, clouds and papers spell the name of an accelerator, taken apart into words.

``NVIDIA A100-SXM4-80GB``, ``a100 sxm 80g`` and ``A100-80GB`` are sets of words; one finds another when its
words are among the other's. Words that tell no two accelerators apart (``nvidia``, ``gpu``) are dropped.
"""

from __future__ import annotations

import re

_NOISE = frozenset({
    "nvidia", "amd", "google", "intel", "huawei", "graphcore", "aws", "geforce", "tesla", "instinct",
    "radeon", "graphics", "gpu", "gpus", "accelerator", "cloud", "generation", "edition", "with", "design",
})  # fmt: skip
# Said beside a size, and the same for every accelerator of that size.
_MEMORY = frozenset({"gb", "gib", "hbm", "hbm2", "hbm2e", "hbm3", "hbm3e"})
# Series that people leave out before a number: "4090" is enough.
_SERIES = frozenset({"rtx", "gtx", "rx"})
_SPELLINGS = (
    (re.compile(r"max-q"), "maxq"),
    (re.compile(r"pci-?e(xpress)?\b"), "pcie"),
    (re.compile(r"\bws\b"), "workstation"),
)
_GLUED = re.compile(
    r"(?:geforce|quadro|tesla|radeon|titan|vega|rtx|gtx|rx|tpu|ipu|ascend|nvidia|instinct)(?=[a-z]?\d|rtx|gtx)"
    r"|\d(?=(?:ti|super|sxm\d?|pcie|nvl|xt|xtx|laptop|maxq|ada)\b)"
)
_SIZE = re.compile(r"(\d+)(?:gib|gb|g)")
_FORM = re.compile(r"sxm\d")


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name that tell accelerators apart.

    Examples
    --------
    >>> sorted(words_of("NVIDIA A100-SXM4-80GB")), sorted(words_of("rtx4090"))
    (['80gb', 'a100', 'sxm4'], ['4090', 'rtx'])
    """
    text = re.sub(r"(\d)\s+(?=gi?b\b)", r"\1", name.lower())
    for spelling, ours in _SPELLINGS:
        text = spelling.sub(ours, text)
    text = _GLUED.sub(lambda m: m[0] + " ", text)
    words = (
        _SIZE.sub(r"\1gb", word) if _SIZE.fullmatch(word) else word for word in re.split(r"[^a-z0-9?]+", text)
    )
    return frozenset(w for w in words if w and w not in _NOISE | _MEMORY and "?" not in w)


def plain(name: str) -> str:
    """Return a name without case, separators and empty words: what two spellings of it share."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return "".join(w for w in words if w not in _NOISE)


def distinguishing(words: frozenset[str]) -> frozenset[str]:
    """Drop the series where a number says enough: ``rtx 4090`` is ``4090``, ``titan rtx`` stays."""
    rest = words - _SERIES
    return rest if any(c.isdigit() for word in rest for c in word) else words


def are_among(words: frozenset[str], others: frozenset[str]) -> bool:
    """Tell whether every word is among the others; ``sxm`` stands for any ``sxm4``, ``80`` for ``80gb``."""
    return all(w in others or _is_short_for(w, others) for w in words)


def _is_short_for(word: str, others: frozenset[str]) -> bool:
    if f"{word}gb" in others:
        return True
    if word == "sxm":
        return any(_FORM.fullmatch(other) for other in others)
    return _FORM.fullmatch(word) is not None and "sxm" in others
