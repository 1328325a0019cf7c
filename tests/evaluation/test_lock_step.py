"""Rollouts in lock-step are ours in another order."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
from toy_student import make_toy

from pivotopd_jax.evaluation.lock_step import bench_rollout, play_lock_step, same_tokens
from pivotopd_jax.rollout.collect import fresh_starts, play

SEEDED = {"temperature": 1.0, "seed": 3}


@pytest.mark.parametrize("keep_cache", [False, True])
def test_both_policies_play_the_same_trajectories(toy, keep_cache):
    starts = fresh_starts(toy.world, toy.prompter, toy.world.tasks("train"), rollouts=2, max_turns=4)
    ours = play(toy.sampler(), starts, concurrency=8, **SEEDED)
    # Three at a time: every wave but the last is full.
    lock_step = play_lock_step(toy.sampler(slots=3), starts, keep_cache=keep_cache, **SEEDED)
    assert len(lock_step) == len(starts)
    for left, right in zip(ours, lock_step, strict=True):
        assert left.task.id == right.task.id
        assert same_tokens(left, right)
    assert not same_tokens(ours[0], dataclasses.replace(ours[0], turns=ours[0].turns[1:]))


def test_a_finished_episode_goes_on_being_answered_and_prompts_are_read_anew(monkeypatch):
    toy = make_toy()
    sampler = toy.sampler()
    asked, forgotten = [], []
    sample, load = sampler.sample, sampler.load
    monkeypatch.setattr(sampler, "sample", lambda r, **kwargs: asked.append(len(r)) or sample(r, **kwargs))
    monkeypatch.setattr(sampler, "load", lambda params: forgotten.append(1) or load(params))
    # One episode ends after a turn, the other after three.
    starts = [
        *fresh_starts(toy.world, toy.prompter, toy.world.tasks("train")[:1], rollouts=1, max_turns=1),
        *fresh_starts(toy.world, toy.prompter, toy.world.tasks("train")[3:], rollouts=1, max_turns=3),
    ]
    trajectories = play_lock_step(sampler, starts, **SEEDED)
    assert [len(t.turns) for t in trajectories] == [1, 3]
    assert asked == [2, 2, 2]
    assert len(forgotten) == 3


def test_rollouts_of_a_step_are_counted_for_each_policy():
    toy = make_toy()
    config = SimpleNamespace(rollouts=2, max_turns=3, temperature=1.0, tasks_per_step=2, seed=0)
    config.world = SimpleNamespace(train_split="train")
    run = SimpleNamespace(
        config=config, world=toy.world, prompter=toy.prompter, policy=toy.sampler(), reference=toy.params
    )
    found = bench_rollout(run, rounds=1)  # type: ignore[arg-type]
    assert found["same_trajectories"] == 4
    for name in ("ours", "lock_step", "lock_step_equal_prompts_once", "lock_step_with_cache"):
        assert found[name]["seconds"] > 0
    assert found["ours"]["episodes"] == 4
    assert found["ours"]["turns"] == found["lock_step"]["turns"] <= 12
    assert found["ours"]["tokens"] == found["lock_step"]["tokens"] > 0
