"""What the privileged self becomes: advantages by hand, and penalties whose gradient is what it should be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from pivotopd_jax.learner.objective import UpdateOptions, policy_loss
from pivotopd_jax.methods import make_method
from pivotopd_jax.methods.privileged import shape_added, shape_agentopsd, shape_rlsd, shape_stepopsd
from pivotopd_jax.records import PLAIN, Row, TokenBatch
from pivotopd_jax.rollout.rows import batch_rows

KNOBS = ConfigDict({"privileged": "skills", "skills": 2, "normalization": "mean_std", "prior": 0.5, "max_actions": 5})
NAMES = ("opsd", "rlsd", "sdar", "skill_sd", "stepopsd", "agentopsd", "opid")


def rows() -> list[Row]:
    """Two trajectories of two turns of two tokens."""
    random = np.random.default_rng(0)
    ids = [random.integers(1, 20, 9).astype(np.int32) for _ in range(4)]
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    return [Row("rollout", t, 0, turn, x[:-2], x[-2:], {"lesson": x[:-2]}) for (t, turn), x in zip(places, ids)]  # noqa: B905


def batch_and_views(by_turn: list[float], rewards: list[float]) -> tuple[TokenBatch, dict[str, Any], Any]:
    batch, packed = batch_rows(rows(), length=32)
    views = {PLAIN: packed.scatter([-1.0] * 4), "lesson": packed.scatter([-1 + d for d in by_turn])}
    return batch._replace(reward_advantages=packed.scatter(rewards)), views, packed


D, A = [0.1, -1.0, 0.3, 0.0], [2.0, 2.0, -1.0, -1.0]


def shaped(function, **keywords) -> list[float]:
    batch, views, packed = batch_and_views(D, A)
    found = packed.gather(np.asarray(function(batch, views, view="lesson", **keywords)))
    for values in found:
        assert values[0] == pytest.approx(values[1])
    return [float(values[0]) for values in found]


def test_added_and_reweighed_advantages():
    assert shaped(shape_added, reward_weight=0.0, weight=1.0) == pytest.approx(D)
    assert shaped(shape_added, reward_weight=1.0, weight=0.001) == pytest.approx([2.0001, 1.999, -0.9997, -1.0])
    factors = [np.exp(0.1), 0.8, 0.8, 1.0]  # e^{sgn(A) D} within 1 ± 0.2; e^{-0.3} = 0.741
    expected = [a * (0.5 + 0.5 * f) for a, f in zip(A, factors, strict=True)]
    assert shaped(shape_rlsd, mix=0.5, clip=0.2) == pytest.approx(expected)


def test_stepopsd_keeps_the_size_of_every_turn():
    # Within a turn all tokens weigh the same here, so that equalising gives A back.
    assert shaped(shape_stepopsd, mix=1.0, clip=0.05) == pytest.approx(A)
    batch, _, packed = batch_and_views(D, A)
    plain = packed.scatter([-1.0] * 4)
    teacher = packed.scatter([np.asarray([-0.98, -1.02])] * 4)
    found = packed.gather(
        np.asarray(shape_stepopsd(batch, {PLAIN: plain, "lesson": teacher}, view="lesson", mix=1.0, clip=0.05))
    )
    weights = 2 / (1 + np.exp(-np.asarray([0.02, -0.02])))
    np.testing.assert_allclose(found[0], 2 * weights / weights.mean(), rtol=1e-5)
    np.testing.assert_allclose(found[2], -weights[::-1] / weights.mean(), rtol=1e-5)


def test_agentopsd_weighs_turns_by_what_they_add():
    """Two turns: the standardised contributions are ±1, whatever their size, and A scales by 1 ± 0.2 · ½."""
    # Trajectory 0: ΣD = +.2 then −2: turn 0 adds, turn 1 takes. Trajectory 1 (A < 0): +.6 then 0.
    assert shaped(shape_agentopsd, prior=0.5, scale=0.2, mix=0.5) == pytest.approx([2.2, 1.8, -0.9, -1.1], rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_signal_nothing_changes(name):
    method = make_method(name, KNOBS)
    batch, views, packed = batch_and_views([0.0] * 4, A)
    found = packed.gather(np.asarray(method.advantages(batch, views, step=3, steps=48)))
    expected = [0.0] * 4 if name == "opsd" else A
    for values, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(values, value, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_shift_of_both_sides_and_what_is_masked_change_nothing(name):
    method = make_method(name, KNOBS)
    batch, views, _ = batch_and_views(D, A)
    before = np.asarray(method.advantages(batch, views, step=3, steps=48))
    moved = {view: np.where(batch.mask, scores - 0.25, 1e3) for view, scores in views.items()}
    after = np.asarray(method.advantages(batch, moved, step=3, steps=48))
    np.testing.assert_allclose(np.where(batch.mask, after, 0), np.where(batch.mask, before, 0), rtol=1e-5, atol=1e-6)


def test_schedules():
    assert [make_method("rlsd", KNOBS).schedule(step, 10)["mix"] for step in (0, 5, 10)] == [0.5, 0.25, 0.0]
    assert [make_method("stepopsd", KNOBS).schedule(step, 99)["mix"] for step in (0, 25, 50, 90)] == [1, 0.5, 0, 0]


@pytest.mark.parametrize(("name", "weight"), [("sdar", 0.01), ("skill_sd", 0.001)])
def test_the_gradient_of_a_penalty_on_policy(name, weight):
    """∂/∂log S: SDAR −σ(5D)/n; Skill-SD k3 + (1 − e^{−x})/n with x = log S − log T, ρ's own gradient included."""
    method = make_method(name, KNOBS)
    assert method.penalty
    batch, views, _ = batch_and_views(D, A)
    zero = np.zeros_like(batch.advantages)
    batch = batch._replace(
        advantages=zero, old_log_probs=views[PLAIN], privileged_log_probs=views["lesson"], privileged=batch.mask
    )
    options = UpdateOptions(kl_coefficient=0.0, penalty=method.penalty.function, penalty_weight=method.penalty.weight)
    gradient = jax.grad(lambda s: policy_loss(s, jax.tree.map(jnp.asarray, batch), options)[0])(views[PLAIN])
    x = views[PLAIN] - views["lesson"]
    expected = -1 / (1 + np.exp(5 * x)) if name == "sdar" else (np.exp(-x) - 1 + x) + (1 - np.exp(-x))
    np.testing.assert_allclose(
        gradient, np.where(batch.mask, weight * expected * batch.weights, 0), rtol=1e-4, atol=1e-9
    )
    # A token that the teacher did not see is left out, NaN or not.
    unseen = batch._replace(privileged=zero.astype(bool), privileged_log_probs=zero * np.nan)
    gradient = jax.grad(lambda s: policy_loss(s, jax.tree.map(jnp.asarray, unseen), options)[0])(views[PLAIN])
    np.testing.assert_array_equal(gradient, zero)


def test_what_the_self_is_shown_is_a_choice():
    skills, gold = (make_method("opsd", ConfigDict({**KNOBS, "privileged": p})) for p in ("skills", "gold_action"))
    assert skills.annotation
    assert gold.annotation
    assert (skills.views, skills.annotation.turns, skills.annotation.skills) == (("lesson",), "none", 2)
    assert (gold.views, gold.annotation.turns) == (("hinted",), "every")
    assert (skills.needs_skills, gold.needs_skills, make_method("skill_grpo", KNOBS).needs_skills) == (
        True,
        False,
        True,
    )
    with pytest.raises(ValueError, match="expected 'skills' or 'gold_action'"):
        make_method("opsd", SimpleNamespace(privileged="nope"))
