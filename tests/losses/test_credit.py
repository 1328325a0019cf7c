"""Numbers computed by hand or by numpy in float64, and what must hold whatever the numbers are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotopd_jax.losses.credit import (
    agentopsd_advantages,
    dagger_beta,
    equalise_turns,
    rlsd_advantages,
    sdar_loss,
    skill_sd_penalty,
    sod_weights,
    stepopsd_advantages,
    turn_means,
    turn_sums,
    turnopd_weights,
)

pytestmark = pytest.mark.usefixtures("x64")
SEEDS = st.integers(0, 2**32 - 1)
QUICK = settings(deadline=None, max_examples=25, derandomize=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_rlsd_scales_up_where_teacher_and_reward_agree():
    advantages, log_ratio = np.array([2.0, 2, -1, -1, 2]), np.array([0.1, 3, 0.1, 3, -3])
    expected = [2 * np.exp(0.1), 2 * 1.2, -np.exp(-0.1), -0.8, 2 * 0.8]
    np.testing.assert_allclose(rlsd_advantages(advantages, log_ratio, mix=1.0, clip=0.2), expected, rtol=1e-12)
    half = rlsd_advantages(advantages, log_ratio, mix=0.5, clip=0.2)
    np.testing.assert_allclose(half, (advantages + np.array(expected)) / 2, rtol=1e-12)


def test_stepopsd_weighs_by_a_sigmoid():
    advantages, log_ratio = np.array([2.0, 2, -1, -1]), np.array([0.02, 3, 0.02, 3])
    expected = [2 * 2 / (1 + np.exp(-0.02)), 2 * 1.05, -2 / (1 + np.exp(0.02)), -0.95]
    np.testing.assert_allclose(stepopsd_advantages(advantages, log_ratio, mix=1.0, clip=0.05), expected, rtol=1e-12)


@QUICK
@given(SEEDS)
def test_no_signal_leaves_the_reward_advantage_as_it_is(seed):
    random = np.random.default_rng(seed)
    with jax.enable_x64(True):
        advantages, mix = random.normal(size=(3, 5)), random.uniform()
        nothing = np.zeros((3, 5))
        np.testing.assert_allclose(rlsd_advantages(advantages, nothing, mix=mix, clip=0.2), advantages, rtol=1e-12)
        np.testing.assert_allclose(stepopsd_advantages(advantages, nothing, mix=mix, clip=0.05), advantages, rtol=1e-12)
        turns = agentopsd_advantages(advantages[:, 0], nothing, prior=0.3, scale=0.2, mix=mix)
        np.testing.assert_allclose(turns, np.broadcast_to(advantages[:, :1], (3, 5)), rtol=1e-12)
        np.testing.assert_allclose(sod_weights(np.full((3, 5), 0.7), cap=1.2), 1, rtol=1e-12)


LAYOUT = {
    "trajectory": np.array([[0, 0, 0, 1, 1, 1], [1, 1, 0, 0, 0, 0]]),
    "turn": np.array([[0, 0, 1, 0, 1, 1], [2, 2, 2, 0, 0, 0]]),
    "mask": np.array([[1, 1, 1, 1, 1, 1], [1, 0, 1, 0, 0, 0]], bool),
}


def test_sums_and_means_over_turns_in_any_layout():
    values = np.array([[1.0, 3, 5, 7, 9, 11], [13, np.nan, 15, np.nan, np.inf, 0]])
    np.testing.assert_array_equal(turn_sums(values, **LAYOUT, shape=(2, 4)), [[4, 5, 15, 0], [7, 20, 13, 0]])
    np.testing.assert_array_equal(turn_means(values, **LAYOUT, shape=(2, 4)), [[2, 5, 15, 0], [7, 10, 13, 0]])


def test_equalised_turns_keep_their_mean_size():
    advantages = np.where(LAYOUT["trajectory"] == 0, 2.0, -1.0)
    shaped = advantages * np.array([[1, 3, 2, 1, 0, 0], [5, 9, 1, 9, 9, 9.0]])
    expected = [[1, 3, 2, -1, 0, 0], [-1, 0, 2, 0, 0, 0]]
    np.testing.assert_allclose(equalise_turns(shaped, advantages, **LAYOUT, shape=(2, 3)), expected, rtol=1e-12)


def test_sod_counts_turns_far_from_the_teacher_less():
    weights = sod_weights(np.array([[0.5, 1.0, 0.1, 0.0], [0.0, 1.0, 0.0, 2.0]]), cap=1.2)
    expected = [[1, 0.500001 / 1.000001, 1.2, 1.2], [1, 1e-6 / 1.000001, 1, 1e-6 / 2.000001]]
    np.testing.assert_allclose(weights, expected, rtol=1e-12)


def test_agentopsd_credits_the_turn_that_raises_the_belief():
    added = np.diff(sigmoid(np.log(0.25 / 0.75) + np.array([0.0, 1.0, 0.5, 3.5])))
    standard = (added - added.mean()) / added.std()
    for sign in (1.0, -1.0):
        expected = sign * 1.5 * (0.5 + 0.5 * np.clip(1 + 0.2 * sign * standard, 0.8, 1.2))
        got = agentopsd_advantages(np.array(sign * 1.5), np.array([1.0, -0.5, 3.0]), prior=0.25, scale=0.2, mix=0.5)
        np.testing.assert_allclose(got, expected, rtol=1e-9)
    padded = agentopsd_advantages(
        np.array([1.5]), np.array([[1.0, -0.5, 3.0, 99.0]]), prior=0.25, scale=0.2, mix=0.5,
        mask=np.array([[1, 1, 1, 0]]),
    )  # fmt: skip
    np.testing.assert_allclose(padded[0, :3], 1.5 * (0.5 + 0.5 * np.clip(1 + 0.2 * standard, 0.8, 1.2)), rtol=1e-9)
    assert padded[0, 3] == 0


def test_skill_sd_penalises_by_k3_cut_at_ten_nats():
    student, teacher = np.array([-1.0, -1.0, -20.0, -0.1]), np.array([-1.0, -2.0, -0.5, -30.0])
    expected = [0, np.exp(-1) - 1 + 1, np.exp(10) - 1 - 10, np.exp(-10) - 1 + 10]
    np.testing.assert_allclose(skill_sd_penalty(student, teacher), expected, rtol=1e-9)
    gradient = jax.grad(lambda s: skill_sd_penalty(s, teacher).sum())(jnp.asarray(student))
    np.testing.assert_allclose(gradient, [0, 1 - np.exp(-1), 0, 0], rtol=1e-9, atol=1e-12)


def test_sdar_is_gated_and_sends_its_gradient_to_the_student_only():
    student, teacher = jnp.array([[-1.0, -2, 7]]), jnp.array([[-0.5, -3, np.nan]])
    mask = np.array([[1, 1, 0]])
    d = np.array([0.5, -1.0])
    np.testing.assert_allclose(sdar_loss(student, teacher, mask, gate=5.0), (sigmoid(5 * d) * d).mean(), rtol=1e-12)
    to_student, to_teacher = jax.grad(lambda s, t: sdar_loss(s, t, mask, gate=5.0), argnums=(0, 1))(student, teacher)
    np.testing.assert_allclose(to_student, [[*(-sigmoid(5 * d) / 2), 0]], rtol=1e-12)
    np.testing.assert_array_equal(to_teacher, np.zeros((1, 3)))


@QUICK
@given(SEEDS)
def test_a_shift_of_both_sides_changes_nothing(seed):
    random = np.random.default_rng(seed)
    with jax.enable_x64(True):
        student, teacher, shift = -random.exponential(size=(2, 4)), -random.exponential(size=(2, 4)), random.normal()
        moved = skill_sd_penalty(student + shift, teacher + shift)
        np.testing.assert_allclose(moved, skill_sd_penalty(student, teacher), atol=1e-9)
        mask = random.random((2, 4)) < 0.7
        moved = sdar_loss(student + shift, teacher + shift, mask, gate=5.0)
        np.testing.assert_allclose(moved, sdar_loss(student, teacher, mask, gate=5.0), atol=1e-12)


def test_the_share_of_the_dagger_teacher_falls_to_its_floor():
    np.testing.assert_allclose([dagger_beta(i) for i in range(1, 6)], [1, 0.8, 0.6, 0.6, 0.6])
    with pytest.raises(ValueError, match="iteration is 0; iterations are counted from 1"):
        dagger_beta(0)


def test_turnopd_moves_weight_from_tokens_to_turns():
    counts = np.array([[4, 1, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(turnopd_weights(counts, blend=0.0), [[1, 1, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(turnopd_weights(counts, blend=1.0), [[0.5, 2, 2, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(turnopd_weights(counts, blend=0.5)[0], [0.75, 1.5, 1.5, 0])
    for blend in (0.0, 0.3, 1.0):
        assert np.sum(turnopd_weights(counts, blend=blend)[0] * counts[0]) == pytest.approx(6)
