from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from pivotopd_jax.losses import bounds
from pivotopd_jax.losses.divergences import kl_divergence

P, Q, CLIP = np.array([1e-4, 0.9, 0.0999]), np.array([0.9, 0.05, 0.05]), 5.0
ACTIONS = 4

logits = st.lists(st.floats(-12, 12), min_size=ACTIONS, max_size=ACTIONS).map(np.array)
clips = st.floats(0.05, 8)
properties = settings(deadline=None, max_examples=150, derandomize=True)


def softmax(values: np.ndarray) -> np.ndarray:
    exponentials = np.exp(values - values.max())
    return exponentials / exponentials.sum()


@pytest.mark.usefixtures("x64")
def test_expected_update_is_the_mean_of_the_weighted_score():
    generator = np.random.default_rng(0)
    r, p = softmax(generator.normal(size=5)), softmax(generator.normal(size=5))
    weights = generator.normal(size=5)
    scores = jax.jacobian(jax.nn.log_softmax)(jnp.log(p))  # [action, logit]
    np.testing.assert_allclose(bounds.expected_update(r, weights, p), (r * weights) @ scores, rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_expected_update_broadcasts_over_leading_axes_and_skips_what_is_never_drawn():
    r, p = np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.25, 0.75], [0.5, 0.5]])
    weights = np.array([[2.0, np.inf], [1.0, -1.0]])
    np.testing.assert_allclose(bounds.expected_update(r, weights, p), [[1.5, -1.5], [0.5, -0.5]])


@pytest.mark.usefixtures("x64")
def test_preventive_update_is_minus_the_gradient_of_the_reverse_kl():
    u_p, u_q = np.array([2.0, 1, 0, -1]), np.array([0.0, 1, 2, -1])
    update = bounds.preventive_update(softmax(u_p), softmax(u_q))
    expected = [-0.5708043106142292, 0.2637784653728073, 0.2713273119184742, 0.0356985333229479]
    np.testing.assert_allclose(update, expected, rtol=1e-9)
    np.testing.assert_allclose(update, -jax.grad(kl_divergence)(u_p, u_q), rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_recovery_of_a_rare_action_by_numbers():
    update = bounds.recovery_update(P, Q, CLIP)
    np.testing.assert_allclose(update, [4.499567912592191, -4.033305258179294, -0.46626265441289605], rtol=1e-9)
    np.testing.assert_allclose(bounds.recovery_bound(P, Q, CLIP)[0], 4.4995, rtol=1e-9)
    np.testing.assert_allclose(bounds.recovery_slack(P, Q, CLIP)[0], 6.791259219e-5, rtol=1e-9)
    np.testing.assert_allclose(1e-4 * (5 - 4.3208740780938735), bounds.recovery_slack(P, Q, CLIP)[0], rtol=1e-9)
    np.testing.assert_array_equal(bounds.recovery_bound_holds(P, Q, CLIP), [True, False, False])


@pytest.mark.usefixtures("x64")
def test_student_sampled_update_of_a_rare_action_by_numbers():
    np.testing.assert_allclose(bounds.preventive_update(P, Q)[0], 1.1774549393793886e-3, rtol=1e-9)
    clipped = np.clip(np.log(Q / P), -CLIP, CLIP)
    np.testing.assert_allclose(clipped, [5, -2.8903717578961645, -0.6921466802263617], rtol=1e-9)
    np.testing.assert_allclose(bounds.expected_update(P, clipped, P)[0], 7.669980035e-4, rtol=1e-9)
    np.testing.assert_allclose(bounds.student_sampled_bound(P, clipped)[0], 1e-3, rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_divergence_floor_by_numbers():
    np.testing.assert_allclose(kl_divergence(np.log(Q), np.log(P)), 8.015355948780396, rtol=1e-9)
    np.testing.assert_allclose(bounds.divergence_floor(P, Q)[0], 7.59615915421862, rtol=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("clip", [0.5, CLIP, math.inf])
def test_recovery_update_is_the_gradient_of_the_frozen_objective(clip):
    weight = Q / P * np.clip(np.log(Q / P), -clip, clip)
    objective = jax.grad(lambda u: jax.nn.softmax(u) @ weight)
    np.testing.assert_allclose(bounds.recovery_update(P, Q, clip), objective(jnp.log(P)), rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_the_unclipped_frozen_objective_has_the_value_of_the_forward_kl_but_not_its_gradient():
    np.testing.assert_allclose(P @ (Q / P * np.log(Q / P)), kl_divergence(np.log(Q), np.log(P)), rtol=1e-9)
    descent = -jax.grad(kl_divergence, argnums=1)(np.log(Q), np.log(P))
    np.testing.assert_allclose(descent, Q - P, rtol=1e-9)
    np.testing.assert_allclose(descent[0], 0.8999, rtol=1e-9)
    assert abs(bounds.recovery_update(P, Q, math.inf)[0] - descent[0]) > 1


@properties
@given(logits, logits, clips, st.integers(0, ACTIONS - 1), st.floats(0.01, 1))
def test_bound_with_its_exact_slack_under_its_exact_condition(u_p, u_q, clip, action, accepted):
    p = softmax(u_p)
    assume(p[action] * math.exp(clip) < 0.99)
    # q(a*) lies anywhere between e^δ p(a*), the condition's own edge included, and 1; the rest is shared out freely.
    lowest = p[action] * math.exp(clip) * (1 + 1e-12)
    q = softmax(u_q)
    rest = np.delete(q, action).sum()
    mass = lowest + (1 - lowest) * q[action]
    q = np.where(np.arange(ACTIONS) == action, mass, q * (1 - mass) / rest)
    q = np.where(np.arange(ACTIONS) == action, q, q * accepted)  # filtered samples: the mass that was accepted
    with jax.enable_x64(True):
        assert bounds.recovery_bound_holds(p, q, clip)[action]
        closed_forms = (bounds.recovery_update, bounds.recovery_bound, bounds.recovery_slack)
        update, bound, slack = (float(form(p, q, clip)[action]) for form in closed_forms)
    assert bound > 0
    assert slack >= 0
    np.testing.assert_allclose(update, bound + slack, rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_being_likelier_under_the_hint_is_not_enough_for_the_bound():
    """q(a) > p(a), full support, and yet the update pushes the action down."""
    p, q = np.array([0.5, 0.4999, 0.0001]), np.array([0.5001, 1e-6, 0.499899])
    assert q[0] > p[0]
    # φ = [2e-4, -5, 5], E_q φ = 2.4996: g = 1e-4 - 0.5 · 2.4996.
    np.testing.assert_allclose(bounds.recovery_update(p, q, CLIP)[0], -1.2497, rtol=1e-4)
    assert bounds.recovery_bound(p, q, CLIP)[0] > 0
    np.testing.assert_array_equal(bounds.recovery_bound_holds(p, q, CLIP), [False, False, True])


@pytest.mark.usefixtures("x64")
def test_the_condition_asks_for_full_support():
    assert not bounds.recovery_bound_holds(np.array([0.0, 1.0]), np.array([1.0, 0.0]), CLIP).any()


@properties
@given(logits, logits)
def test_unclipped_recovery_vanishes_only_where_policy_and_teacher_agree(u_p, u_q):
    p, q = softmax(u_p), softmax(u_q)
    with jax.enable_x64(True):
        update = np.asarray(bounds.recovery_update(p, q, math.inf))
        np.testing.assert_allclose(bounds.recovery_update(p, p, math.inf), np.zeros(ACTIONS), atol=1e-15)
    # With x = q/p, g/p is x log x - KL(q ‖ p). Between the largest x and the smallest, at most 1, it differs by
    # x log x ≥ x - 1 at least, so one of the two is at least half of that away from 0.
    assert np.abs(update / p).max() >= (np.max(q / p) - 1) / 2 * (1 - 1e-9) - 1e-12


@properties
@given(logits, st.lists(st.floats(-50, 50), min_size=ACTIONS, max_size=ACTIONS).map(np.array))
def test_student_sampled_update_is_bounded_by_the_probability(u_p, weights):
    p = softmax(u_p)
    with jax.enable_x64(True):
        update = np.asarray(bounds.expected_update(p, weights, p))
        bound = np.asarray(bounds.student_sampled_bound(p, weights))
    np.testing.assert_allclose(update, p * (weights - p @ weights), rtol=1e-9, atol=1e-12)
    assert (np.abs(update) <= bound * (1 + 1e-12)).all()


@properties
@given(logits, logits)
def test_unclipped_student_sampled_update_is_bounded_by_p_log_p(u_p, u_q):
    p, q = softmax(u_p), softmax(u_q)
    with jax.enable_x64(True):
        update = np.abs(bounds.preventive_update(p, q))
    bound = p * (np.abs(np.log(q)) + np.log(1 / p) + rel_entr(p, q).sum())
    assert (update <= bound * (1 + 1e-9) + 1e-15).all()


@properties
@given(logits, logits)
def test_divergence_stays_above_every_floor(u_p, u_q):
    with jax.enable_x64(True):
        floor = np.asarray(bounds.divergence_floor(softmax(u_p), softmax(u_q)))
    assert (rel_entr(softmax(u_q), softmax(u_p)).sum() >= floor - 1e-12).all()


@pytest.mark.usefixtures("x64")
def test_divergence_floor_slack_with_two_outcomes():
    p, q = np.array([0.01, 0.99]), np.array([0.7, 0.3])
    entropy = -(0.7 * math.log(0.7) + 0.3 * math.log(0.3))
    slack = math.log(2) - entropy + 0.3 * math.log(1 / 0.99)
    np.testing.assert_allclose(rel_entr(q, p).sum() - bounds.divergence_floor(p, q)[0], slack, rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_appearance_in_a_group_of_rollouts():
    np.testing.assert_allclose(bounds.appearance_probability(0.5, 3), 7 / 8, rtol=1e-12)
    np.testing.assert_allclose(bounds.appearance_probability(1e-17, 8), 8e-17, rtol=1e-9)
    probabilities = np.linspace(0, 1, 11)
    assert (bounds.appearance_probability(probabilities, 8) <= 8 * probabilities).all()
    assert bounds.appearance_probability(1.0, 8) == 1


@pytest.mark.usefixtures("x64")
def test_depth_bound_by_hand():
    np.testing.assert_allclose(bounds.depth_bound(0.1, depth=3, forced=1), 0.01, rtol=1e-12)
    assert bounds.depth_bound(0.1, depth=2, forced=3) == 1


def test_single_precision_agrees():
    np.testing.assert_allclose(
        bounds.recovery_update(P.astype(np.float32), Q.astype(np.float32), CLIP),
        [4.4995679, -4.0333053, -0.4662627],
        rtol=1e-5,
    )
