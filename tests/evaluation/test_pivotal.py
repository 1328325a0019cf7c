"""Oracle-pivotal turns are where L grows."""

from __future__ import annotations

from dataclasses import replace

from scripted_play import said

from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.evaluation.pivotal import distances, first_pivotal, pivotal_turns


def test_distances_and_pivotal_turns(toy):
    trajectory = said(toy, ["right", "right", "! no action", "left", "left"])
    assert distances(toy.world.planner, trajectory) == [2, 1, 2, 2, 1, 2]
    assert pivotal_turns(toy.world.planner, trajectory) == [1, 4]
    assert first_pivotal(toy.world.planner, trajectory) == 1


def test_in_an_open_action_space_a_wasted_turn_is_pivotal(toy):
    """The third turn (index 2) changes nothing; with a list of admissible actions that is no mistake."""
    trajectory = said(toy, ["right", "right", "! no action", "left", "left"])
    free = tuple(replace(t, observation=replace(t.observation, admissible=None)) for t in trajectory.turns)
    assert pivotal_turns(toy.world.planner, replace(trajectory, turns=free)) == [1, 2, 4]


def test_the_oracle_never_makes_a_mistake():
    world = AlfWorld("generated", receptacles=4, distractors=1)
    planner = world.planner
    for task in world.tasks("test")[:10]:
        env = world.make()
        env.reset(task)
        left = planner.distance(env.snapshot())
        while (action := planner.next_action(env.snapshot())) is not None:
            env.step(action)
            left, before = planner.distance(env.snapshot()), left
            assert left == before - 1
        assert left == 0
