"""Environments that crash or hang: tried twice, exactly, and never waited for in vain."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from faulty_world import Once, crash, guarded, hang
from toy_world import CorridorWorld

from pivotopd_jax.envs.guard import EnvironmentFailure, GuardedWorld
from pivotopd_jax.records import Trajectory
from pivotopd_jax.rollout.collect import fresh_starts, play, resumed_starts

TASKS = CorridorWorld().tasks("train")
SEEDED: dict[str, Any] = {"temperature": 1.0, "seed": 3, "concurrency": 8}


def assert_same(left: list[Trajectory], right: list[Trajectory]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert (one.task.id, one.group, one.won, one.final_snapshot) == (
            other.task.id, other.group, other.won, other.final_snapshot,
        )  # fmt: skip
        for a, b in zip(one.turns, other.turns, strict=True):
            assert a.snapshot == b.snapshot
            np.testing.assert_array_equal(a.context_ids, b.context_ids)
            np.testing.assert_array_equal(a.response_ids, b.response_ids)
            np.testing.assert_array_equal(a.log_probs, b.log_probs)


@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize(("fail", "kind"), [(crash, "crashed"), (hang, "hung")])
def test_what_fails_once_changes_nothing(toy, fail, kind, threads):
    """Resets and steps fail here and there; what is played is what is played without, to the last bit."""
    policy = toy.sampler()
    played = []
    # The second call is a reset, the others are steps.
    for once in (Once(set(), fail), Once({1, 9, 14}, fail)):
        world = guarded(toy.world, once, seconds=0.3 if fail is hang else 30.0)
        policy.load(policy.params)
        starts = fresh_starts(world, toy.prompter, TASKS, rollouts=2, max_turns=4)
        played.append(play(policy, starts, threads=threads, **SEEDED))
        assert not once.at
    assert_same(*played)
    assert world.failures == {kind: 3}


def test_a_resumed_episode_that_fails_once_goes_on_from_where_it_was(toy):
    def script(actions: str) -> Any:
        left = iter(actions.split())
        return lambda index, episode: next(left)

    starts = fresh_starts(toy.world, toy.prompter, TASKS[2:3], rollouts=1, max_turns=3)
    (walk,) = play(None, starts, actor=script("right right left"), **SEEDED)
    once = Once({0, 1}, crash, ("restore", "step"))
    (resumed,) = play(
        None,
        resumed_starts(guarded(toy.world, once), toy.prompter, [(walk, 1)], max_turns=3),
        actor=script("grab"),
        **SEEDED,
    )
    assert not once.at
    assert resumed.won
    assert [turn.action for turn in resumed.turns] == ["right", "right", "grab"]


@pytest.mark.parametrize("threads", [0, 3])
def test_what_fails_twice_is_lost_and_costs_the_others_nothing(toy, threads):
    def fails(name: str, given: Any) -> None:
        if name == "reset" and given.id == "train-1":
            crash()

    policy = toy.sampler()
    lost: dict[int, str] = {}
    world = guarded(toy.world, fails)
    starts = fresh_starts(world, toy.prompter, TASKS, rollouts=2, max_turns=4)
    kept = play(policy, starts, threads=threads, on_failure=lambda index, why: lost.update({index: str(why)}), **SEEDED)
    policy.load(policy.params)
    whole = play(
        policy, fresh_starts(toy.world, toy.prompter, TASKS, rollouts=2, max_turns=4), threads=threads, **SEEDED
    )
    assert {*lost} == {2, 3}
    assert lost[2] == "an environment failed twice at reset to task 'train-1': OSError: the environment broke"
    assert world.failures == {"crashed": 4}
    assert [t.group for t in kept] == [0, 0, 2, 2, 3, 3]
    for one, other in zip(kept, [t for t in whole if t.group != 1], strict=True):
        assert [x.response_ids.tolist() for x in one.turns] == [x.response_ids.tolist() for x in other.turns]
    with pytest.raises(EnvironmentFailure, match="failed twice at reset to task 'train-1'"):
        play(policy, starts, threads=threads, **SEEDED)


def test_what_is_forced_may_be_lost_too(toy):
    def fails(name: str, given: Any) -> None:
        if name == "step":
            crash()

    lost: list[int] = []
    starts = fresh_starts(guarded(toy.world, fails), toy.prompter, TASKS[:2], rollouts=1, max_turns=4)
    found = play(None, starts, actor=lambda *_: "right", on_failure=lambda index, _: lost.append(index), **SEEDED)
    assert found == []
    assert lost == [0, 1]


def test_what_hangs_is_left_behind_and_its_threads_end_when_it_does(toy):
    released, hanging = threading.Event(), []

    def fails(name: str, given: Any) -> None:
        if name == "step":
            hanging.append(threading.current_thread())
            released.wait(60)

    world = guarded(toy.world, fails, seconds=0.2)
    env = world.make()
    env.reset(TASKS[0])
    with pytest.raises(EnvironmentFailure, match=r"failed twice at step\('left'\): hung: it did not answer within 0.2"):
        env.step("left")
    assert world.failures == {"hung": 2}
    assert world.make().reset(TASKS[1]).text == "You are in cell 0."
    assert [thread.is_alive() for thread in hanging] == [True, True]
    assert all(thread.daemon for thread in hanging)
    released.set()
    for thread in hanging:
        thread.join(30)
    assert not any(thread.is_alive() for thread in hanging)


def test_even_what_ends_programs_costs_one_call(toy):
    once = Once({0}, lambda: exit(3))
    env = guarded(toy.world, once).make()
    assert env.reset(TASKS[0]).text == "You are in cell 0. The prize is here."
    assert env.step("grab").won


def test_there_must_be_a_deadline(toy):
    with pytest.raises(ValueError, match=r"env_deadline_seconds is 0; expected more than 0"):
        GuardedWorld(toy.world, deadline_seconds=0)
