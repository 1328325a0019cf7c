"""Offline pivots: which turns are kept, what is rewarded, and that they survive their file."""

from __future__ import annotations

import numpy as np
import pytest
from toy_student import Scripted

from pivotopd_jax.methods.method import Pivots
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.rollout.curriculum import curriculum
from pivotopd_jax.rollout.pivots import Pivot, find_pivots, load_pivots, pivot_starts, rewarded, save_pivots
from pivotopd_jax.teachers.symbolic import SymbolicTeacher

SETTING = {"max_turns": 9, "temperature": 1.0, "seed": 0, "concurrency": 1}


def say(*actions: str) -> list[str]:
    return [f"<action>{action}</action>" for action in actions]


def find(toy, responses: list[str], **bounds):
    """Pivots of the episode in which the teacher walks to cell 1 and grabs the prize there."""
    policy, teacher = Scripted(toy.prompter.chat, responses), SymbolicTeacher(toy.world.planner)
    tasks = toy.world.tasks("train")[1:2]
    return find_pivots(policy, teacher, toy.world, toy.prompter, tasks, Pivots(rollouts=2, **bounds), **SETTING)


def test_turns_are_kept_by_the_students_mean_reward(toy):
    # Turn 0 (walk right): one of two. Turn 1 (grab): none of two, "left" leads away; no variance, whatever the bounds.
    responses = say("right", "left", "left", "right")
    assert [(p.turn, p.trajectory.won) for p in find(toy, list(responses))] == [(0, True)]
    assert [p.turn for p in find(toy, list(responses), least=0.0, most=1.0)] == [0]
    assert [p.turn for p in find(toy, say("right", "left", "grab", "right"))] == [0, 1]
    with pytest.raises(ValueError, match=r"of 2 turns of the teacher none.*raise config.offline.tasks"):
        find(toy, say("right", "right", "grab", "grab"), least=0.0, most=1.0)


def test_what_does_nothing_is_never_as_good(toy):
    """The prize lies in cell 2. Who steps back and forth teaches badly, but to grab nothing is no better."""
    said = say("right", "left", "right", "right", "grab")
    starts = fresh_starts(toy.world, toy.prompter, toy.world.tasks("train")[2:3], rollouts=1, max_turns=9)
    (walk,) = play(Scripted(toy.prompter.chat, said), starts, temperature=1.0, seed=0, concurrency=1)
    pivots = [Pivot(walk, 1)]
    starts = pivot_starts(toy.world, toy.prompter, pivots, rollouts=3)
    policy = Scripted(toy.prompter.chat, say("grab", "left", "right"))
    tried = play(policy, starts, temperature=1.0, seed=0, concurrency=1)
    # Refused; the teacher's own action, though it leads away; nearer than the teacher's.
    assert [t.won for t in rewarded(toy.world.planner, tried, pivots)] == [False, True, True]


def test_each_pivot_is_a_group_of_single_turns(toy):
    kept = find(toy, say("right", "left", "grab", "right"))
    starts = pivot_starts(toy.world, toy.prompter, kept, rollouts=2)
    policy = Scripted(toy.prompter.chat, ["right", *say("right"), *say("grab", "left")])
    played = rewarded(toy.world.planner, play(policy, starts, temperature=1.0, seed=0, concurrency=1), kept)
    assert [t.group for t in played] == [0, 0, 1, 1]
    assert [t.won for t in played] == [False, True, True, False]  # the first said no action
    assert [[turn.actor for turn in t.turns] for t in played] == [["student"]] * 2 + [["teacher", "student"]] * 2


def test_pivots_survive_their_file(toy, tmp_path):
    kept = find(toy, say("right", "left", "grab", "right"))
    save_pivots(tmp_path / "pivots.json", kept)
    tasks = {task.id: task for task in toy.world.tasks("train")}
    again = load_pivots(tmp_path / "pivots.json", toy.world, toy.prompter, tasks)
    for left, right in zip(kept, again, strict=True):
        assert left.turn == right.turn
        assert left.trajectory.snapshot_after(left.turn) == right.trajectory.snapshot_after(right.turn)
        for ours, theirs in zip(left.trajectory.turns, right.trajectory.turns, strict=False):
            np.testing.assert_array_equal(ours.context_ids, theirs.context_ids)
    with pytest.raises(ValueError, match="is not among the 0 offline tasks"):
        load_pivots(tmp_path / "pivots.json", toy.world, toy.prompter, {})


def test_a_curriculum_takes_everything_once_before_anything_twice():
    items = list(range(10))
    order = [item for step in range(6) for item in curriculum(items, step, 5, seed=3)]
    for epoch in range(3):
        assert sorted(order[10 * epoch : 10 * epoch + 10]) == items
    assert order[:10] != order[10:20]
    assert curriculum(items[:1], 0, 3, seed=3) == [0, 0, 0]
