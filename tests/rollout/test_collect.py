"""Playing episodes: what the environment does, who acts, and that token ids stay as they were sampled."""

from __future__ import annotations

import numpy as np
import pytest

from pivotopd_jax.rollout.collect import fresh_starts, play, resumed_starts

SEEDED = {"temperature": 1.0, "seed": 3}


def test_trajectories_do_not_depend_on_concurrency(toy):
    tasks = toy.world.tasks("train")
    starts = fresh_starts(toy.world, toy.prompter, tasks, rollouts=2, max_turns=4)
    wide = play(toy.sampler(), starts, concurrency=8, **SEEDED)
    narrow = play(toy.sampler(), starts, concurrency=3, **SEEDED)
    assert [t.task.id for t in wide] == [task.id for task in tasks for _ in range(2)]
    assert [t.group for t in wide] == [0, 0, 1, 1, 2, 2, 3, 3]
    for left, right in zip(wide, narrow, strict=True):
        assert [x.response_ids.tolist() for x in left.turns] == [x.response_ids.tolist() for x in right.turns]


def test_ids_of_a_transcript_are_those_that_were_sampled(toy):
    if toy.prompter.style != "transcript":
        pytest.skip("the windowed style rebuilds its prompt from text every turn")
    starts = fresh_starts(toy.world, toy.prompter, toy.world.tasks("train"), rollouts=2, max_turns=4)
    for trajectory in play(toy.sampler(), starts, concurrency=8, **SEEDED):
        for earlier, later in zip(trajectory.turns, trajectory.turns[1:], strict=False):
            said, context = earlier.response_ids, later.context_ids
            found = [i for i in range(len(context)) if np.array_equal(context[i : i + len(said)], said)]
            assert found, "a sampled response is not in the next context as it was sampled"


def test_a_forced_episode(toy):
    script = iter(["right", "left", "grab", "right", "right", "grab"])
    starts = fresh_starts(toy.world, toy.prompter, toy.world.tasks("train")[2:3], rollouts=1, max_turns=9)
    (trajectory,) = play(None, starts, concurrency=1, actor=lambda index, episode: next(script), **SEEDED)
    assert trajectory.won
    assert trajectory.score == 1.0
    assert [turn.accepted for turn in trajectory.turns] == [True, True, False, True, True, True]
    assert {turn.actor for turn in trajectory.turns} == {"teacher"}
    assert trajectory.observation_after(2).text == "Nothing happens."
    assert trajectory.final.text == "You have the prize."


def test_resuming_goes_on_where_the_trajectory_stood(toy):
    script = iter(["right", "right", "left"])
    starts = fresh_starts(toy.world, toy.prompter, toy.world.tasks("train")[2:3], rollouts=1, max_turns=3)
    (trajectory,) = play(None, starts, concurrency=1, actor=lambda index, episode: next(script), **SEEDED)
    assert not trajectory.won
    more = iter(["grab"])
    starts = resumed_starts(toy.world, toy.prompter, [(trajectory, 1)], max_turns=3)
    (resumed,) = play(None, starts, concurrency=1, actor=lambda index, episode: next(more), **SEEDED)
    assert resumed.won
    assert [turn.action for turn in resumed.turns] == ["right", "right", "grab"]
    np.testing.assert_array_equal(resumed.turns[2].context_ids, trajectory.turns[2].context_ids)
