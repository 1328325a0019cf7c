from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from pivotopd_jax.losses.advantages import group_advantages
from pivotopd_jax.losses.recovery import recovery_advantages, recovery_forward_kl
from pivotopd_jax.losses.surrogate import clipped_surrogate

U_P, U_Q = np.array([2.0, 1, 0, -1]), np.array([0.0, 1, 2, -1])


def test_clipped_before_it_is_weighted():
    hinted, plain = np.array([[-1.0, -9.0, -2.0]]), np.array([[-8.0, -1.0, -1.5]])
    advantages = recovery_advantages(hinted, plain, weight=0.25, clip=5.0)
    np.testing.assert_array_equal(advantages, [[1.25, -1.25, -0.125]])


@pytest.mark.usefixtures("x64")
def test_a_common_shift_changes_nothing_and_nothing_carries_a_gradient():
    hinted, plain = np.random.default_rng(0).normal(scale=4, size=(2, 3, 4))
    advantages = recovery_advantages(hinted, plain, weight=2.0, clip=5.0)
    shifted = recovery_advantages(hinted - 3, plain - 3, weight=2.0, clip=5.0)
    np.testing.assert_allclose(shifted, advantages, rtol=1e-12)
    gradients = jax.grad(lambda *x: recovery_advantages(*x, weight=2.0, clip=5.0).sum(), argnums=(0, 1))(hinted, plain)
    np.testing.assert_array_equal(gradients, np.zeros((2, 3, 4)))


@pytest.mark.usefixtures("x64")
def test_expected_update_through_the_surrogate_is_the_closed_form():
    p, q, weight = np.array([1e-4, 0.9, 0.0999]), np.array([0.9, 0.05, 0.05]), 0.5
    advantages = recovery_advantages(np.log(q), np.log(p), weight=weight, clip=5.0)

    def expected_loss(logits):
        # All actions side by side, each counted as often as the self-teacher takes it.
        losses = jax.vmap(lambda new, old, a: clipped_surrogate(new[None], old[None], a[None], np.ones(1))[0])
        return q @ losses(jax.nn.log_softmax(logits), np.log(p), advantages)

    update = -jax.grad(expected_loss)(np.log(p))
    expected = weight * np.array([4.499567912592191, -4.033305258179294, -0.46626265441289605])
    np.testing.assert_allclose(update, expected, rtol=1e-9)


def test_a_group_that_fails_altogether_still_learns_from_its_recoveries():
    """One rollout row and one recovery row: no reward signal, yet a gradient on the recovery tokens alone."""
    rewards = group_advantages(jnp.zeros(4), jnp.zeros(4, int))
    old = jnp.array([[-1.0, -2.0], [-6.0, -0.5]])
    recovery = recovery_advantages(jnp.array([[-0.5, -0.1]]), old[1:], weight=1.0, clip=5.0)
    advantages = jnp.concatenate([jnp.full((1, 2), rewards[0]), recovery])
    gradient = jax.grad(lambda x: clipped_surrogate(x, old, advantages, jnp.ones((2, 2)))[0])(old)
    np.testing.assert_array_equal(gradient[0], [0, 0])
    np.testing.assert_allclose(gradient[1], [-5 / 4, -0.4 / 4], rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_forward_kl_is_a_mean_over_unmasked_tokens_whatever_the_others_hold():
    student, hinted = np.full((2, 2, 4), np.nan), np.full((2, 2, 4), -np.inf)
    student[0, 0], hinted[0, 0] = U_P, U_Q
    student[1, 0], hinted[1, 0] = U_Q, U_Q
    value, gradient = jax.value_and_grad(recovery_forward_kl)(student, hinted, np.array([[1, 0], [1, 0]]))
    np.testing.assert_allclose(value, 1.1135398822918796 / 2, rtol=1e-9)
    expected = np.zeros((2, 2, 4))
    expected[0, 0] = [0.5567699411459398, 0, -0.5567699411459398, 0]  # p - q
    np.testing.assert_allclose(gradient, expected / 2, rtol=1e-9, atol=1e-15)


@pytest.mark.usefixtures("x64")
def test_forward_kl_gradient_matches_finite_differences_and_spares_the_teacher():
    student, hinted = np.random.default_rng(0).normal(size=(2, 2, 3, 5))
    mask = np.array([[True, True, False], [True, False, False]])
    check_grads(lambda x: recovery_forward_kl(x, hinted, mask), (student,), order=1, modes=["rev"], rtol=1e-6)
    teacher = jax.grad(recovery_forward_kl, argnums=1)(student, hinted, mask)
    np.testing.assert_array_equal(teacher, np.zeros_like(hinted))
    assert recovery_forward_kl(student, hinted, np.zeros_like(mask)) == 0
