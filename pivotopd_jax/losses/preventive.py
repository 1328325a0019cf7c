"""The preventive signal: at a pivotal turn, the student's own response is scored under the hinted self-teacher."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from pivotopd_jax.losses.divergences import kl_divergence
from pivotopd_jax.losses.surrogate import aggregate


def preventive_advantages(
    hinted_log_probs: chex.Array, plain_log_probs: chex.Array, *, weight: chex.Numeric
) -> jax.Array:
    """Distillation advantage of the student's own tokens: `weight * (hinted - plain)`, unclipped.

    Added to the reward advantage at pivotal turns, its expected update is exactly -weight · ∇KL(student ‖ hinted) per
    token at ratio 1 (arXiv 2609.40285, preventive distillation). Both terms are frozen.

    Args:
        hinted_log_probs: `[..., length]` float, nats, of the response under the frozen policy that sees the hint.
        plain_log_probs: `[..., length]` float, nats, of the same tokens under the frozen policy that does not.
        weight: scalar, or an array that broadcasts to the tokens (0 at turns that are not pivotal).

    Returns:
        `[..., length]` float, without gradient.
    """
    chex.assert_equal_shape([hinted_log_probs, plain_log_probs])
    chex.assert_type([hinted_log_probs, plain_log_probs], float)
    return jax.lax.stop_gradient(jnp.multiply(weight, jnp.subtract(hinted_log_probs, plain_log_probs)))


def preventive_reverse_kl(student_logits: chex.Array, hinted_logits: chex.Array, mask: chex.Array) -> jax.Array:
    """Full-vocabulary KL(student ‖ hinted self-teacher), averaged over the unmasked tokens.

    The objective whose gradient the preventive advantage samples (arXiv 2609.40285, preventive distillation).

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
    return aggregate(kl_divergence(jnp.where(selected, student_logits, 0), hinted), mask)
