"""Divergences between categorical distributions given by their logits."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp


def kl_divergence(p_logits: chex.Array, q_logits: chex.Array) -> jax.Array:
    """KL(p ‖ q) at each position, for p = softmax(p_logits) and q = softmax(q_logits), over the whole vocabulary.

    With u the logits of p: ∇_u KL(p ‖ q)_a = p_a (log(p_a / q_a) - KL(p ‖ q)) and ∇_u KL(q ‖ p) = p - q.
    An outcome of probability 0 under p adds 0 and sends no NaN back (logits of -inf are allowed).

    Args:
        p_logits: `[..., vocabulary]` float.
        q_logits: `[..., vocabulary]` float.

    Returns:
        `[...]` float, nats. Infinite where q has probability 0 and p has not.
    """
    chex.assert_equal_shape([p_logits, q_logits])
    chex.assert_type([p_logits, q_logits], float)
    log_p, log_q = jax.nn.log_softmax(p_logits), jax.nn.log_softmax(q_logits)
    p = jnp.exp(log_p)
    support = p > 0
    # The inner selections keep -inf - (-inf) out of the forward pass, hence its NaN out of the backward one.
    log_ratio = jnp.where(support, log_p, 0) - jnp.where(support, log_q, 0)
    return jnp.sum(jnp.where(support, p, 0) * log_ratio, axis=-1)
