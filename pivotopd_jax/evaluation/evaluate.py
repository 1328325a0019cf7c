"""Plays a fixed panel of held-out tasks and counts what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from absl import logging

from pivotopd_jax.envs.guard import EnvironmentFailure
from pivotopd_jax.envs.protocol import World
from pivotopd_jax.processes import gather, own, share_of, together
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Task, Trajectory
from pivotopd_jax.rollout.collect import ends_all, fresh_starts, play
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
        won: `[tasks]` bool, in the order of the panel; without those that were lost, see `evaluate`.
        trajectories: what was played; of many processes, by this one, while all other numbers are those of all.
    """

    success: float
    score: float
    by_kind: dict[str, float]
    mean_over_kinds: float
    turns: float
    rejected: float
    nats: float
    won: list[bool]
    trajectories: list[Trajectory] = field(repr=False)


def summarise(trajectories: Sequence[Trajectory], kinds: Sequence[str]) -> Evaluation:
    """Counts the finished trajectories of all processes; `kinds` gives the order of the columns.

    Raises:
        EnvironmentFailure: there is none.
    """
    played = [record for part in gather([_record(t) for t in trajectories]) for record in part]
    if not played:
        raise EnvironmentFailure("no game of the evaluation could be played to its end; the warnings above say why")
    won = {kind: [p["won"] for p in played if p["kind"] == kind] for kind in kinds}
    by_kind = {kind: float(np.mean(results)) for kind, results in won.items() if results}
    return Evaluation(
        success=float(np.mean([p["won"] for p in played])),
        score=float(np.mean([p["score"] for p in played])),
        by_kind=by_kind,
        mean_over_kinds=float(np.mean(list(by_kind.values()))),
        turns=float(np.mean([len(p["nats"]) for p in played])),
        rejected=float(np.mean([rejected for p in played for rejected in p["rejected"]])),
        nats=float(np.mean([nats for p in played for nats in p["nats"]])),
        won=[p["won"] for p in played],
        trajectories=list(trajectories),
    )


def _record(trajectory: Trajectory) -> dict[str, Any]:
    """What `summarise` counts of a trajectory."""
    return {
        "kind": trajectory.task.kind,
        "won": bool(trajectory.won),
        "score": float(trajectory.score),
        "rejected": [not turn.accepted for turn in trajectory.turns],
        "nats": [-float(turn.log_probs.sum()) for turn in trajectory.turns],
    }


def evaluate(
    policy: Policy,
    world: World,
    prompter: Prompter,
    tasks: Sequence[Task],
    *,
    temperature: float,
    top_p: float = 1.0,
    seed: int,
    max_turns: int,
    concurrency: int,
    threads: int = 0,
    whole: bool = True,
) -> Evaluation:
    """Plays each task once, each process its share of them; all processes must call this.

    Raises:
        EnvironmentFailure: the environment of a game failed and the `whole` panel is wanted; otherwise such a game is
            left out, with a warning, and the run goes on.
    """
    starts = fresh_starts(world, prompter, own(tasks), rollouts=1, max_turns=max_turns)
    with together():
        trajectories = play(
            policy, starts, temperature=temperature, top_p=top_p, seed=seed, concurrency=concurrency,
            threads=threads, first=share_of(len(tasks)).start, on_failure=ends_all if whole else _left_out,
        )  # fmt: skip
    return summarise(trajectories, world.kinds)


def _left_out(index: int, failure: EnvironmentFailure) -> None:
    logging.warning("game %d of the panel is left out: %s", index, failure)


def panel(world: World, splits: Sequence[str], size: int, *, seed: int = 0) -> list[Task]:
    """A fixed panel: all tasks of `splits` in order, or `size` of them drawn once (0: all)."""
    # A task may be made when it is asked for: only those that are chosen are.
    places = [(tasks, i) for tasks in map(world.tasks, splits) for i in range(len(tasks))]
    if 0 < size < len(places):
        chosen = np.random.default_rng(seed).choice(len(places), size, replace=False)
        places = [places[i] for i in sorted(chosen)]
    return [tasks[i] for tasks, i in places]
