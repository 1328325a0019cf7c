"""Who acts, and what is labelled: behaviours, labels, and two methods that must coincide."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict
from toy_student import Toy

from pivotopd_jax.learner.learner import Learner, make_mesh, make_optimizer
from pivotopd_jax.learner.objective import UpdateOptions
from pivotopd_jax.methods import make_method
from pivotopd_jax.methods.method import Behaviour, Labels, Method
from pivotopd_jax.records import Row, Trajectory
from pivotopd_jax.rollout.behaviours import iteration_of, make_actor
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.rollout.depth import depth_of
from pivotopd_jax.rollout.label import label
from pivotopd_jax.rollout.rows import batch_rows, rollout_rows
from pivotopd_jax.teachers.symbolic import SymbolicTeacher


def collect(toy: Toy, behaviour: Behaviour, *, step: int = 0, steps: int = 5, rollouts: int = 4) -> list[Trajectory]:
    depth = depth_of(behaviour, step, 5)
    starts = fresh_starts(toy.world, toy.prompter, toy.world.tasks("train"), rollouts=rollouts, max_turns=depth)
    teacher = SymbolicTeacher(toy.world.planner)
    actor = make_actor(behaviour, teacher, starts, step=step, steps=steps, max_turns=depth, seed=0)
    return play(toy.sampler(), starts, temperature=1.0, seed=0, concurrency=8, actor=actor)


def actors(trajectories: list[Trajectory]) -> list[list[str]]:
    return [[turn.actor for turn in trajectory.turns] for trajectory in trajectories]


def labels_of(toy: Toy, trajectories: list[Trajectory], labels: Labels | None) -> list[Row]:
    return label(SymbolicTeacher(toy.world.planner), toy.prompter, trajectories, labels)


def test_a_run_is_divided_into_iterations_of_equal_length():
    assert [iteration_of(step, 10, 5) for step in range(10)] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [iteration_of(step, 2, 5) for step in range(2)] == [1, 3]


def test_the_expert_wins_and_its_labels_are_what_it_did(toy):
    played = collect(toy, Behaviour("expert"), rollouts=1)
    assert all(trajectory.won for trajectory in played)
    assert {actor for turns in actors(played) for actor in turns} == {"teacher"}
    rows = labels_of(toy, played, Labels())
    turns = [turn for trajectory in played for turn in trajectory.turns]
    for row, turn in zip(rows, turns, strict=True):
        np.testing.assert_array_equal(row.response_ids, turn.response_ids)
        np.testing.assert_array_equal(row.context_ids, turn.context_ids)


def test_a_mixture_lets_the_teacher_play_its_share(toy):
    played = collect(toy, Behaviour("mixture", lambda iteration: 0.6), rollouts=40)
    who = np.array([actor == "teacher" for turns in actors(played) for actor in turns])
    assert 0.5 < who.mean() < 0.7
    assert actors(played) == actors(collect(toy, Behaviour("mixture", lambda iteration: 0.6), rollouts=40))
    shares = Behaviour("mixture", lambda iteration: {1: 1.0, 2: 0.0}[iteration], iterations=2)
    assert {a for turns in actors(collect(toy, shares, step=0)) for a in turns} == {"teacher"}
    assert {a for turns in actors(collect(toy, shares, step=4)) for a in turns} == {"student"}


def test_a_switch_hands_over_once_and_for_good(toy):
    played = collect(toy, Behaviour("switch", lambda iteration: 1.0), rollouts=20)
    handed = [turns.index("teacher") for turns in actors(played) if "teacher" in turns]
    assert set(handed) >= {0, 1, 2, 3, 4}
    for turns in actors(played):
        assert turns == sorted(turns), "the student acted again after the teacher"
    rows = labels_of(toy, played, Labels("teacher"))
    assert len(rows) == sum(turns.count("teacher") for turns in actors(played))


def test_whole_episodes_are_one_actors(toy):
    played = actors(collect(toy, Behaviour("episodes", lambda iteration: 0.5), rollouts=20))
    assert all(len(set(turns)) == 1 for turns in played)
    assert 0.3 < np.mean([turns[0] == "teacher" for turns in played]) < 0.7


def test_an_experts_prefix_leaves_the_rest_to_the_student(toy):
    # The prize lies in cell p: the expert, who does not know where, walks p cells and grabs it.
    behaviour = Behaviour("prefix", prefix=lambda step, whole: max(0, whole - 1 - step))
    for step in (0, 1):
        for prize, turns in enumerate(actors(collect(toy, behaviour, step=step, rollouts=1))):
            expected = max(0, prize - step)
            assert turns[: expected + 1] == ["teacher"] * expected + ["student"]


def test_depth_limits_the_turns(toy):
    growing = Behaviour("student", depth=lambda step: 1 + step)
    for step, most in ((0, 1), (1, 2), (9, 5)):
        assert max(len(turns) for turns in actors(collect(toy, growing, step=step, steps=10))) == most


def test_every_visited_state_is_labelled_with_what_the_teacher_would_do(toy):
    played = collect(toy, Behaviour("student"), rollouts=1)
    rows = labels_of(toy, played, Labels())
    assert len(rows) == sum(len(trajectory.turns) for trajectory in played)
    for row in rows:
        snapshot = played[row.trajectory].turns[row.turn].snapshot
        expected = toy.world.planner.next_action(snapshot, toy.world.planner.observed(snapshot))
        assert toy.prompter.chat.decode(row.response_ids).startswith(f"<action>{expected}</action>")
    assert labels_of(toy, played, None) == []


def update(toy: Toy, method: Method, played: list[Trajectory]) -> tuple[dict[str, float], list[np.ndarray]]:
    """One update of `method` on `played`: its metrics and the new parameters."""
    rows = rollout_rows(played, [], method, toy.prompter) + labels_of(toy, played, method.labels)
    batch, _ = batch_rows(rows, length=256)
    batch = batch._replace(advantages=np.asarray(method.shape(batch, {}), np.float32))
    optimizer = make_optimizer(1e-3, warmup_steps=1, max_grad_norm=1.0)
    options = UpdateOptions(**method.update)
    learner = Learner(toy.graphdef, optimizer, make_mesh(), micro_batch_tokens=512, options=options)
    state, metrics = learner.update(learner.init(toy.params), batch, on_policy=True)
    return metrics, [np.asarray(leaf) for leaf in jax.tree.leaves(state.params)]


@pytest.mark.parametrize("name", ["sft", "dagger", "aggrevate"])
def test_imitation_is_cross_entropy_on_labels_alone(toy, name):
    method = make_method(name, ConfigDict({"replay": True}))
    played = collect(toy, method.behaviour, step=4, rollouts=1)
    rows = rollout_rows(played, [], method, toy.prompter) + labels_of(toy, played, method.labels)
    assert {row.kind for row in rows} == {"label"}
    batch, packed = batch_rows(rows, length=256)
    optimizer = make_optimizer(1e-3, warmup_steps=1, max_grad_norm=1.0)
    learner = Learner(toy.graphdef, optimizer, make_mesh(), micro_batch_tokens=512)
    log_probs = learner.score(toy.params, packed)[batch.mask]
    assert update(toy, method, played)[0]["loss"] == pytest.approx(-log_probs.mean(), rel=1e-5)


def test_dagger_with_beta_one_is_sft_to_the_bit(toy):
    sft = make_method("sft", ConfigDict())
    dagger = replace(
        make_method("dagger", ConfigDict({"replay": True})), behaviour=Behaviour("mixture", lambda iteration: 1.0, 5)
    )
    results = [update(toy, method, collect(toy, method.behaviour)) for method in (sft, dagger)]
    assert results[0][0] == results[1][0]
    for left, right in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_array_equal(left, right)
