"""How many turns the rollouts of a step may take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pivotopd_jax.methods.method import Behaviour, Probe


def depth_of(behaviour: Behaviour, step: int, max_turns: int, learned: float | None = None) -> int:
    """Turn limit of the episodes of `step`.

    Args:
        behaviour: of the method.
        step: counted from 0.
        max_turns: of the environment's setting.
        learned: what `next_depth` last said; None before the first probe.
    """
    if behaviour.probe and learned is not None and not probing(behaviour.probe, step):
        return min(max_turns, max(behaviour.probe.least, math.ceil(learned)))
    return max_turns if behaviour.depth is None else min(max_turns, behaviour.depth(step))


def probing(probe: Probe, step: int) -> bool:
    """Whether the rollouts of `step` are whole ones, to learn from how deep they should be."""
    return step < probe.warmup or step % probe.every == 0


def next_depth(probe: Probe, learned: float | None, turn_mass: Any, lengths: Any, max_turns: int) -> float:
    """The running mean of how deep rollouts should be, in turns, after one more probe (TurnOPD, arXiv 2607.05804).

    A probe asks for the deeper of two turns: the centroid of what the teacher has to say, and the one by which the
    wanted share of successes has ended. How the paper joins the two is open; the deeper one loses neither.

    Args:
        probe: its settings.
        learned: the mean so far; None before the first probe.
        turn_mass: `[turns]` float, Σ|D| over the tokens of each turn, nats.
        lengths: `[successes]` int, turns of the episodes that succeeded; without any, the whole depth is asked for.
        max_turns: upper bound.
    """
    mass, lengths = np.asarray(turn_mass, float), np.asarray(lengths)
    centroid = float(mass @ np.arange(1, len(mass) + 1)) / mass.sum() if mass.sum() > 0 else float(max_turns)
    covered = float(np.quantile(lengths, probe.coverage, method="inverted_cdf")) if lengths.size else float(max_turns)
    wanted = float(np.clip(max(centroid, covered), probe.least, max_turns))
    return wanted if learned is None else (1 - probe.smoothing) * learned + probe.smoothing * wanted
