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


def entropy(logits: chex.Array) -> jax.Array:
    """H(p) at each position for p = softmax(logits) `[..., vocabulary]` float; `[...]` float, nats."""
    chex.assert_type(logits, float)
    log_p = jax.nn.log_softmax(logits)
    p = jnp.exp(log_p)
    return -jnp.sum(jnp.where(p > 0, p * jnp.where(p > 0, log_p, 0), 0), axis=-1)


def reverse_kl(teacher_logits: chex.Array, student_logits: chex.Array) -> jax.Array:
    """KL(student ‖ teacher) at each position, teacher first as in `jensen_shannon`; see `kl_divergence`."""
    return kl_divergence(student_logits, teacher_logits)


def jensen_shannon(teacher_logits: chex.Array, student_logits: chex.Array, *, beta: float) -> jax.Array:
    """Generalised Jensen–Shannon divergence at each position (GKD, arXiv 2306.13649, equation 1).

    β KL(T ‖ M) + (1 - β) KL(S ‖ M) with M = β T + (1 - β) S. At the ends, where that is 0, the limits that its
    authors take it for: β = 0 is KL(T ‖ S) and β = 1 is KL(S ‖ T).

    Args:
        teacher_logits: `[..., vocabulary]` float.
        student_logits: `[..., vocabulary]` float.
        beta: scalar in [0, 1], known when the function is traced.

    Returns:
        `[...]` float, nats.
    """
    if beta == 0:
        return kl_divergence(teacher_logits, student_logits)
    if beta == 1:
        return reverse_kl(teacher_logits, student_logits)
    log_t, log_s = jax.nn.log_softmax(teacher_logits), jax.nn.log_softmax(student_logits)
    mixture = jnp.logaddexp(log_t + jnp.log(beta), log_s + jnp.log1p(-beta))
    return beta * kl_divergence(log_t, mixture) + (1 - beta) * kl_divergence(log_s, mixture)


def with_tail(p_logits: chex.Array, q_logits: chex.Array, *, k: int) -> tuple[jax.Array, jax.Array]:
    """Both distributions on the k most probable outcomes of p and one bucket for all others.

    A divergence of the results is at most that of the arguments (data processing), and differs little where p has
    little mass outside its top k.

    Args:
        p_logits: `[..., vocabulary]` float.
        q_logits: `[..., vocabulary]` float.
        k: number of outcomes kept, less than the vocabulary.

    Returns:
        Two arrays `[..., k + 1]` float of log-probabilities in nats, the bucket last.
    """
    chex.assert_equal_shape([p_logits, q_logits])
    _, kept = jax.lax.top_k(p_logits, k)
    rest = jnp.ones(p_logits.shape, bool)
    rest = jnp.put_along_axis(rest, kept, False, axis=-1, inplace=False)

    def bucketed(logits: chex.Array) -> jax.Array:
        log_probs = jax.nn.log_softmax(logits)
        tail = jax.nn.logsumexp(log_probs, axis=-1, where=rest, keepdims=True)
        return jnp.concatenate([jnp.take_along_axis(log_probs, kept, axis=-1), tail], axis=-1)

    return bucketed(p_logits), bucketed(q_logits)
