"""Mistakes of a base policy, written down so that every policy can continue the same ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pivotopd_jax.envs.protocol import Planner, World
from pivotopd_jax.evaluation.evaluate import panel
from pivotopd_jax.evaluation.pivotal import pivotal_turns
from pivotopd_jax.files import parse_json, write_json
from pivotopd_jax.processes import draw
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Task, Trajectory
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.run import Run
from pivotopd_jax.sampling.policy import Sample
from pivotopd_jax.train import evaluate_run

PLAYS = 4
"""Times a task is played at most in search of a mistake."""


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
    """`mistake` as plain JSON: its task, and what was said in the whole episode."""
    return {
        "task": mistake.trajectory.task.id,
        "responses": [turn.response_ids.tolist() for turn in mistake.trajectory.turns],
        "turn": mistake.turn,
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
    # Before whole episodes were written down, the mistake was the last turn.
    turn = record.get("turn", len(said) - 1)
    episode = Episode.start(world.make(), prompter, tasks[record["task"]], 0, len(said) + 1)
    for ids in said:
        if episode.done:
            break
        ended = int(ids[-1]) in prompter.chat.end_ids
        episode.respond(episode.context(), Sample(ids, np.zeros(len(ids), np.float32), ended))
    trajectory = episode.trajectory()
    whole = len(trajectory.turns) == len(said)
    left = world.planner.distance(trajectory.snapshot_after(turn)) if whole else 0
    if left != record["left"]:
        raise ValueError(
            f"a recorded mistake in task {record['task']!r} left {record['left']} turns to success; replayed, it "
            f"leaves {left}: the student, the prompt or the games are not those it was recorded with"
        )
    return Mistake(trajectory, turn, record["left"])


def frozen_mistakes(run: Run, path: Path) -> list[Mistake]:
    """The mistakes that all students of a comparison continue: those in `path`, which is written first if missing.

    Sampled anew on another machine, or with another number of threads, they would not be quite the same.

    Raises:
        ValueError: `path` holds more than `config.evaluate.mistakes`, or one that cannot be replayed.
    """
    if not path.exists():
        write_json(path, [mistake_record(mistake) for mistake in base_mistakes(run)])
    config = run.config
    tasks = {task.id: task for task in panel(run.world, config.world.eval_splits, config.evaluate.final_tasks)}
    mistakes = read_mistakes(path, run.world, run.prompter, tasks)
    if len(mistakes) > config.evaluate.mistakes:
        raise ValueError(
            f"{path} holds {len(mistakes)} mistakes, and config.evaluate.mistakes is {config.evaluate.mistakes}; "
            "choose another --workdir, or as many as there are"
        )
    return mistakes


def read_mistakes(path: Path, world: World, prompter: Prompter, tasks: Mapping[str, Task]) -> list[Mistake]:
    """The mistakes in a file of `mistake_record`s, played again; the arguments are those of `replayed_mistake`.

    Raises:
        ValueError: it is no such file, or a replay ends in another state.
    """
    try:
        records = [_checked(record) for record in parse_json(path.read_bytes())]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is not a file of mistakes ({error}); remove it to sample others") from error
    return [replayed_mistake(world, prompter, tasks, record) for record in records]


def _checked(record: Any) -> Mapping[str, Any]:
    said = record["responses"]
    turn, numbers = record.get("turn", len(said) - 1), [id for ids in said for id in ids]
    if not isinstance(record["task"], str) or not all(said) or not all(type(id) is int for id in numbers):
        raise TypeError("expected a task and responses of token ids")
    if type(turn) is not int or not 0 <= turn < len(said) or not all(0 <= id < 2**31 for id in numbers):
        raise ValueError("a turn or a token id is out of range")
    if type(record["left"]) is not int:
        raise TypeError("expected the turns that are left")
    return record


def base_mistakes(run: Run) -> list[Mistake]:
    """Oracle-pivotal mistakes of the base, at most one a task, so that intervals over mistakes are over tasks.

    Tasks without one are played again, `PLAYS` times at most, until there are `config.evaluate.mistakes`.
    """
    config = run.config
    found: list[Mistake] = []
    tasks = panel(run.world, config.world.eval_splits, config.evaluate.final_tasks)
    for seed in range(PLAYS):
        wanted = config.evaluate.mistakes - len(found)
        mistaken = {mistake.trajectory.task.id for mistake in found}
        left = [task for task in tasks if task.id not in mistaken]
        if not wanted or not left:
            break
        played = evaluate_run(run, run.reference, left, config.eval_temperature, 1000 + seed).trajectories
        found += find_mistakes(run.world.planner, played, max_turns=config.max_turns, limit=wanted, seed=seed)
    return found
