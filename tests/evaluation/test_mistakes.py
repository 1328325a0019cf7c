"""Mistakes are found where they leave time, and can be written down and replayed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scripted_play import said
from toy_student import Toy

from pivotopd_jax.evaluation import mistakes
from pivotopd_jax.evaluation.mistakes import base_mistakes, find_mistakes, mistake_record, replayed_mistake
from pivotopd_jax.records import Trajectory


def mistakes_of(toy: Toy, trajectory: Trajectory, max_turns: int) -> list:
    return find_mistakes(toy.world.planner, [trajectory], max_turns=max_turns, limit=9, seed=0)


def test_the_first_mistake_that_leaves_time_counts(toy):
    trajectory = said(toy, ["right", "right", "right"])
    (mistake,) = mistakes_of(toy, trajectory, max_turns=4)
    assert (mistake.turn, mistake.left) == (1, 2)
    assert mistakes_of(toy, trajectory, max_turns=3) == []
    assert mistakes_of(toy, said(toy, ["right", "grab"]), max_turns=9) == []


def test_a_mistake_survives_being_written_down(toy):
    trajectory = said(toy, ["right", "! no action", "right", "right"])
    (mistake,) = mistakes_of(toy, trajectory, max_turns=9)
    record = json.loads(json.dumps(mistake_record(mistake)))
    tasks = {task.id: task for task in toy.world.tasks("test")}
    again = replayed_mistake(toy.world, toy.prompter, tasks, record)
    assert (again.turn, again.left) == (mistake.turn, mistake.left) == (2, 2)
    assert again.trajectory.snapshot_after(2) == trajectory.snapshot_after(2)
    for left, right in zip(again.trajectory.turns, trajectory.turns, strict=True):
        np.testing.assert_array_equal(left.context_ids, right.context_ids)
        assert (left.action, left.accepted) == (right.action, right.accepted)
    with pytest.raises(ValueError, match="left 5 turns to success; replayed, it leaves 2"):
        replayed_mistake(toy.world, toy.prompter, tasks, {**record, "left": 5})
    with pytest.raises(ValueError, match="which these tasks do not hold"):
        replayed_mistake(toy.world, toy.prompter, {}, record)


def test_a_task_gives_one_mistake_however_often_it_is_played(toy, monkeypatch):
    """The base walks past the prize in the first game of those it is asked to play; behind cell 3 there is none."""
    asked: list[list[str]] = []

    def evaluate_run(run: Any, params: Any, tasks: Any, temperature: float, seed: int) -> Any:
        asked.append([task.id for task in tasks])
        ways = [["right"] * 4 if place == 0 else ["left"] * 4 for place in range(len(tasks))]
        played = [said(toy, way, task.source[0]) for way, task in zip(ways, tasks, strict=True)]
        return SimpleNamespace(trajectories=played)

    monkeypatch.setattr(mistakes, "evaluate_run", evaluate_run)
    config = SimpleNamespace(
        world=SimpleNamespace(eval_splits=("test",)), evaluate=SimpleNamespace(mistakes=9, final_tasks=0),
        eval_temperature=0.4, max_turns=9,
    )  # fmt: skip
    run: Any = SimpleNamespace(config=config, world=toy.world, reference=None)
    assert [mistake.trajectory.task.id for mistake in base_mistakes(run)] == ["test-0", "test-1", "test-2"]
    everything = ["test-0", "test-1", "test-2", "test-3"]
    assert asked == [everything, everything[1:], everything[2:], everything[3:]]
    config.evaluate.mistakes = 2
    assert len(base_mistakes(run)) == 2
    assert asked[4:] == [everything, everything[1:]]
