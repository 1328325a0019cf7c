"""What an external teacher's scores become."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx
from toy_student import Toy

from pivotopd_jax.learner.learner import DivergenceTerm, Learner, make_mesh, make_optimizer
from pivotopd_jax.learner.objective import UpdateOptions
from pivotopd_jax.methods import make_method
from pivotopd_jax.methods.distillation import shape_hinted_opd, shape_opd, shape_sod
from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, split
from pivotopd_jax.records import PLAIN, TEACHER, TEACHER_HINTED, Observation, Row, Task, TokenBatch, Trajectory, Turn
from pivotopd_jax.rollout.annotate import annotate
from pivotopd_jax.rollout.rows import batch_rows, divergence_batch

KNOBS = SimpleNamespace(
    full_vocabulary=True, student_share=1.0, beta=1.0, turn_cap=1.2, normalization="mean_std", preventive_weight=0.1
)  # fmt: skip


def rows_of(size: int = 3) -> list[Row]:
    """Two trajectories of two turns, with responses of `size` tokens."""
    random = np.random.default_rng(0)
    ids = [random.integers(1, 20, 12).astype(np.int32) for _ in range(4)]
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    return [Row("rollout", t, 0, turn, x[:-size], x[-size:]) for (t, turn), x in zip(places, ids, strict=True)]


def test_opd_is_the_log_ratio_and_sod_weighs_it_by_turn():
    batch, packed = batch_rows(rows_of(), length=64)
    by_turn = [0.5, -1.0, 0.1, 0.0]  # D of every token of the turn
    views = {PLAIN: packed.scatter([-1.0] * 4), TEACHER: packed.scatter([-1 + d for d in by_turn])}
    batch = batch._replace(reward_advantages=packed.scatter([2.0, 2.0, -1.0, -1.0]))
    for got, d in zip(packed.gather(np.asarray(shape_opd(batch, views))), by_turn, strict=True):
        np.testing.assert_allclose(got, d, rtol=1e-6)
    expected = [2 + 0.5, 2 - 0.500001 / 1.000001, -1 + 0.1, -1]
    for got, value in zip(packed.gather(np.asarray(shape_sod(batch, views, cap=1.2))), expected, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-5)


def test_hinted_opd_adds_the_hinted_teacher_on_pivotal_turns():
    batch, packed = batch_rows(rows_of(), length=64)
    views = {
        PLAIN: packed.scatter([-1.0] * 4),
        TEACHER: packed.scatter([-0.5, -2.0, -0.9, -1.0]),
        TEACHER_HINTED: packed.scatter([-0.25, -3.0, -1.0, -1.0]),
    }
    batch = batch._replace(pivotal=packed.scatter([True, False, False, False], bool))
    found = packed.gather(np.asarray(shape_hinted_opd(batch, views, preventive_weight=0.1)))
    for got, value in zip(found, [0.5 + 0.1 * 0.75, -1.0, 0.1, 0.0], strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-7)


def test_the_final_turn_of_one_failed_trajectory_a_group_is_named():
    """By what is right there, and only where the student did something else."""
    none = np.zeros(0, np.int32)
    turn = Turn(Observation("seen"), none, none, none, "", "wrong", 0.0, True, "state")
    played = [
        Trajectory(Task("t", "k", None), group, (turn,) * length, 0.0, won, Observation(""), None)
        for group, length, won in [
            (0, 2, True),
            (0, 3, False),
            (0, 2, False),
            (1, 1, True),
            (2, 0, False),
            (2, 1, False),
        ]
    ]
    asked = []

    class Named:
        def recovery_actions(self, situations):
            asked.extend((s.observation.text, len(s.history), s.snapshot) for s in situations)
            return ["right", None]

    notes = annotate(Named(), played, make_method("hinted_opd", KNOBS).annotation, seed=0)  # type: ignore[arg-type]
    assert [(n.trajectory, n.turn, n.gold_action, n.pivotal) for n in notes] == [(1, 2, "right", True)]
    assert asked == [("seen", 2, "state"), ("seen", 0, "state")]


def teacher_of(toy: Toy) -> tuple[Any, Any]:
    """A model with other sizes and the same vocabulary."""
    config = Qwen3Config(toy.config.vocab_size, 24, 32, 1, 2, 1, 8, 1e4, 1e-6, False, 512)
    return split(Qwen3(config, rngs=nnx.Rngs(1)))


def update(toy: Toy, name: str, knobs: Any, rows: list[Row]) -> tuple[dict[str, float], Any]:
    method, optimizer = make_method(name, knobs), make_optimizer(1e-2, warmup_steps=1, max_grad_norm=1.0)
    graphdef, params = teacher_of(toy)
    teacher, student = (Learner(g, optimizer, make_mesh(), micro_batch_tokens=128) for g in (graphdef, toy.graphdef))
    student.options = UpdateOptions(**method.update)
    batch, _ = batch_rows(rows, length=64)
    batch = batch._replace(advantages=np.asarray(method.shape(batch, {}), np.float32))
    assert method.divergence
    packed = divergence_batch(lambda p: teacher.hidden(params, p), rows, method.divergence, length=64)
    assert packed
    term = DivergenceTerm(packed, graphdef, params, method.divergence.function)
    state, metrics = student.update(student.init(toy.params), batch, on_policy=True, divergence=term)
    return metrics, state.params


def test_gkd_at_beta_one_on_student_samples_is_full_vocabulary_opd(toy):
    results = [update(toy, name, KNOBS, rows_of()) for name in ("gkd", "opd")]
    assert results[0][0] == results[1][0]
    assert results[0][0]["loss"] > 0.01
    for left, right in zip(*(jax.tree.leaves(params) for _, params in results), strict=True):
        np.testing.assert_array_equal(left, right)


def test_the_sampled_advantage_has_the_exact_gradient_as_its_mean(toy):
    """Over all first tokens of a one-token response, weighted by their probability, sampled OPD is the reverse KL."""
    graphdef, params = teacher_of(toy)
    optimizer = make_optimizer(1e-2, warmup_steps=1, max_grad_norm=1.0)
    student, teacher = (Learner(g, optimizer, make_mesh(), micro_batch_tokens=4096) for g in (toy.graphdef, graphdef))
    student.options = UpdateOptions(kl_coefficient=0.0)
    context = np.arange(1, 9, dtype=np.int32)
    rows = [Row("rollout", i, 0, 0, context, np.asarray([i], np.int32)) for i in range(toy.config.vocab_size)]
    batch, packed = batch_rows(rows, length=256)
    views = {PLAIN: student.score(toy.params, packed), TEACHER: teacher.score(params, packed)}
    probability = np.exp(np.concatenate(packed.gather(views[PLAIN])))
    assert probability.sum() == pytest.approx(1, abs=1e-5)
    weighted: TokenBatch = batch._replace(
        advantages=np.asarray(shape_opd(batch, views)), weights=packed.scatter(list(probability))
    )
    _, sampled = student.update(student.init(toy.params), weighted, on_policy=True)
    exact, _ = update(toy, "opd", KNOBS, rows[:1])
    assert sampled["grad_norm"] == pytest.approx(exact["grad_norm"], rel=1e-3)
    assert -sampled["surrogate"] == pytest.approx(-exact["loss"], rel=1e-3)


def test_gkd_trains_on_what_the_expert_played_too():
    method = make_method("gkd", SimpleNamespace(student_share=0.25, beta=0.5))
    assert method.behaviour.actor == "episodes"
    assert method.behaviour.share(1) == 0.75
    assert method.labels
    assert method.divergence
    assert method.divergence.rows == ("rollout", "label")
