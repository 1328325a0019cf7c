"""Mistakes are found where L grows, can be written down and replayed, and are continued within the turn limit."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from toy_student import Scripted, Toy

from pivotopd_jax.evaluation.recovery import (
    bootstrap_interval,
    distances,
    find_mistakes,
    mistake_record,
    pivotal_turns,
    recoveries,
    replayed_mistake,
)
from pivotopd_jax.records import Trajectory
from pivotopd_jax.rollout.collect import fresh_starts, play


def said(toy: Toy, actions: list[str], prize: int = 1) -> Trajectory:
    """What a student did who said `actions`; an episode has as many turns."""
    task = toy.world.tasks("test")[prize]
    starts = fresh_starts(toy.world, toy.prompter, [task], rollouts=1, max_turns=len(actions))
    policy = Scripted(toy.prompter.chat, [a if a.startswith("!") else f"<action>{a}</action>" for a in actions])
    return play(policy, starts, temperature=1.0, seed=0, concurrency=1)[0]


def mistakes_of(toy: Toy, trajectory: Trajectory, max_turns: int) -> list:
    return find_mistakes(toy.world.planner, [trajectory], max_turns=max_turns, limit=9, seed=0)


def test_distances_and_pivotal_turns(toy):
    trajectory = said(toy, ["right", "right", "! no action", "left", "left"])
    assert distances(toy.world.planner, trajectory) == [2, 1, 2, 2, 1, 2]
    assert pivotal_turns(toy.world.planner, trajectory) == [1, 4]


def test_in_an_open_action_space_a_wasted_turn_is_pivotal(toy):
    """The third turn (index 2) changes nothing; with a list of admissible actions that is no mistake."""
    trajectory = said(toy, ["right", "right", "! no action", "left", "left"])
    free = tuple(replace(t, observation=replace(t.observation, admissible=None)) for t in trajectory.turns)
    assert pivotal_turns(toy.world.planner, replace(trajectory, turns=free)) == [1, 2, 4]


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
    for left, right in zip(again.trajectory.turns, trajectory.turns, strict=False):
        np.testing.assert_array_equal(left.context_ids, right.context_ids)
        assert (left.action, left.accepted) == (right.action, right.accepted)
    with pytest.raises(ValueError, match="left 5 turns to success; replayed, it leaves 2"):
        replayed_mistake(toy.world, toy.prompter, tasks, {**record, "left": 5})
    with pytest.raises(ValueError, match="which these tasks do not hold"):
        replayed_mistake(toy.world, toy.prompter, {}, record)


def test_continuations_use_up_what_was_left_of_the_turns(toy):
    (mistake,) = mistakes_of(toy, said(toy, ["right", "right", "right"]), max_turns=4)

    def continued(max_turns: int, said: list[str]) -> list[list[bool]]:
        policy = Scripted(toy.prompter.chat, [f"<action>{a}</action>" for a in said])
        return recoveries(
            policy, toy.world, toy.prompter, [mistake], continuations=2, temperature=1.0, seed=0,
            max_turns=max_turns, concurrency=1,
        ).tolist()  # fmt: skip

    assert continued(4, ["left", "grab", "left", "left"]) == [[True, False]]
    assert continued(3, ["left", "left"]) == [[False, False]]


def test_the_bootstrap_interval_is_that_of_a_mean():
    values = np.r_[np.ones(60), np.zeros(40)]
    low, high = bootstrap_interval(values)
    assert (low, high) == pytest.approx((0.6 - 1.96 * 0.049, 0.6 + 1.96 * 0.049), abs=0.01)
    assert bootstrap_interval([0.25] * 7) == (0.25, 0.25)
