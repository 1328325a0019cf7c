"""Does a teacher find the mistake? Its marked turns against the oracle's, on failed trajectories.

arXiv 2609.40285 reports the share of reports in which a marked turn lies within one turn of the oracle-pivotal one,
beside that of turns drawn at random. Here the oracle's turn is the first one of the trajectory, a marked turn one at
which the named action differs from the student's, and a report that cannot be read is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pivotopd_jax.envs.protocol import Planner
from pivotopd_jax.evaluation.intervals import Estimate, estimate, percent_text
from pivotopd_jax.evaluation.pivotal import first_pivotal
from pivotopd_jax.methods.method import Annotation
from pivotopd_jax.records import Trajectory
from pivotopd_jax.rollout.annotate import annotate
from pivotopd_jax.teachers.protocol import Teacher


@dataclass(frozen=True)
class Agreement:
    """How often a teacher and the oracle agree.

    Attributes:
        accuracy: share of reports with a marked turn near the oracle's, in [0, 1]; over failed trajectories with an
            oracle-pivotal turn.
        random: what as many turns drawn at random would reach, in expectation.
        failures: all failed ones.
        samples: reports on each.
        marked: mean number of marked turns in a report.
    """

    accuracy: Estimate
    random: float
    failures: int
    samples: int
    marked: float


def agreement(
    planner: Planner,
    teachers: Sequence[Teacher],
    trajectories: Sequence[Trajectory],
    *,
    max_actions: int = 5,
    tolerance: int = 1,
) -> Agreement:
    """Compares every teacher's report on every failed trajectory with the oracle.

    Args:
        planner: the oracle.
        teachers: one a sample; the same teacher with other seeds, if its reports are random.
        trajectories: played by any policy.
        max_actions: m, most gold actions in a report.
        tolerance: turns by which a marked turn may be off.

    Raises:
        ValueError: no trajectory failed by an oracle-pivotal mistake.
    """
    failed = [(t, first_pivotal(planner, t)) for t in trajectories if not t.won]
    judged = [(t, first) for t, first in failed if first is not None]
    if not judged:
        raise ValueError(
            f"of {len(trajectories)} trajectories none failed by an oracle-pivotal mistake; play more of them"
        )
    played = [t for t, _ in judged]
    hits, chances, counts = [], [], []
    for teacher in teachers:
        marked = marked_turns(teacher, played, max_actions)
        for (trajectory, first), turns in zip(judged, marked, strict=True):
            hits.append(any(abs(turn - first) <= tolerance for turn in turns))
            chances.append(chance(len(trajectory.turns), first, len(turns), tolerance))
            counts.append(len(turns))
    accuracy = estimate(np.asarray(hits, float).reshape(len(teachers), len(judged)).mean(axis=0))
    assert accuracy
    return Agreement(accuracy, float(np.mean(chances)), len(failed), len(teachers), float(np.mean(counts)))


def marked_turns(teacher: Teacher, trajectories: Sequence[Trajectory], max_actions: int) -> list[list[int]]:
    """The turns of each trajectory that the teacher's report makes pivotal."""
    turns: list[list[int]] = [[] for _ in trajectories]
    for note in annotate(teacher, trajectories, Annotation(max_actions=max_actions), seed=0):
        if note.pivotal:
            turns[note.trajectory].append(note.turn)
    return turns


def chance(length: int, turn: int, count: int, tolerance: int) -> float:
    """Probability that one of `count` different turns of `length`, drawn at random, is within `tolerance` of `turn`."""
    near = sum(abs(other - turn) <= tolerance for other in range(length))
    return 1 - math.comb(length - near, count) / math.comb(length, count)


def agreement_text(found: Agreement) -> str:
    """One readable line."""
    return (
        f"within one turn: {percent_text(found.accuracy)}% (random {100 * found.random:.1f}%) on "
        f"{found.accuracy.units} of {found.failures} failures, {found.samples} reports each, {found.marked:.1f} turns "
        "marked"
    )
