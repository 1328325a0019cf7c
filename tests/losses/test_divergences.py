from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy.special import rel_entr
from scipy.stats import entropy as scipy_entropy

from pivotopd_jax.losses.divergences import entropy, jensen_shannon, kl_divergence, with_tail

U_P = np.array([2.0, 1, 0, -1])
U_Q = np.array([0.0, 1, 2, -1])


@pytest.mark.usefixtures("x64")
def test_value_and_both_gradients_on_four_outcomes():
    value = 1.1135398822918796
    np.testing.assert_allclose(kl_divergence(U_P, U_Q), value, rtol=1e-9)
    np.testing.assert_allclose(kl_divergence(U_Q, U_P), value, rtol=1e-9)
    reverse = jax.grad(kl_divergence, argnums=0)(U_P, U_Q)
    expected = [0.5708043106142292, -0.2637784653728073, -0.2713273119184742, -0.0356985333229479]
    np.testing.assert_allclose(reverse, expected, rtol=1e-9)
    forward = jax.grad(kl_divergence, argnums=1)(U_Q, U_P)
    np.testing.assert_allclose(forward, [0.5567699411459398, 0, -0.5567699411459398, 0], rtol=1e-9, atol=1e-15)


@pytest.mark.usefixtures("x64")
def test_gradients_match_finite_differences():
    generator = np.random.default_rng(0)
    check_grads(kl_divergence, tuple(generator.normal(size=(2, 3, 5))), order=1, rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("x64")
def test_positions_are_independent_and_match_scipy():
    p_logits, q_logits = np.random.default_rng(1).normal(scale=3, size=(2, 4, 6, 11))
    p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (p_logits, q_logits))
    np.testing.assert_allclose(jax.jit(kl_divergence)(p_logits, q_logits), rel_entr(p, q).sum(-1), rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_shifting_all_logits_changes_nothing():
    np.testing.assert_allclose(kl_divergence(U_P + 700, U_Q - 900), kl_divergence(U_P, U_Q), rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_an_impossible_outcome_adds_nothing_and_sends_no_nan_back():
    p_logits, q_logits = np.append(U_P, -np.inf), np.append(U_Q, -np.inf)
    np.testing.assert_allclose(kl_divergence(p_logits, q_logits), kl_divergence(U_P, U_Q), rtol=1e-12)
    gradients = jax.grad(kl_divergence, argnums=(0, 1))(p_logits, q_logits)
    for gradient, alone in zip(gradients, jax.grad(kl_divergence, argnums=(0, 1))(U_P, U_Q), strict=True):
        np.testing.assert_allclose(gradient, np.append(alone, 0), rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_an_outcome_only_q_rules_out_is_infinitely_far():
    assert kl_divergence(U_P, np.array([0.0, 0, 0, -np.inf])) == np.inf
    assert np.isfinite(kl_divergence(np.array([0.0, 0, 0, -np.inf]), U_P))


def test_single_precision_survives_probabilities_that_underflow():
    p_logits, q_logits = jnp.array([0.0, -500.0], jnp.float32), jnp.array([0.0, 0.0], jnp.float32)
    np.testing.assert_allclose(kl_divergence(p_logits, q_logits), np.log(2), rtol=1e-6)
    np.testing.assert_allclose(kl_divergence(q_logits, p_logits), 250 - np.log(2), rtol=1e-6)
    assert np.isfinite(jax.grad(kl_divergence, argnums=(0, 1))(p_logits, q_logits)).all()


@pytest.mark.usefixtures("x64")
def test_jensen_shannon_and_its_ends():
    t, s = (np.exp(u) / np.exp(u).sum() for u in (U_P, U_Q))
    for beta in (0.1, 0.5, 0.9):
        m = beta * t + (1 - beta) * s
        expected = beta * rel_entr(t, m).sum() + (1 - beta) * rel_entr(s, m).sum()
        np.testing.assert_allclose(jensen_shannon(U_P, U_Q, beta=beta), expected, rtol=1e-9)
    asymmetric = np.array([0.0, 2, 0, 1])
    np.testing.assert_array_equal(jensen_shannon(U_P, asymmetric, beta=0), kl_divergence(U_P, asymmetric))
    np.testing.assert_array_equal(jensen_shannon(U_P, asymmetric, beta=1), kl_divergence(asymmetric, U_P))
    # Its limits, up to the scale, are its ends.
    small = jensen_shannon(U_P, asymmetric, beta=1e-6) / 1e-6
    np.testing.assert_allclose(small, kl_divergence(U_P, asymmetric), rtol=1e-4)


@pytest.mark.usefixtures("x64")
def test_jensen_shannon_gradients_match_finite_differences():
    logits = np.random.default_rng(0).normal(size=(2, 3, 5))
    check_grads(lambda t, s: jensen_shannon(t, s, beta=0.3), tuple(logits), order=1, rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("x64")
def test_the_tail_holds_the_rest():
    p, q = with_tail(U_P, U_Q, k=2)
    full_p, full_q = (np.exp(u) / np.exp(u).sum() for u in (U_P, U_Q))
    np.testing.assert_allclose(np.exp(p), [*full_p[:2], full_p[2:].sum()], rtol=1e-12)
    np.testing.assert_allclose(np.exp(q), [*full_q[:2], full_q[2:].sum()], rtol=1e-12)
    logits = np.random.default_rng(2).normal(scale=2, size=(2, 6, 11))
    truncated = [np.asarray(kl_divergence(*with_tail(*logits, k=k))) for k in (1, 3, 6, 10)]
    bounds = [*truncated, np.asarray(kl_divergence(*logits))]
    for coarse, fine in pairwise(bounds):
        assert (coarse <= fine + 1e-12).all()
    np.testing.assert_allclose(bounds[-2], bounds[-1], rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_entropy_is_scipys_and_impossible_outcomes_add_nothing():
    p = np.exp(U_P) / np.exp(U_P).sum()
    np.testing.assert_allclose(entropy(U_P), scipy_entropy(p), rtol=1e-12)
    assert entropy(jnp.array([3.0, 3.0, -jnp.inf])) == pytest.approx(np.log(2))
    assert np.all(np.isfinite(jax.grad(lambda u: entropy(u))(jnp.array([3.0, 3.0, -jnp.inf]))))
