from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.test_util import check_grads

from pivotopd_jax.losses.bounds import preventive_update
from pivotopd_jax.losses.preventive import preventive_advantages, preventive_reverse_kl
from pivotopd_jax.losses.surrogate import clipped_surrogate

U_P, U_Q = np.array([2.0, 1, 0, -1]), np.array([0.0, 1, 2, -1])


def test_advantage_is_the_weighted_log_ratio_unclipped():
    advantages = preventive_advantages(np.array([[-1.0, -9.0]]), np.array([[-3.0, -1.0]]), weight=0.5)
    np.testing.assert_array_equal(advantages, [[1, -4]])


def test_weight_may_vary_by_turn():
    ones = np.ones((2, 3))
    advantages = preventive_advantages(ones, -ones, weight=np.array([[0.0], [0.25]]))
    np.testing.assert_array_equal(advantages, [[0, 0, 0], [0.5, 0.5, 0.5]])


@pytest.mark.usefixtures("x64")
def test_a_common_shift_changes_nothing_and_nothing_carries_a_gradient():
    hinted, plain = np.random.default_rng(0).normal(size=(2, 3, 4))
    shifted = preventive_advantages(hinted + 7, plain + 7, weight=2.0)
    np.testing.assert_allclose(shifted, preventive_advantages(hinted, plain, weight=2.0), rtol=1e-12)
    gradients = jax.grad(lambda h, p: preventive_advantages(h, p, weight=2.0).sum(), argnums=(0, 1))(hinted, plain)
    np.testing.assert_array_equal(gradients, np.zeros((2, 3, 4)))


@pytest.mark.usefixtures("x64")
def test_expected_update_through_the_surrogate_is_the_weighted_gradient_of_the_reverse_kl():
    weight, plain, hinted = 0.25, jax.nn.log_softmax(U_P), jax.nn.log_softmax(U_Q)
    advantages = preventive_advantages(hinted, plain, weight=weight)

    def expected_loss(logits):
        # All actions side by side, each counted as often as the frozen student takes it.
        losses = jax.vmap(lambda new, old, a: clipped_surrogate(new[None], old[None], a[None], np.ones(1))[0])
        return np.exp(plain) @ losses(jax.nn.log_softmax(logits), plain, advantages)

    gradient = jax.grad(expected_loss)(U_P)
    expected = [0.5708043106142292, -0.2637784653728073, -0.2713273119184742, -0.0356985333229479]
    np.testing.assert_allclose(gradient, weight * np.array(expected), rtol=1e-9)
    np.testing.assert_allclose(preventive_update(np.exp(plain), np.exp(hinted)), -np.array(expected), rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_reverse_kl_is_a_mean_over_unmasked_tokens_whatever_the_others_hold():
    student, hinted = np.full((2, 2, 4), np.nan), np.full((2, 2, 4), np.inf)
    student[0, 0], hinted[0, 0] = U_P, U_Q
    student[1, 0], hinted[1, 0] = U_Q, U_Q
    mask = np.array([[1, 0], [1, 0]])
    value, gradient = jax.value_and_grad(preventive_reverse_kl)(student, hinted, mask)
    np.testing.assert_allclose(value, 1.1135398822918796 / 2, rtol=1e-9)
    expected = np.zeros((2, 2, 4))
    expected[0, 0] = [0.5708043106142292, -0.2637784653728073, -0.2713273119184742, -0.0356985333229479]
    np.testing.assert_allclose(gradient, expected / 2, rtol=1e-9, atol=1e-15)


@pytest.mark.usefixtures("x64")
def test_reverse_kl_gradient_matches_finite_differences_and_spares_the_teacher():
    student, hinted = np.random.default_rng(0).normal(size=(2, 2, 3, 5))
    mask = np.array([[True, True, False], [True, False, False]])
    check_grads(lambda x: preventive_reverse_kl(x, hinted, mask), (student,), order=1, modes=["rev"], rtol=1e-6)
    teacher = jax.grad(preventive_reverse_kl, argnums=1)(student, hinted, mask)
    np.testing.assert_array_equal(teacher, np.zeros_like(hinted))
    assert preventive_reverse_kl(student, hinted, np.zeros_like(mask)) == 0
