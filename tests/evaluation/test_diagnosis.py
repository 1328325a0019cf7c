"""Counts of a diagnosis, by hand in a corridor; an oracle has nothing to be diagnosed with."""

from __future__ import annotations

from scripted_play import said

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.evaluation.diagnosis import failure_points, find_pivots, pivots_text
from pivotopd_jax.evaluation.replays import oracle_from
from pivotopd_jax.prompts.alfworld import AlfWorldWording
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.rollout.collect import fresh_starts, play


def test_failures_are_counted_by_hand(toy):
    """The prize lies in cell 1. Turn by turn: past it; only the wall; there, away and back; straight there."""
    played = [
        said(toy, ["right", "right", "right", "left"]),
        said(toy, ["left", "left"]),
        said(toy, ["right", "right", "left", "grab"]),
        said(toy, ["right", "grab"]),
    ]
    found = find_pivots(toy.world.planner, played)
    assert (found.trajectories, found.success and found.success.value) == (4, 0.5)
    assert found.in_failures
    assert (found.in_failures.value, found.in_failures.units) == (0.5, 2)
    assert found.in_successes
    assert (found.in_successes.value, found.in_successes.units) == (0.5, 2)
    assert found.first_turn
    assert found.wasted
    assert (found.first_turn.value, found.wasted.value) == (2, 2)
    assert failure_points(toy.world.planner, played) == [(played[0], 1)]
    assert "failures with an oracle-pivotal turn: 50.0" in pivots_text(found)


def test_a_policy_that_is_the_oracle_has_no_pivotal_turn(toy):
    world = AlfWorld("generated", receptacles=4, distractors=1)
    prompter = Prompter(toy.prompter.chat, AlfWorldWording(), "transcript", 3, False, 10_000)
    tasks = world.tasks("test")[:10]
    starts = fresh_starts(world, prompter, tasks, rollouts=1, max_turns=30)
    oracle = oracle_from(world.planner, [0] * len(starts), 30)
    played = play(None, starts, temperature=1.0, seed=0, concurrency=4, actor=oracle)
    found = find_pivots(world.planner, played)
    assert found.success
    assert found.success.value == 1
    assert found.in_successes
    assert found.in_successes.value == 0
    assert found.in_failures is found.first_turn is found.wasted is None
    assert "failures with an oracle-pivotal turn: –% of 0" in pivots_text(found)
