"""Plays a fixed panel of held-out tasks and counts what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pivotopd_jax.envs.protocol import World
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Task, Trajectory
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.sampling.policy import Policy


@dataclass(frozen=True)
class Evaluation:
    """What came of a panel.

    Attributes:
        success: share of tasks won, in [0, 1].
        score: mean of the environment's own rewards, each in [0, 1]; equal to success where there is none in between.
        by_kind: share won for each kind of task that occurs; nan never occurs.
        mean_over_kinds: unweighted mean of `by_kind` (the papers' ALFWorld metric).
        turns: mean length of an episode.
        rejected: share of turns whose action was not carried out.
        nats: mean of −log-prob of a whole response under the raw logits, in nats; played at temperature 1, an estimate
            of the policy's entropy a turn.
        trajectories: what was played.
    """

    success: float
    score: float
    by_kind: dict[str, float]
    mean_over_kinds: float
    turns: float
    rejected: float
    nats: float
    trajectories: list[Trajectory] = field(repr=False)


def summarise(trajectories: Sequence[Trajectory], kinds: Sequence[str]) -> Evaluation:
    """Counts finished trajectories; `kinds` gives the order of the columns."""
    won = {kind: [t.won for t in trajectories if t.task.kind == kind] for kind in kinds}
    by_kind = {kind: float(np.mean(results)) for kind, results in won.items() if results}
    turns = [turn for t in trajectories for turn in t.turns]
    return Evaluation(
        success=float(np.mean([t.won for t in trajectories])),
        score=float(np.mean([t.score for t in trajectories])),
        by_kind=by_kind,
        mean_over_kinds=float(np.mean(list(by_kind.values()))),
        turns=float(np.mean([len(t.turns) for t in trajectories])),
        rejected=float(np.mean([not turn.accepted for turn in turns])),
        nats=float(np.mean([-turn.log_probs.sum() for turn in turns])),
        trajectories=list(trajectories),
    )


def evaluate(
    policy: Policy,
    world: World,
    prompter: Prompter,
    tasks: Sequence[Task],
    *,
    temperature: float,
    seed: int,
    max_turns: int,
    concurrency: int,
) -> Evaluation:
    """Plays each task once."""
    starts = fresh_starts(world, prompter, tasks, rollouts=1, max_turns=max_turns)
    trajectories = play(policy, starts, temperature=temperature, seed=seed, concurrency=concurrency)
    return summarise(trajectories, world.kinds)


def panel(world: World, splits: Sequence[str], size: int, *, seed: int = 0) -> list[Task]:
    """A fixed panel: all tasks of `splits` in order, or `size` of them drawn once (0: all)."""
    # A task may be made when it is asked for: only those that are chosen are.
    places = [(tasks, i) for tasks in map(world.tasks, splits) for i in range(len(tasks))]
    if 0 < size < len(places):
        chosen = np.random.default_rng(seed).choice(len(places), size, replace=False)
        places = [places[i] for i in sorted(chosen)]
    return [tasks[i] for tasks, i in places]
