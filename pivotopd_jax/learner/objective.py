"""What an update minimises: the policy's objective on packed rows, and a full-vocabulary term beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from pivotopd_jax.losses.surrogate import clipped_surrogate, kl_estimate
from pivotopd_jax.models.attention import Tree
from pivotopd_jax.models.head import LOGITS_AT_ONCE, Greatest, Head, chosen_log_probs, chunked_log_probs, chunked_sum
from pivotopd_jax.models.qwen3 import apply, output_head
from pivotopd_jax.records import DivergenceBatch, TokenBatch


@dataclass(frozen=True)
class UpdateOptions:
    """The PPO step.

    Attributes:
        clip_low, clip_high: ε below and above 1.
        dual_clip: bound on the surrogate of tokens with negative advantage; None for none.
        kl_coefficient: β of the k3 penalty to the reference.
        kl_on_recovery: whether recovery tokens carry the penalty too.
        objective: "surrogate" for PPO's clipped ratio, "likelihood" for A·log-prob (supervised learning with A = 1).
        penalty: (log-probs, old log-probs, privileged log-probs) → nats, elementwise, added to the loss on privileged
            tokens; None for none.
        penalty_weight: of its mean over all tokens.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    kl_coefficient: float = 0.01
    kl_on_recovery: bool = True
    objective: Literal["surrogate", "likelihood"] = "surrogate"
    penalty: Callable[[Any, Any, Any], Any] | None = None
    penalty_weight: float = 0.0


PPO = UpdateOptions()
"""The papers' settings."""


def token_log_probs(
    graphdef: Any,
    params: Any,
    batch: Any,
    places: jax.Array,
    *,
    remat: bool = False,
    at_once: int = LOGITS_AT_ONCE,
) -> jax.Array:
    """Log-probability in nats of response tokens given their ancestors.

    Args:
        graphdef, params: the student.
        batch: `tokens`, `positions`, `subtree_end`, `parent` and `mask`, all `[rows, length]`.
        places: `[rows, most]` int32, indices of the masked tokens of each row; those that do not exist are `length`.
            Logits are made at these places only: a small share of a transcript is responses.
        remat: as in `Qwen3.__call__`.
        at_once: logits held at a time, see `models.head`.

    Returns:
        `[rows, length]` float32, 0 outside the mask.
    """
    hidden = response_hidden(graphdef, params, batch, places, remat=remat)
    tokens = jnp.take_along_axis(batch.tokens, places, axis=1, mode="clip")
    log_probs = chunked_log_probs(output_head(graphdef, params), hidden, tokens, at_once=at_once)
    rows = jnp.arange(len(places))[:, None]
    return jnp.zeros(batch.tokens.shape, jnp.float32).at[rows, places].set(log_probs, mode="drop")


def response_hidden(graphdef: Any, params: Any, batch: Any, places: jax.Array, *, remat: bool = False) -> jax.Array:
    """Last hidden states before the response tokens at `places`, `[rows, most, width]`; see `token_log_probs`."""
    hidden, _ = apply(graphdef, params, batch.tokens, batch.positions, Tree(batch.subtree_end), remat=remat)
    before = jnp.take_along_axis(batch.parent, places, axis=1, mode="clip")
    return jnp.take_along_axis(hidden, before[..., None], axis=1)


def at_places(values: Any, places: jax.Array) -> Any:
    """The entries `[rows, most, ...]` at `places` of a tree of arrays `[rows, length, ...]`; 0 where there is none."""
    rows = jnp.arange(len(places))[:, None]
    return jax.tree.map(lambda a: a.at[rows, places].get(mode="fill", fill_value=0), values)


def policy_objective(
    graphdef: Any,
    params: Any,
    batch: TokenBatch,
    places: jax.Array,
    options: UpdateOptions,
    *,
    on_policy: bool,
    remat: bool = False,
    at_once: int = LOGITS_AT_ONCE,
) -> tuple[jax.Array, dict]:
    """`policy_loss` of the student's log-probs on `batch`, with `drift` among the metrics; see `token_log_probs`.

    Args:
        on_policy: the student is the policy that sampled: `batch.old_log_probs` is not read, all ratios are 1.
        remat: as in `Qwen3.__call__`.
    """

    def of_chunk(logits: jax.Array, part: TokenBatch, _: None) -> tuple[jax.Array, dict]:
        log_probs = chosen_log_probs(logits, part.tokens)
        old = jax.lax.stop_gradient(log_probs) if on_policy else part.old_log_probs
        part = part._replace(old_log_probs=old)
        loss, sums = policy_loss(log_probs, part, options)
        return loss, {**sums, **drift(part)}

    hidden = response_hidden(graphdef, params, batch, places, remat=remat)
    return chunked_sum(of_chunk, output_head(graphdef, params), hidden, at_places(batch, places), at_once=at_once)


def divergence_loss(
    graphdef: Any,
    params: Any,
    teacher_graphdef: Any,
    teacher_params: Any,
    batch: DivergenceBatch,
    places: jax.Array,
    divergence: Callable[[Any, Any], Any],
    *,
    remat: bool = False,
    at_once: int = LOGITS_AT_ONCE,
) -> jax.Array:
    """Σ w · divergence(teacher's logits, student's logits) over the response tokens of `batch`, in nats.

    The teacher is the one that made `batch.teacher_hidden`; only its head is used, and no gradient reaches it.
    """

    def of_chunk(logits: jax.Array, part: Any, teacher: Head) -> tuple[jax.Array, None]:
        teacher_hidden, weights = part
        return jnp.sum(weights * divergence(teacher.logits(teacher_hidden), logits)), None

    hidden = response_hidden(graphdef, params, batch, places, remat=remat)
    each = at_places((batch.teacher_hidden, batch.weights), places)
    teacher = output_head(teacher_graphdef, teacher_params)
    return chunked_sum(of_chunk, output_head(graphdef, params), hidden, each, teacher, at_once=at_once)[0]


def drift(batch: TokenBatch) -> dict[str, Any]:
    """How far the learner's log-probs of what was sampled, `old_log_probs`, are from the sampler's.

    Both are of the same parameters, contexts and tokens, at temperature 1: what is left is rounding.

    Returns:
        "drift", the sum of absolute differences in nats; "drift_most", the greatest; "drift_tokens", their number.
    """
    difference = jnp.where(batch.sampled, jnp.abs(batch.old_log_probs - batch.sampled_log_probs), 0.0)
    return {
        "drift": jnp.sum(difference),
        "drift_most": Greatest(jnp.max(difference, initial=0.0)),
        "drift_tokens": jnp.sum(batch.sampled.astype(difference.dtype)),
    }


def policy_loss(log_probs: jax.Array, batch: TokenBatch, options: UpdateOptions) -> tuple[jax.Array, dict]:
    """The objective of some tokens: −Σ w·min(ρA, clip(ρ)A) + β·Σ w·k3, with w the token weights.

    Returns:
        The loss in nats and metrics. All are sums over tokens, which add up over micro-batches and chunks.
    """
    weights = jnp.where(batch.mask, batch.weights, 0.0)
    if options.objective == "likelihood":
        likelihood = -jnp.sum(jnp.where(batch.mask, log_probs, 0.0) * batch.advantages * weights)
        return likelihood, {"surrogate": likelihood}
    surrogate, _ = clipped_surrogate(
        log_probs, batch.old_log_probs, batch.advantages * weights, batch.mask,
        clip_low=options.clip_low, clip_high=options.clip_high, dual_clip=options.dual_clip, denominator=1,
    )  # fmt: skip
    sums = {
        "entropy_estimate": -jnp.sum(jnp.where(batch.mask, log_probs, 0.0) * weights),
        "surrogate": surrogate,
    }
    if options.penalty is not None:
        chosen = batch.mask & batch.privileged
        seen = (jnp.where(chosen, x, 0.0) for x in (log_probs, batch.old_log_probs, batch.privileged_log_probs))
        sums["penalty"] = jnp.sum(jnp.where(chosen, options.penalty(*seen), 0.0) * weights)
        surrogate = surrogate + options.penalty_weight * sums["penalty"]
    if not options.kl_coefficient:  # the reference has not been scored, either
        return surrogate, sums
    kl = kl_estimate(log_probs, batch.reference_log_probs, kind="k3", mask=batch.mask)
    kl_weights = weights if options.kl_on_recovery else jnp.where(batch.recovery, 0.0, weights)
    kl_sum = jnp.sum(kl * kl_weights)
    return surrogate + options.kl_coefficient * kl_sum, {**sums, "kl_reference": kl_sum}
