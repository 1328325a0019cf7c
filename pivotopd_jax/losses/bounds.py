"""Closed forms: what one sampled update does, in expectation, to the logits of a softmax policy.

Throughout, p is the policy's distribution over actions (or next tokens), q the hinted self-teacher's, and a* the action
the hint names. Updates are ascent directions in the logits at ratio 1, so before any clipping of the ratio.
Last axis: actions.
"""

from __future__ import annotations

import math

import chex
import jax
import jax.numpy as jnp


def expected_update(sampling_probs: chex.Array, weights: chex.Array, policy_probs: chex.Array) -> jax.Array:
    """Mean of `weight · ∇_logits log p(action)` over actions drawn from `sampling_probs`.

    g_a = r_a w_a - p_a E_r[w] for r = `sampling_probs`, w = `weights` (held fixed), p = `policy_probs`.

    Args:
        sampling_probs: `[..., actions]` float, r. May sum to less than 1: the accepted mass after filtering.
        weights: `[..., actions]` float, w. Not read where r is 0.
        policy_probs: `[..., actions]` float, p.

    Returns:
        `[..., actions]` float. Sums to 0 over the actions when p sums to 1.
    """
    chex.assert_equal_shape([sampling_probs, weights, policy_probs])
    chex.assert_type([sampling_probs, weights, policy_probs], float)
    sampled = jnp.asarray(sampling_probs)
    weighted = sampled * jnp.where(sampled > 0, weights, 0)
    return weighted - jnp.asarray(policy_probs) * weighted.sum(axis=-1, keepdims=True)


def preventive_update(p: chex.Array, q: chex.Array) -> jax.Array:
    """Expected update of student-sampled distillation with weight log(q/p): exactly -∇KL(p ‖ q) (arXiv 2609.40285).

    g(a) = p(a) (log(q(a)/p(a)) + KL(p ‖ q)). At an action the student hardly ever takes this is
    O(p(a) log 1/p(a)): |g(a)| ≤ p(a) (|log q(a)| + log(1/p(a)) + KL(p ‖ q)).

    Args:
        p: `[..., actions]` float, the student's probabilities.
        q: `[..., actions]` float, the self-teacher's; positive wherever p is.

    Returns:
        `[..., actions]` float.
    """
    return expected_update(p, _log_ratio(p, q), p)


def recovery_update(p: chex.Array, q: chex.Array, clip: float) -> jax.Array:
    """Expected update of self-teacher-sampled distillation with weight φ = clip(log(q/p), ±clip).

    g(a) = q(a) φ(a) - p(a) E_q[φ]. It is the gradient at p of F(u) = E_{p_u}[(q/p) φ] with q/p and φ held fixed, not
    that of KL(q ‖ p), whose descent step is q - p (arXiv 2609.40285, recovery distillation). Unclipped, it vanishes in
    every component only at p = q.

    Args:
        p: `[..., actions]` float, the student's probabilities.
        q: `[..., actions]` float, the self-teacher's, or the accepted (sub-normalised) part of them.
        clip: δ > 0, nats; `math.inf` leaves the ratio unclipped.

    Returns:
        `[..., actions]` float.
    """
    return expected_update(q, _clipped_log_ratio(p, q, clip), p)


def recovery_bound(p: chex.Array, q: chex.Array, clip: float) -> jax.Array:
    """Lower bound δ (q(a) - p(a)) of the recovery update at each action (arXiv 2609.40285, gradient bound).

    If δ > 0, p has full support and q(a) ≥ e^δ p(a), then g(a) ≥ δ (q(a) - p(a)) > 0. The slack g(a) - δ (q(a) - p(a))
    is then exactly p(a) (δ - E_q[φ]), see `recovery_slack`. It does not follow from q(a) > p(a) alone: there g(a) may
    even be negative. `recovery_bound_holds` says where the condition is met; elsewhere the value bounds nothing.

    Args:
        p: `[..., actions]` float, the student's probabilities.
        q: `[..., actions]` float, the self-teacher's, or the accepted (sub-normalised) part of them.
        clip: δ > 0, nats.

    Returns:
        `[..., actions]` float.
    """
    chex.assert_equal_shape([p, q])
    chex.assert_type([p, q], float)
    return clip * (jnp.asarray(q) - p)


def recovery_bound_holds(p: chex.Array, q: chex.Array, clip: float) -> jax.Array:
    """Where the condition of `recovery_bound` is met: `[..., actions]` bool, q(a) ≥ e^clip p(a) with all p > 0."""
    chex.assert_equal_shape([p, q])
    p = jnp.asarray(p)
    return (p > 0).all(axis=-1, keepdims=True) & (jnp.asarray(q) >= math.exp(clip) * p)


def recovery_slack(p: chex.Array, q: chex.Array, clip: float) -> jax.Array:
    """What the recovery update has above its bound: p(a) (δ - E_q[φ]), `[..., actions]` float, never negative.

    Exact where φ(a) = δ, which `recovery_bound_holds` implies. Arguments as in `recovery_bound`.
    """
    expectation = jnp.sum(q * _clipped_log_ratio(p, q, clip), axis=-1, keepdims=True)
    return jnp.asarray(p) * (clip - expectation)


def student_sampled_bound(p: chex.Array, weights: chex.Array) -> jax.Array:
    """Upper bound 2 p(a) max|w| of |expected_update(p, w, p)| at each action: `[..., actions]` float.

    The counterpart of `recovery_bound`: whatever bounded weight student-sampled tokens get, an action of probability
    p(a) moves by O(p(a)) only, since g(a) = p(a) (w(a) - E_p[w]). Holds for every p; both arguments `[..., actions]`.
    """
    chex.assert_equal_shape([p, weights])
    return 2 * jnp.asarray(p) * jnp.max(jnp.abs(weights), axis=-1, keepdims=True)


def appearance_probability(p: chex.Numeric, rollouts: int) -> jax.Array:
    """Probability 1 - (1 - p)^rollouts that an action of probability p is taken in any of G rollouts; at most G p."""
    return -jnp.expm1(rollouts * jnp.log1p(-jnp.asarray(p)))


def divergence_floor(p: chex.Array, q: chex.Array) -> jax.Array:
    """Lower bound q(a) log(1/p(a)) - log 2 of KL(q ‖ p), from each action alone: `[..., actions]` float, nats.

    Merging all other outcomes into one can only lower the divergence, so this bounds that of whole responses too, of
    which only the probability of the action is known. Holds for all p and q. With two outcomes KL(q ‖ p) exceeds it by
    exactly log 2 - H(q(a)) + (1 - q(a)) log(1 / (1 - p(a))), H the binary entropy; with more, by at least that.
    """
    chex.assert_equal_shape([p, q])
    return -jax.scipy.special.xlogy(q, p) - math.log(2)


def depth_bound(epsilon: chex.Numeric, depth: int, forced: int) -> jax.Array:
    """Upper bound ε^max(depth - forced, 0) of the probability of success after a mistake.

    `depth` exact actions are needed, the first `forced` of them are supplied, and the policy takes each of the others
    with probability at most ε (arXiv 2609.40285, recovery depth K).
    """
    return jnp.asarray(epsilon) ** max(depth - forced, 0)


def _log_ratio(p: chex.Array, q: chex.Array) -> jax.Array:
    return jnp.log(jnp.asarray(q)) - jnp.log(jnp.asarray(p))


def _clipped_log_ratio(p: chex.Array, q: chex.Array, clip: float) -> jax.Array:
    # An action that q never draws may have any finite weight; its log-ratio would be -inf, or NaN where p is 0 too.
    drawn = jnp.asarray(q) > 0
    return jnp.clip(jnp.where(drawn, _log_ratio(p, jnp.where(drawn, q, 1)), 0), -clip, clip)
