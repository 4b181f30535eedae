"""The fullest moment of a step: how much, when, and of what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steptime.memory.activations import OUTLIVE, Lives, live_bytes, modules_of, parts_of
from steptime.memory.replay import Demands

# How many modules are told apart. Assumption: what a person reads at a glance.
_MOST_MODULES = 8


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The most that tensors take at a time; ``parts`` add up to it, ``phases`` has the most of each phase."""

    allocated_bytes: float
    without_scratch_bytes: float
    phase: str
    parts: dict[str, float]
    phases: dict[str, float]
    by_module: dict[str, float]


def peak_of(lives: Lives, demands: Demands) -> Peak:
    """Find the fullest moment: while an operator runs, or in the optimizer's update.

    Parameters
    ----------
    lives : Lives
    demands : Demands
    """
    always = float(demands.states_bytes.sum()) + demands.library_bytes
    live = live_bytes(lives.birth, lives.death, lives.size_bytes, num_positions=lives.num_positions) + always
    busy = live[: lives.num_positions] + demands.scratch_bytes
    stay, update = lives.of_role(*OUTLIVE), float(demands.update_bytes.sum())
    phases = {"forward": float(busy[: lives.forward_end].max(initial=0.0))}
    if demands.trains:
        phases["backward"] = float(busy[lives.forward_end :].max(initial=0.0))
        phases["optimizer"] = float(lives.size_bytes[stay].sum()) + update + always
    phase = max(phases, key=lambda name: phases[name])
    at = int(np.argmax(busy))
    updating = phase == "optimizer"
    alive = stay if updating else lives.alive(at)
    parts = parts_of(lives, alive) | {
        "optimizer": float(demands.states_bytes.sum()),
        "workspace": demands.library_bytes + (0.0 if updating else float(demands.scratch_bytes[at])),
        "optimizer_temporaries": update if updating else 0.0,
    }
    return Peak(
        allocated_bytes=phases[phase],
        without_scratch_bytes=max(float(live.max(initial=0.0)), phases.get("optimizer", 0.0)),
        phase=phase,
        parts={name: size for name, size in parts.items() if size},
        phases=phases,
        by_module=modules_of(lives, alive, _MOST_MODULES),
    )
