"""What optimizers keep and move, read from the published shelf."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from steptime.errors import UnknownNameError
from steptime.workload.table import ParameterGroup


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerFacts:
    """Tensors of a parameter's size that one optimizer step keeps, reads and writes."""

    name: str
    states: int
    reads: int
    writes: int
    foreach_temporaries: int
    foreach_kernels: int
    foreach_traffic: int
    source: str
    state_bytes: float | None = None
    factored: bool = False

    def state_size_bytes(self, groups: Sequence[ParameterGroup], element_bytes: float) -> float:
        """Bytes of all states of the trainable parameters."""
        size = self.state_bytes if self.state_bytes is not None else element_bytes
        trained = [g for g in groups if g.trainable]
        if self.factored:
            return element_bytes * sum(g.count * _factors(g.shape) for g in trained)
        return self.states * size * sum(g.num_parameters for g in trained)


def _factors(shape: tuple[int, ...]) -> int:
    """Elements of the row and column vectors of a matrix; a vector is kept whole."""
    if len(shape) < 2:
        return shape[0] if shape else 1
    lead = 1
    for n in shape[:-2]:
        lead *= n
    return lead * (shape[-2] + shape[-1])


@lru_cache(maxsize=1)
def _shelf() -> tuple[dict[str, OptimizerFacts], dict[str, str]]:
    text = resources.files("steptime").joinpath("data", "published", "optimizers.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    aliases = tables.pop("aliases")
    return {name: OptimizerFacts(name=name, **facts) for name, facts in tables.items()}, aliases


def find_optimizer(name: str) -> OptimizerFacts:
    """Return the facts of an optimizer as a person spells it.

    Raises
    ------
    UnknownNameError
        When nothing is called that.
    """
    facts, aliases = _shelf()
    plain = name.lower().replace("_", "-").strip()
    plain = aliases.get(plain.replace("-", ""), plain)
    if plain not in facts:
        raise UnknownNameError("optimizer", name, facts, f"Known are {', '.join(facts)}.")
    return facts[plain]
