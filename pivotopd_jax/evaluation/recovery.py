"""Can a policy come back from a mistake? Oracle-pivotal turns, and continuations right after them.

A turn is oracle-pivotal iff the least number of turns to success grows: L(s_{t+1}) > L(s_t) (arXiv 2609.40285). In an
open action space, where what was found out stays so and L grows only when the episode ends, a wasted turn counts too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pivotopd_jax.envs.protocol import Planner, World
from pivotopd_jax.processes import draw, gather, place_of, together
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Task, Trajectory
from pivotopd_jax.rollout.collect import play, resumed_starts
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.sampling.policy import Policy, Sample


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


@dataclass(frozen=True, eq=False)
class Mistake:
    """The first oracle-pivotal turn of a failed trajectory after which success is still possible in time."""

    trajectory: Trajectory
    turn: int
    left: int
    """L right after the mistake, in turns."""


def find_mistakes(
    planner: Planner, trajectories: Sequence[Trajectory], *, max_turns: int, limit: int, seed: int
) -> list[Mistake]:
    """At most `limit` mistakes, one a failed trajectory, drawn uniformly in a fixed order.

    The limit is that of all processes, each of which finds the mistakes in its own trajectories.
    """
    found = []
    for trajectory in trajectories:
        if trajectory.won:
            continue
        for turn in pivotal_turns(planner, trajectory):
            left = planner.distance(trajectory.snapshot_after(turn))
            if not math.isinf(left) and left <= max_turns - turn - 1:
                found.append(Mistake(trajectory, turn, int(left)))
                break
    return [found[place] for place in draw(len(found), limit, seed)]


def mistake_record(mistake: Mistake) -> dict[str, Any]:
    """`mistake` as plain JSON: its task, and what was said up to it."""
    said = mistake.trajectory.turns[: mistake.turn + 1]
    return {
        "task": mistake.trajectory.task.id,
        "responses": [turn.response_ids.tolist() for turn in said],
        "left": mistake.left,
    }


def replayed_mistake(world: World, prompter: Prompter, tasks: Mapping[str, Task], record: Mapping[str, Any]) -> Mistake:
    """The mistake that `mistake_record` wrote down, played again in `world`.

    Args:
        world: with the games that it was made in.
        prompter: of the student who made it.
        tasks: by id.
        record: as written.

    Raises:
        ValueError: the task is not there, or the replay ends in another state.
    """
    if record["task"] not in tasks:
        raise ValueError(f"a recorded mistake was made in task {record['task']!r}, which these tasks do not hold")
    said = [np.asarray(ids, np.int32) for ids in record["responses"]]
    episode = Episode.start(world.make(), prompter, tasks[record["task"]], 0, len(said) + 1)
    for ids in said:
        ended = int(ids[-1]) in prompter.chat.end_ids
        episode.respond(episode.context(), Sample(ids, np.zeros(len(ids), np.float32), ended))
    left = world.planner.distance(episode.snapshot)
    if episode.done or left != record["left"]:
        raise ValueError(
            f"a recorded mistake in task {record['task']!r} left {record['left']} turns to success; replayed, it "
            f"leaves {left}: the student, the prompt or the games are not those it was recorded with"
        )
    return Mistake(episode.trajectory(), len(said) - 1, record["left"])


def recoveries(
    policy: Policy,
    world: World,
    prompter: Prompter,
    mistakes: Sequence[Mistake],
    *,
    continuations: int,
    temperature: float,
    top_p: float = 1.0,
    seed: int,
    max_turns: int,
    concurrency: int,
    threads: int = 0,
) -> np.ndarray:
    """Whether each continuation succeeds within what was left of the turn limit, `[mistakes, continuations]` bool.

    Each process continues its own `mistakes`; the result is that of all.
    """
    before, _ = place_of(len(mistakes))
    points = [(m.trajectory, m.turn) for m in mistakes for _ in range(continuations)]
    starts = resumed_starts(world, prompter, points, max_turns=max_turns)
    with together():
        played = play(
            policy, starts, temperature=temperature, top_p=top_p, seed=seed, concurrency=concurrency,
            threads=threads, first=before * continuations,
        )  # fmt: skip
    won = [result for part in gather([bool(t.won) for t in played]) for result in part]
    return np.asarray(won, bool).reshape(-1, continuations)


def bootstrap_interval(values: Any, *, draws: int = 4000, seed: int = 0) -> tuple[float, float]:
    """95% percentile interval of the mean of `values [n]`, resampling whole entries (4,000 draws, seed 0)."""
    drawn = np.random.default_rng(seed).integers(0, len(values), (draws, len(values)))
    low, high = np.percentile(np.asarray(values, np.float64)[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)
