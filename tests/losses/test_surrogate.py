from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from pivotopd_jax.losses.preventive import preventive_advantages
from pivotopd_jax.losses.surrogate import aggregate, clipped_surrogate, kl_estimate

AGGREGATIONS = ["token_mean", "sequence_mean", "constant"]
GARBAGE = [np.nan, np.inf, -np.inf, 1e30]


def batch(seed: int = 0, rows: int = 6, length: int = 9, spread: float = 0.3):
    """Log-probs, old log-probs, advantages `[rows, length]` and a mask of prefixes; the last row is empty."""
    generator = np.random.default_rng(seed)
    log_probs, noise, advantages = generator.normal(size=(3, rows, length))
    lengths = np.append(generator.integers(1, length, size=rows - 1), 0)
    return log_probs - 2, log_probs - 2 + spread * noise, advantages, np.arange(length) < lengths[:, None]


def loss_and_gradient(log_probs, old_log_probs, advantages, mask, **options):
    function = functools.partial(clipped_surrogate, **options)
    function = jax.jit(jax.value_and_grad(function, has_aux=True))
    (loss, metrics), gradient = function(log_probs, old_log_probs, advantages, mask)
    return loss, gradient, metrics


@pytest.mark.usefixtures("x64")
def test_four_corners_by_hand():
    ratios, advantages = np.array([[1.5, 0.5, 1.5, 0.5]]), np.array([[2.0, 2.0, -2.0, -2.0]])
    mask = np.ones((1, 4), bool)
    loss, gradient, metrics = loss_and_gradient(np.log(ratios), np.zeros((1, 4)), advantages, mask)
    # Objectives: min(3, 2.4), min(1, 1.6), min(-3, -2.4), min(-1, -1.6).
    np.testing.assert_allclose(loss, -(2.4 + 1 - 3 - 1.6) / 4, rtol=1e-12)
    np.testing.assert_allclose(gradient, [[0, -1 / 4, 3 / 4, 0]], rtol=1e-12)
    np.testing.assert_allclose(metrics["clip_fraction"], 0.5)
    np.testing.assert_allclose(metrics["ratio_mean"], 1.0)
    np.testing.assert_allclose(metrics["ratio_max"], 1.5)
    kl = np.mean([0.5 - np.log(1.5), -0.5 - np.log(0.5)])
    np.testing.assert_allclose(metrics["approx_kl"], kl, rtol=1e-12)
    assert metrics["tokens"] == 4


@pytest.mark.usefixtures("x64")
def test_asymmetric_bounds():
    ratios, advantages = np.array([[1.25, 0.75]]), np.array([[1.0, -1.0]])
    arguments = (np.log(ratios), np.zeros((1, 2)), advantages, np.ones((1, 2)))
    np.testing.assert_allclose(clipped_surrogate(*arguments, clip_high=0.28)[0], -(1.25 - 0.8) / 2, rtol=1e-12)
    np.testing.assert_allclose(clipped_surrogate(*arguments, clip_low=0.3)[0], -(1.2 - 0.75) / 2, rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_dual_clip_limits_what_a_negative_advantage_can_cost():
    ratios, advantages = np.array([[8.0, 8.0, 2.0]]), np.array([[-1.0, 1.0, -1.0]])
    loss, gradient, _ = loss_and_gradient(
        np.log(ratios), np.zeros((1, 3)), advantages, np.ones((1, 3), bool), dual_clip=3.0
    )
    np.testing.assert_allclose(loss, -(-3 + 1.2 - 2) / 3, rtol=1e-12)
    np.testing.assert_allclose(gradient, [[0, 0, 2 / 3]], rtol=1e-12)
    with pytest.raises(ValueError, match=r"dual_clip is 1\.0; expected more than 1"):
        clipped_surrogate(*batch(), dual_clip=1.0)


@pytest.mark.usefixtures("x64")
def test_aggregations_by_hand():
    # Sequence sums 3 and 5, lengths 2 and 1, one sequence without tokens.
    values, mask = np.array([[1.0, 2, 9], [5, 9, 9], [9, 9, 9]]), np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(aggregate(values, mask), 8 / 3)
    np.testing.assert_allclose(aggregate(values, mask, aggregation="sequence_mean"), (1.5 + 5) / 2)
    np.testing.assert_allclose(aggregate(values, mask, aggregation="constant", constant=10), (0.3 + 0.5) / 2)
    np.testing.assert_allclose(aggregate(values, mask, denominator=16), 8 / 16)
    np.testing.assert_allclose(aggregate(values, mask, denominator=0.5), 16)
    np.testing.assert_allclose(aggregate(values, mask, aggregation="sequence_mean", denominator=5), 6.5 / 5)
    np.testing.assert_allclose(aggregate(values, mask, aggregation="constant", denominator=4), 8 / 4)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gradient_matches_finite_differences(aggregation):
    log_probs, old, advantages, mask = batch(spread=0.05)  # ratios stay off the kinks
    function = functools.partial(
        clipped_surrogate, old_log_probs=old, advantages=advantages, mask=mask, aggregation=aggregation, constant=7.0
    )
    check_grads(lambda x: function(x)[0], (log_probs,), order=1, modes=["rev"], rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("x64")
def test_at_ratio_one_the_gradient_is_the_policy_gradient():
    log_probs, _, advantages, mask = batch()
    _, gradient, metrics = loss_and_gradient(log_probs, log_probs, advantages, mask)
    np.testing.assert_allclose(gradient, -advantages * mask / mask.sum(), rtol=1e-12, atol=0)
    assert metrics["clip_fraction"] == 0
    assert metrics["approx_kl"] == 0


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_zero_distillation_weights_are_plain_grpo_bit_for_bit(aggregation):
    log_probs, old, advantages, mask = (x.astype(np.float32) for x in batch())
    hinted = old + np.float32(3.3)
    shaped = advantages + preventive_advantages(hinted, old, weight=0.0)
    plain = loss_and_gradient(log_probs, old, advantages, mask, aggregation=aggregation)
    mixed = loss_and_gradient(log_probs, old, shaped, mask, aggregation=aggregation)
    jax.tree.map(np.testing.assert_array_equal, mixed, plain)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_padding_changes_neither_loss_nor_gradient(aggregation):
    log_probs, old, advantages, mask = batch()
    loss, gradient, _ = loss_and_gradient(log_probs, old, advantages, mask, aggregation=aggregation)

    def pad(values):
        return np.pad(values, ((0, 3), (0, 5)))

    padded_loss, padded_gradient, _ = loss_and_gradient(
        pad(log_probs), pad(old), pad(advantages), pad(mask), aggregation=aggregation
    )
    np.testing.assert_allclose(padded_loss, loss, rtol=1e-12)
    np.testing.assert_allclose(padded_gradient, pad(gradient), rtol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_micro_batches_with_a_global_denominator_add_up(aggregation):
    log_probs, old, advantages, mask = batch()
    count = mask.sum() if aggregation == "token_mean" else mask.any(axis=-1).sum()
    loss, gradient, _ = loss_and_gradient(log_probs, old, advantages, mask, aggregation=aggregation)
    parts = [
        loss_and_gradient(
            log_probs[rows], old[rows], advantages[rows], mask[rows], aggregation=aggregation, denominator=count
        )
        for rows in (slice(0, 2), slice(2, 4), slice(4, 6))
    ]
    np.testing.assert_allclose(sum(part[0] for part in parts), loss, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([part[1] for part in parts]), gradient, rtol=1e-12)


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_masked_tokens_never_enter_a_ratio_or_a_gradient(garbage, aggregation):
    log_probs, old, advantages, mask = batch()

    def with_filler(filler):
        masked = (np.where(mask, x, filler).astype(np.float32) for x in (log_probs, old, advantages))
        return loss_and_gradient(next(masked), next(masked), next(masked), mask, aggregation=aggregation)

    expected, found = with_filler(0), with_filler(garbage)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    np.testing.assert_array_equal(found[1][~mask], 0)


def test_nothing_unmasked_is_zero_without_nan():
    log_probs, old, advantages, mask = batch()
    loss, gradient, metrics = loss_and_gradient(log_probs, old, advantages, np.zeros_like(mask))
    assert loss == 0
    np.testing.assert_array_equal(gradient, np.zeros_like(log_probs))
    assert all(np.isfinite(value) for value in metrics.values())


def test_a_ratio_beyond_all_bounds_keeps_the_gradient_finite():
    log_probs, old = jnp.zeros((1, 2), jnp.float32), jnp.full((1, 2), -200.0, jnp.float32)
    advantages = jnp.array([[1.0, -1.0]], jnp.float32)
    loss, gradient, metrics = loss_and_gradient(log_probs, old, advantages, jnp.ones((1, 2), bool))
    assert np.isfinite(loss)
    np.testing.assert_array_equal(gradient, [[0, 0]])
    assert np.isfinite(metrics["approx_kl"])


@pytest.mark.usefixtures("x64")
def test_only_the_trained_policy_carries_a_gradient():
    gradients = jax.grad(lambda *arrays: clipped_surrogate(*arrays)[0], argnums=(1, 2))(*batch())
    np.testing.assert_array_equal(gradients, np.zeros_like(gradients))


def test_jit_agrees():
    arrays = batch()
    loss, metrics = clipped_surrogate(*arrays, aggregation="sequence_mean")
    jitted = jax.jit(functools.partial(clipped_surrogate, aggregation="sequence_mean"))(*arrays)
    np.testing.assert_allclose(jitted[0], loss, rtol=1e-5)
    assert jitted[1].keys() == metrics.keys()


def test_wrong_choices_are_named():
    with pytest.raises(ValueError, match=r'mode.*expected "token_mean", "sequence_mean" or "constant"'):
        clipped_surrogate(*batch(), aggregation="mode")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r'k4.*expected "k1", "k2" or "k3"'):
        kl_estimate(*batch()[:2], kind="k4")  # pyright: ignore[reportArgumentType]
    with pytest.raises(AssertionError):
        clipped_surrogate(*batch()[:3], batch()[3][:, :1])


POLICY, REFERENCE = np.array([1.0, 0, -1]), np.array([0.0, 0.5, -0.5])


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("kind", "mean", "gradient"),
    [
        ("k1", 0.2705251398595869, [0, 0, 0]),
        ("k2", 0.2871242804994758, [0.334043139801935, -0.2442051029847066, -0.0898380368172284]),
        ("k3", 0.2705251398595869, [0.3580450700563234, -0.2617519200008563, -0.0962931500554671]),
    ],
)
def test_mean_of_the_estimators_and_of_their_gradients(kind, mean, gradient):
    probabilities = np.exp(POLICY) / np.exp(POLICY).sum()  # of the sampling, not differentiated

    def expectation(logits):
        return probabilities @ kl_estimate(jax.nn.log_softmax(logits), jax.nn.log_softmax(REFERENCE), kind)

    found, found_gradient = jax.value_and_grad(expectation)(POLICY)
    np.testing.assert_allclose(found, mean, rtol=1e-9)
    np.testing.assert_allclose(found_gradient, gradient, rtol=1e-9, atol=1e-15)


@pytest.mark.usefixtures("x64")
def test_k3_by_hand_and_by_default():
    # exp(-x) - 1 + x at x = log 2.
    np.testing.assert_allclose(kl_estimate(np.log([2.0]), np.array([0.0])), [0.5 - 1 + np.log(2)], rtol=1e-12)


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_masked_tokens_never_enter_the_penalty(kind, garbage):
    log_probs, reference, _, mask = batch()
    dirty, dirty_reference = (np.where(mask, x, garbage).astype(np.float32) for x in (log_probs, reference))
    values = kl_estimate(dirty, dirty_reference, kind, mask=mask)
    expected = kl_estimate(log_probs.astype(np.float32), reference.astype(np.float32), kind)
    np.testing.assert_array_equal(values, np.where(mask, expected, 0))
    gradient = jax.grad(lambda x: kl_estimate(x, dirty_reference, kind, mask=mask).sum())(dirty)
    np.testing.assert_array_equal(gradient[~mask], 0)
    assert np.isfinite(gradient).all()
