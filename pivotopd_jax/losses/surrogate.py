"""The clipped policy-gradient surrogate, the sampled KL penalty, and how per-token values become one number."""

from __future__ import annotations

from typing import Literal

import chex
import jax
import jax.numpy as jnp

Aggregation = Literal["token_mean", "sequence_mean", "constant"]
KLKind = Literal["k1", "k2", "k3"]

MAX_LOG_RATIO = 20.0
"""Log-ratios are cut at ± this many nats before they are exponentiated.

An infinite ratio turns into NaN in the backward pass even where the clipped branch is the one chosen; e^20 is far
beyond any ratio that still means something.
"""


def aggregate(
    values: chex.Array,
    mask: chex.Array,
    *,
    aggregation: Aggregation = "token_mean",
    constant: float = 1.0,
    denominator: chex.Numeric | None = None,
) -> jax.Array:
    """Reduces per-token values to one number; masked tokens count for nothing, whatever they hold (NaN included).

    "token_mean": sum over tokens / number of tokens (DAPO, arXiv 2503.14476). "sequence_mean": mean over sequences of
    each one's token mean (GRPO, arXiv 2402.03300). "constant": mean over sequences of each one's token sum divided by
    `constant` (Dr. GRPO, arXiv 2503.20783). Sequences without a single unmasked token are not counted.

    Args:
        values: `[..., length]` float.
        mask: `[..., length]` bool or 0/1.
        aggregation: which of the three.
        constant: divisor of "constant", in tokens, for instance the response limit.
        denominator: scalar that replaces the count of tokens ("token_mean") or of sequences (the other two). A
            micro-batch passes the count of the whole batch; the sum over micro-batches is then the whole batch's value.

    Returns:
        Scalar; 0 where everything is masked.

    Raises:
        ValueError: unknown `aggregation`.
    """
    chex.assert_equal_shape([values, mask])
    chex.assert_type(values, float)
    mask = jnp.asarray(mask) != 0
    values = jnp.where(mask, values, 0)
    lengths = jnp.sum(mask, axis=-1, dtype=values.dtype)
    if aggregation == "token_mean":
        sums, count = values, lengths.sum()
    elif aggregation == "sequence_mean":
        sums, count = values.sum(axis=-1) / jnp.maximum(lengths, 1), (lengths > 0).sum()
    elif aggregation == "constant":
        sums, count = values.sum(axis=-1) / constant, (lengths > 0).sum()
    else:
        raise ValueError(f'aggregation is {aggregation!r}; expected "token_mean", "sequence_mean" or "constant"')
    return sums.sum() / (jnp.maximum(count, 1) if denominator is None else denominator)


def clipped_surrogate(
    log_probs: chex.Array,
    old_log_probs: chex.Array,
    advantages: chex.Array,
    mask: chex.Array,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    aggregation: Aggregation = "token_mean",
    constant: float = 1.0,
    denominator: chex.Numeric | None = None,
    dual_clip: float | None = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """PPO's clipped objective, to be minimised (arXiv 1707.06347, equation 7; arXiv 2609.40285, training objective).

    Per token `-min(ρ A, clip(ρ, 1 - clip_low, 1 + clip_high) A)` with `ρ = exp(log_probs - old_log_probs)`; different
    bounds are DAPO's (arXiv 2503.14476), dual clipping is arXiv 1912.09729. Only `log_probs` carries a
    gradient.

    Args:
        log_probs: `[..., length]` float, nats, of the tokens under the trained policy.
        old_log_probs: `[..., length]` float, nats, under the policy frozen at the start of the step, same context.
        advantages: `[..., length]` float.
        mask: `[..., length]` bool or 0/1; what masked tokens hold, NaN and infinity included, never enters a ratio.
        clip_low: 1 - lower bound of the ratio.
        clip_high: upper bound of the ratio - 1.
        aggregation: see `aggregate`.
        constant: see `aggregate`.
        denominator: see `aggregate`; a micro-batch passes the count of the whole batch.
        dual_clip: where the advantage is negative, the objective is kept above `dual_clip * A`; more than 1. None: off.

    Returns:
        The scalar loss, and metrics without gradient, all over the unmasked tokens of this call: `clip_fraction`
        (share whose clipped branch is the lower one), `ratio_mean`, `ratio_max`, `approx_kl` (k3 estimate of
        KL(old ‖ new), nats per token), `tokens` (their number, the weight to combine micro-batches by).

    Raises:
        ValueError: unknown `aggregation`, or `dual_clip` not above 1.
    """
    chex.assert_equal_shape([log_probs, old_log_probs, advantages, mask])
    chex.assert_type([log_probs, old_log_probs, advantages], float)
    if dual_clip is not None and dual_clip <= 1:
        raise ValueError(f"dual_clip is {dual_clip}; expected more than 1, or None to switch it off")
    mask = jnp.asarray(mask) != 0
    advantages = jax.lax.stop_gradient(jnp.where(mask, advantages, 0))
    log_ratio = _log_ratio(log_probs, jax.lax.stop_gradient(old_log_probs), mask)
    ratio = jnp.exp(log_ratio)
    free, clipped = ratio * advantages, jnp.clip(ratio, 1 - clip_low, 1 + clip_high) * advantages
    objective = jnp.minimum(free, clipped)
    if dual_clip is not None:
        objective = jnp.where(advantages < 0, jnp.maximum(objective, dual_clip * advantages), objective)
    loss = aggregate(-objective, mask, aggregation=aggregation, constant=constant, denominator=denominator)
    metrics = {
        "clip_fraction": aggregate((clipped < free).astype(ratio.dtype), mask),
        "ratio_mean": aggregate(ratio, mask),
        "ratio_max": jnp.max(jnp.where(mask, ratio, 0), initial=0),
        "approx_kl": aggregate(jnp.expm1(log_ratio) - log_ratio, mask),
        "tokens": mask.sum(),
    }
    return loss, jax.lax.stop_gradient(metrics)


def kl_estimate(
    log_probs: chex.Array,
    reference_log_probs: chex.Array,
    kind: KLKind = "k3",
    *,
    mask: chex.Array | None = None,
) -> jax.Array:
    """Per-token estimate of KL(policy ‖ reference) from tokens sampled by the policy (Schulman 2020, k1, k2, k3).

    With `x = log_probs - reference_log_probs`: k1 = x, k2 = x² / 2, k3 = exp(-x) - 1 + x. On-policy, k1 and k3 have
    that KL as their mean. Differentiated through `log_probs` only (not through the sampling), the mean gradients are
    0 for k1, ∇KL(policy ‖ reference) for k2 and ∇KL(reference ‖ policy) for k3.

    Args:
        log_probs: `[..., length]` float, nats, under the trained policy.
        reference_log_probs: `[..., length]` float, nats, under the reference; carries no gradient.
        kind: "k1", "k2" or "k3".
        mask: `[..., length]` bool or 0/1. Masked tokens get 0 and no gradient, whatever they hold.

    Returns:
        `[..., length]` float, nats. k2 and k3 are never negative.

    Raises:
        ValueError: unknown `kind`.
    """
    chex.assert_equal_shape([log_probs, reference_log_probs] + ([] if mask is None else [mask]))
    chex.assert_type([log_probs, reference_log_probs], float)
    mask = jnp.ones(log_probs.shape, bool) if mask is None else jnp.asarray(mask) != 0
    log_ratio = _log_ratio(log_probs, jax.lax.stop_gradient(reference_log_probs), mask, limit=kind == "k3")
    if kind == "k1":
        return log_ratio
    if kind == "k2":
        return log_ratio**2 / 2
    if kind == "k3":
        return jnp.expm1(-log_ratio) + log_ratio
    raise ValueError(f'kind is {kind!r}; expected "k1", "k2" or "k3"')


def _log_ratio(log_probs: chex.Array, other: chex.Array, mask: jax.Array, limit: bool = True) -> jax.Array:
    # Masked before the subtraction: selecting the result only would still send 0 · NaN backwards.
    difference = jnp.where(mask, log_probs, 0) - jnp.where(mask, other, 0)
    return jnp.clip(difference, -MAX_LOG_RATIO, MAX_LOG_RATIO) if limit else difference
