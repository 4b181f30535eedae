"""Sizes that libraries, drivers and allocators take, read from the published shelf."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class AllocatorFacts:
    """Granularities of PyTorch's caching allocator."""

    rounding_bytes: int
    small_limit_bytes: int
    small_segment_bytes: int
    large_limit_bytes: int
    large_segment_bytes: int
    segment_rounding_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFacts:
    """Bytes that are not tensors; tables go by compute capability."""

    allocator: AllocatorFacts
    decay_lists: Mapping[str, int]
    contexts_bytes: Mapping[str, Mapping[str, float]]
    default_context_bytes: float
    at_once_below: str
    convolution_library_bytes: Mapping[str, float]
    matrix_workspaces_bytes: Mapping[str, float]

    def loading(self, compute_capability: str) -> str:
        """Return how a card's kernels are loaded: as_used, or at_once where old software still runs."""
        known = _parsed(compute_capability)
        return "at_once" if known and known < _parsed(self.at_once_below) else "as_used"

    def context_bytes(self, compute_capability: str, *, convolutions: bool, loading: str = "") -> float:
        """Return the driver's context with its kernels, which no allocator counts and device tools show."""
        how = loading or self.loading(compute_capability)
        context = _nearest(self.contexts_bytes[how], compute_capability, self.default_context_bytes)
        return context + (self.convolution_library_bytes[how] if convolutions else 0.0)

    @property
    def least_matrix_workspace_bytes(self) -> float:
        """The matrix library's workspace of one stream, taken from the allocator, as most cards have it."""
        return self.matrix_workspaces_bytes["default"]

    def extra_matrix_workspace_bytes(self, compute_capability: str) -> float:
        """Return what a card's workspace has above the least."""
        table = self.matrix_workspaces_bytes
        return table.get(compute_capability.split(".", maxsplit=1)[0], table["default"]) - table["default"]


def _parsed(compute_capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in compute_capability.split(".") if part.isdigit())


def _nearest(table: Mapping[str, float], compute_capability: str, default: float) -> float:
    """Take the row of this capability, else the highest one below it of the same major."""
    wanted = _parsed(compute_capability)
    rows = {_parsed(key): value for key, value in table.items()}
    below = [key for key in rows if wanted and key[0] == wanted[0] and key <= wanted]
    return rows[max(below)] if below else default


def _in_bytes(table: Mapping[str, float]) -> dict[str, float]:
    return {key: value * _MIB for key, value in table.items()}


@lru_cache(maxsize=1)
def load_memory_facts() -> MemoryFacts:
    """Return the facts of ``data/published/memory.toml``."""
    text = (
        resources.files("steptime").joinpath("data", "published", "memory.toml").read_text(encoding="utf-8")
    )
    t = tomllib.loads(text)
    usual = t["context"]["usual"]
    return MemoryFacts(
        allocator=AllocatorFacts(**t["allocator"]),
        decay_lists=t["decay_lists"],
        contexts_bytes={how: _in_bytes(t["context"][f"{how}_mib"]) for how in ("at_once", "as_used")},
        default_context_bytes=usual["default_mib"] * _MIB,
        at_once_below=usual["at_once_below"],
        convolution_library_bytes=_in_bytes(t["convolution_library_mib"]),
        matrix_workspaces_bytes=_in_bytes(t["matrix_workspace_mib"]),
    )
