"""Playing episodes: what the environment does, who acts, and that token ids stay as they were sampled."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest
from toy_world import Corridor, CorridorWorld

from pivotopd_jax.records import Trajectory
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


class Slow(Corridor):
    """Takes its time, never the same."""

    def step(self, action):
        time.sleep(random.random() * 0.01)
        return super().step(action)


class SlowWorld(CorridorWorld):
    def make(self):
        return Slow()


@pytest.mark.parametrize("concurrency", [8, 3])
def test_trajectories_do_not_depend_on_threads(toy, concurrency):
    starts = fresh_starts(SlowWorld(), toy.prompter, toy.world.tasks("train"), rollouts=2, max_turns=4)
    policy, finished = toy.sampler(), []
    played = []
    for threads in (0, 1, 4):
        policy.load(policy.params)
        order: list[Trajectory] = []
        played.append(play(policy, starts, concurrency=concurrency, threads=threads, on_finish=order.append, **SEEDED))
        finished.append([(t.task.id, len(t.turns)) for t in order])
    between, one, four = played
    assert finished[1] == finished[2]
    for without, left, right in zip(between, one, four, strict=True):
        assert len(without.turns) == len(left.turns) == len(right.turns)
        for a, b, c in zip(without.turns, left.turns, right.turns, strict=True):
            np.testing.assert_array_equal(a.response_ids, b.response_ids)
            np.testing.assert_allclose(a.log_probs, b.log_probs, atol=1e-5)
            np.testing.assert_array_equal(b.response_ids, c.response_ids)
            np.testing.assert_array_equal(b.log_probs, c.log_probs)  # to the last bit
            np.testing.assert_array_equal(b.context_ids, c.context_ids)


class Broken(CorridorWorld):
    """Whose environments break at their second step."""

    def make(self):
        class Env(Corridor):
            steps = 0

            def step(self, action):
                self.steps += 1
                if self.steps == 2:
                    raise OSError("the environment broke")
                return super().step(action)

        return Env()


@pytest.mark.parametrize("threads", [0, 3])
def test_a_broken_environment_ends_the_rollout_and_leaves_the_policy_usable(toy, threads):
    starts = fresh_starts(Broken(), toy.prompter, toy.world.tasks("train"), rollouts=2, max_turns=4)
    policy = toy.sampler()
    with pytest.raises(OSError, match="the environment broke"):
        play(policy, starts, concurrency=8, threads=threads, **SEEDED)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("environments")]
    policy.load(policy.params)
    starts = fresh_starts(toy.world, toy.prompter, toy.world.tasks("train"), rollouts=1, max_turns=2)
    assert len(play(policy, starts, concurrency=8, threads=threads, **SEEDED)) == 4


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
