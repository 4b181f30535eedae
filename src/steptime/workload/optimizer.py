"""What optimizers keep and move, read from the published shelf."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from types import MappingProxyType

from steptime.errors import UnknownNameError
from steptime.workload.table import ParameterGroup

_FULL_STATE_BYTES = 4  # of tensors too small to be quantised


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerFacts:
    """Tensors of a parameter's size that one optimizer step keeps, reads and writes.

    ``reads`` and ``writes`` are those of one fused pass, ``foreach_reads`` and ``foreach_writes`` those of
    all kernels of the multi-tensor code, each of which takes as many lists as ``foreach_depths`` says.
    """

    name: str
    states: int
    reads: int
    writes: int
    foreach_reads: int
    foreach_writes: int
    foreach_depths: tuple[int, ...]
    foreach_temporaries: int
    source: str
    state_bytes: float | None = None
    small_tensor_elements: int = 0
    factored: bool = False
    tensor_kernels: int = 0
    loop_kernels: int = 0

    @property
    def foreach_kernels(self) -> int:
        """Kernels of the multi-tensor code; where it is a loop over tensors, kernels of one tensor."""
        return len(self.foreach_depths) + self.tensor_kernels

    @property
    def foreach_traffic(self) -> int:
        """Tensors that all kernels of the multi-tensor code read and write."""
        return self.foreach_reads + self.foreach_writes

    @property
    def kernels_per_tensor(self) -> int:
        """Kernels that the loop over single tensors launches for each."""
        return self.loop_kernels or self.foreach_kernels

    def state_size_bytes(self, groups: Sequence[ParameterGroup], element_bytes: float) -> float:
        """Bytes of all states of the trainable parameters."""
        trained = [g for g in groups if g.trainable]
        if self.factored:
            return element_bytes * sum(g.count * _factors(g.shape) for g in trained)
        return self.states * sum(g.num_parameters * self._width_bytes(g, element_bytes) for g in trained)

    def _width_bytes(self, group: ParameterGroup, element_bytes: float) -> float:
        if self.state_bytes is None:
            return element_bytes
        small = group.num_parameters < self.small_tensor_elements * group.count
        return _FULL_STATE_BYTES if small else self.state_bytes


def _factors(shape: tuple[int, ...]) -> int:
    """Elements of the row and column vectors of a matrix; a vector is kept whole."""
    if len(shape) < 2:
        return shape[0] if shape else 1
    lead = 1
    for n in shape[:-2]:
        lead *= n
    return lead * (shape[-2] + shape[-1])


@lru_cache(maxsize=1)
def _shelf() -> tuple[Mapping[str, OptimizerFacts], Mapping[str, str]]:
    text = (
        resources.files("steptime")
        .joinpath("data", "published", "optimizers.toml")
        .read_text(encoding="utf-8")
    )
    tables = tomllib.loads(text)
    aliases = tables.pop("aliases") | {_bare(name): name for name in tables}
    facts = {
        n: OptimizerFacts(name=n, **{**t, "foreach_depths": tuple(t["foreach_depths"])})
        for n, t in tables.items()
    }
    return MappingProxyType(facts), MappingProxyType(aliases)


def _bare(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def load_optimizers() -> Mapping[str, OptimizerFacts]:
    """Return the facts of every optimizer on the shelf, by name."""
    return _shelf()[0]


def find_optimizer(name: str) -> OptimizerFacts:
    """Return the facts of an optimizer as a person spells it.

    Raises
    ------
    UnknownNameError
        When nothing is called that.
    """
    facts, aliases = _shelf()
    found = aliases.get(_bare(name))
    if found is None:
        raise UnknownNameError("optimizer", name, facts, f"Known are {', '.join(facts)}.")
    return facts[found]
