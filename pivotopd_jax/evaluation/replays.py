"""What if? Failed trajectories played again from their first oracle-pivotal turn t, with something changed there.

The six replays are those of arXiv 2609.40285 (its diagnosis). Each starts from a snapshot and keeps the turns that were
used up; after the turns that the oracle is forced upon, the student plays on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pivotopd_jax.envs.protocol import Planner, World
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Trajectory
from pivotopd_jax.rollout.collect import Actor, play, resumed_starts, student
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.sampling.policy import Policy, request_seed


@dataclass(frozen=True)
class Replay:
    """One change.

    Attributes:
        resume: the first turn that is played anew, counted from t: 0 undoes the mistake, 1 keeps it; None draws one of
            the recorded later turns uniformly.
        forced: turns from there on that the oracle plays.
    """

    resume: int | None
    forced: int = 0


REPLAYS: Mapping[str, Replay] = {
    "none: the mistake is kept": Replay(1),
    "the turn is sampled anew": Replay(0),
    "oracle at a later turn": Replay(None, 1),
    "oracle at the pivotal turn": Replay(0, 1),
    "mistake kept, oracle for the next 2 turns": Replay(1, 2),
    "mistake kept, oracle for the next 3 turns": Replay(1, 3),
}


def replayed(
    policy: Policy | None,
    world: World,
    prompter: Prompter,
    pivots: Sequence[tuple[Trajectory, int]],
    replay: Replay,
    *,
    continuations: int,
    temperature: float,
    top_p: float = 1.0,
    seed: int,
    max_turns: int,
    concurrency: int,
    threads: int = 0,
) -> np.ndarray:
    """Whether each replay succeeds, `[pivots, continuations]` bool.

    Args:
        policy: plays on; None if the oracle always ends the episode.
        world, prompter: of the trajectories.
        pivots: trajectories with their first oracle-pivotal turn.
        replay: what is changed.
        continuations: replays of each trajectory.
        temperature, top_p, seed, concurrency, threads: as in `rollout.collect.play`.
        max_turns: turn limit, those already used up included. Where a trajectory ended before the first turn to be
            played anew, its replay is lost.
    """
    draws = np.random.default_rng(request_seed(seed, 0))
    points: list[tuple[Trajectory, int]] = []
    for trajectory, pivot in pivots:
        for _ in range(continuations):
            later = int(draws.integers(pivot + 1, max(pivot + 2, len(trajectory.turns))))
            points.append((trajectory, later if replay.resume is None else pivot + replay.resume))
    alive = [place for place, (trajectory, turn) in enumerate(points) if turn < len(trajectory.turns)]
    from_turns = [points[place][1] for place in alive]
    starts = resumed_starts(world, prompter, [(points[p][0], points[p][1] - 1) for p in alive], max_turns=max_turns)
    actor = oracle_from(world.planner, from_turns, replay.forced) if replay.forced else student
    played = play(
        policy, starts, temperature=temperature, top_p=top_p, seed=seed, concurrency=concurrency, threads=threads,
        actor=actor,
    )  # fmt: skip
    won = np.zeros(len(points), bool)
    won[alive] = [t.won for t in played]
    return won.reshape(len(pivots), continuations)


def oracle_from(planner: Planner, from_turns: Sequence[int], count: int) -> Actor:
    """The oracle acts for `count` turns from `from_turns[episode]` on, wherever success is possible."""

    def actor(index: int, episode: Episode) -> str | None:
        if len(episode.turns) >= from_turns[index] + count:
            return None
        return planner.next_action(episode.snapshot)

    return actor
