"""Oracle-pivotal turns: those after which the least number of turns to success is larger than before.

L(s_{t+1}) > L(s_t) (arXiv 2609.40285). In an open action space, where what was found out stays so and L grows only when
the episode ends, a wasted turn counts too.
"""

from __future__ import annotations

import math

from pivotopd_jax.envs.protocol import Planner
from pivotopd_jax.records import Trajectory


def distances(planner: Planner, trajectory: Trajectory) -> list[float]:
    """L(s) before every turn and after the last one, `[turns + 1]`, in turns."""
    snapshots = [turn.snapshot for turn in trajectory.turns] + [trajectory.final_snapshot]
    return [planner.distance(snapshot) for snapshot in snapshots]


def pivotal_turns(planner: Planner, trajectory: Trajectory) -> list[int]:
    """0-based oracle-pivotal turns."""
    left = distances(planner, trajectory)
    return [
        t
        for t, turn in enumerate(trajectory.turns)
        if left[t + 1] > left[t] or (turn.observation.admissible is None and left[t + 1] == left[t] < math.inf)
    ]


def first_pivotal(planner: Planner, trajectory: Trajectory) -> int | None:
    """The first of them; None if there is none."""
    return next(iter(pivotal_turns(planner, trajectory)), None)
