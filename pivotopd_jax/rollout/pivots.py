"""Offline pivots: single turns of a teacher's episodes at which the student is neither always right nor hopeless.

PivotRL, arXiv 2603.21383. An action counts as equivalent to the teacher's if it is the same, or if it is carried out,
brings success nearer and leaves it as near as the teacher's does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pivotopd_jax.envs.protocol import Planner, World
from pivotopd_jax.files import parse_json, write_json
from pivotopd_jax.methods.method import Pivots
from pivotopd_jax.prompts.actions import is_mismatch
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Task, Trajectory
from pivotopd_jax.rollout.behaviours import teacher_episode
from pivotopd_jax.rollout.collect import Start, play
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.sampling.policy import Policy
from pivotopd_jax.teachers.protocol import Teacher


@dataclass(frozen=True, eq=False)
class Pivot:
    """One decision to be practised.

    Attributes:
        trajectory: what the teacher played, at least up to that decision.
        turn: 0-based turn of the decision.
    """

    trajectory: Trajectory
    turn: int


def find_pivots(
    policy: Policy,
    teacher: Teacher,
    world: World,
    prompter: Prompter,
    tasks: Sequence[Task],
    wanted: Pivots,
    *,
    max_turns: int,
    temperature: float,
    top_p: float = 1.0,
    seed: int,
    concurrency: int,
    threads: int = 0,
) -> list[Pivot]:
    """The turns of the teacher's episodes on `tasks` at which the student's mean reward lies within the bounds.

    Raises:
        ValueError: there is none.
    """
    started = [Episode.start(world.make(), prompter, task, 0, max_turns) for task in tasks]
    played = [teacher_episode(teacher, episode).trajectory() for episode in started]
    turns = [Pivot(trajectory, turn) for trajectory in played for turn in range(len(trajectory.turns))]
    starts = pivot_starts(world, prompter, turns, rollouts=wanted.rollouts)
    tried = play(
        policy, starts, temperature=temperature, top_p=top_p, seed=seed, concurrency=concurrency, threads=threads
    )
    right = [t.won for t in rewarded(world.planner, tried, turns)]
    means = np.asarray(right).reshape(len(turns), wanted.rollouts).mean(axis=1)
    varied = (means > 0) & (means < 1)
    kept = [
        turn
        for turn, mean, mixed in zip(turns, means, varied, strict=True)
        if mixed and wanted.least <= mean <= wanted.most
    ]
    if not kept:
        raise ValueError(
            f"of {len(turns)} turns of the teacher none gives the student rewards that differ, with a mean in "
            f"[{wanted.least}, {wanted.most}]; raise config.offline.tasks or widen config.knobs.pivot_least and "
            "pivot_most"
        )
    return kept


def pivot_starts(world: World, prompter: Prompter, pivots: Sequence[Pivot], *, rollouts: int) -> list[Start]:
    """`rollouts` starts of one turn each at every pivot, which is a group of its own."""

    def start(pivot: Pivot, group: int) -> Start:
        def begin() -> Episode:
            episode = Episode.resume(world.make(), prompter, pivot.trajectory, pivot.turn - 1, pivot.turn + 1)
            episode.group = group
            return episode

        return begin

    return [start(pivot, group) for group, pivot in enumerate(pivots) for _ in range(rollouts)]


def rewarded(planner: Planner, trajectories: Sequence[Trajectory], pivots: Sequence[Pivot]) -> list[Trajectory]:
    """What was played from `pivot_starts`, won where the action was as good as the teacher's, whatever came of it."""
    return [replace(t, won=equivalent(planner, t, pivots[t.group])) for t in trajectories]


def equivalent(planner: Planner, played: Trajectory, pivot: Pivot) -> bool:
    """Whether the student's action at the pivot is as good as the teacher's action there."""
    said, wanted = played.turns[pivot.turn], pivot.trajectory.turns[pivot.turn].action
    if not said.accepted:
        return False
    if wanted is not None and not is_mismatch(said.action, wanted):
        return True
    left = planner.distance(played.snapshot_after(pivot.turn))
    nearer = left < planner.distance(said.snapshot)
    return nearer and left <= planner.distance(pivot.trajectory.snapshot_after(pivot.turn))


def save_pivots(path: Path, pivots: Sequence[Pivot]) -> None:
    """Writes pivots as a JSON list of what was played up to them."""
    records = [
        {"task": p.trajectory.task.id, "turn": p.turn, "actions": [t.action for t in p.trajectory.turns[: p.turn + 1]]}
        for p in pivots
    ]
    write_json(path, records)


def load_pivots(path: Path, world: World, prompter: Prompter, tasks: Mapping[str, Task]) -> list[Pivot]:
    """Reads what `save_pivots` wrote, and plays the actions again.

    Raises:
        ValueError: it is no such file, or a pivot's task is not among `tasks`, by id.
    """
    try:
        records = [_checked(record) for record in parse_json(path.read_bytes())]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is not a file of pivots ({error}); remove it to look for others") from error
    pivots = []
    for record in records:
        if record["task"] not in tasks:
            raise ValueError(f"{path}: task {record['task']!r} is not among the {len(tasks)} offline tasks of this run")
        pivots.append(_replayed(world, prompter, tasks[record["task"]], record))
    return pivots


def _checked(record: Any) -> Mapping[str, Any]:
    said, turn = record["actions"], record["turn"]
    if (
        not isinstance(record["task"], str)
        or not isinstance(said, list)
        or not all(isinstance(one, str) for one in said)
    ):
        raise TypeError("expected a task and a list of actions")
    if type(turn) is not int or turn != len(said) - 1:
        raise ValueError(f"turn {turn!r:.80} is not that of the last of {len(said)} actions")
    return record


def _replayed(world: World, prompter: Prompter, task: Task, record: Mapping[str, Any]) -> Pivot:
    episode = Episode.start(world.make(), prompter, task, 0, len(record["actions"]) + 1)
    for action in record["actions"]:
        if episode.done:
            raise ValueError(
                f"a pivot of task {task.id!r} comes after the end of its episode: the games are other ones"
            )
        episode.force(action)
    return Pivot(episode.trajectory(), record["turn"])
