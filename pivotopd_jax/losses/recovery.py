"""The recovery signal: after a mistake, a response sampled from the hinted self-teacher is learned without the hint."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from pivotopd_jax.losses.divergences import kl_divergence
from pivotopd_jax.losses.surrogate import aggregate


def recovery_advantages(
    hinted_log_probs: chex.Array,
    plain_log_probs: chex.Array,
    *,
    weight: chex.Numeric,
    clip: chex.Numeric,
) -> jax.Array:
    """Advantage of the self-teacher's tokens: `weight * clip(hinted - plain, ±clip)`; clipped before it is weighted.

    The only signal of a recovery row. It is not the sampled gradient of a forward KL, see
    `losses.bounds.recovery_update` for what it is (arXiv 2609.40285, recovery distillation). Both terms are frozen.

    Args:
        hinted_log_probs: `[..., length]` float, nats, of the response under the frozen policy that sees the hint.
        plain_log_probs: `[..., length]` float, nats, of the same tokens under the frozen policy that does not.
        weight: scalar, or an array that broadcasts to the tokens.
        clip: bound δ of the log-ratio, nats.

    Returns:
        `[..., length]` float, without gradient.
    """
    chex.assert_equal_shape([hinted_log_probs, plain_log_probs])
    chex.assert_type([hinted_log_probs, plain_log_probs], float)
    log_ratio = jnp.subtract(hinted_log_probs, plain_log_probs)
    return jax.lax.stop_gradient(jnp.multiply(weight, jnp.clip(log_ratio, jnp.negative(clip), clip)))


def recovery_forward_kl(student_logits: chex.Array, hinted_logits: chex.Array, mask: chex.Array) -> jax.Array:
    """Full-vocabulary KL(hinted self-teacher ‖ student), averaged over the unmasked tokens.

    Its gradient in the student's logits is p - q (arXiv 2609.40285, the ideal recovery term).

    Args:
        student_logits: `[..., length, vocabulary]` float, without the hint in the context.
        hinted_logits: `[..., length, vocabulary]` float, with it; carries no gradient.
        mask: `[..., length]` bool or 0/1; masked positions may hold anything.

    Returns:
        Scalar, nats per token; 0 where everything is masked.
    """
    chex.assert_equal_shape([student_logits, hinted_logits])
    chex.assert_equal_shape_prefix([student_logits, mask], student_logits.ndim - 1)
    selected = jnp.asarray(mask)[..., None] != 0
    hinted = jax.lax.stop_gradient(jnp.where(selected, hinted_logits, 0))
    return aggregate(kl_divergence(hinted, jnp.where(selected, student_logits, 0)), mask)
