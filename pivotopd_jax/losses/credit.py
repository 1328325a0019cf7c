"""How the baselines turn a distillation signal into credit for tokens and turns.

D is log(teacher or privileged student) − log(student) in nats on the student's own tokens; A the reward advantage. All
functions are pure; what they return carries no gradient, except `skill_sd_penalty` and `sdar_loss`, which are losses.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp

from pivotopd_jax.losses.surrogate import aggregate, kl_estimate


def rlsd_advantages(
    advantages: chex.Array, log_ratio: chex.Array, *, mix: chex.Numeric, clip: chex.Numeric
) -> jax.Array:
    """A ((1 − λ) + λ clip(e^{sgn(A) D}, 1 ± clip)): the reward gives the sign, the teacher the size (arXiv 2604.03128).

    Args:
        advantages: `[..., length]` float, A.
        log_ratio: `[..., length]` float, D, nats.
        mix: λ in [0, 1]; 0 leaves A as it is.
        clip: bound of the factor, 0.2 in the paper.

    Returns:
        `[..., length]` float.
    """
    chex.assert_equal_shape([advantages, log_ratio])
    factor = jnp.clip(jnp.exp(jnp.sign(advantages) * log_ratio), 1 - clip, 1 + clip)
    return _mixed(advantages, factor, mix)


def stepopsd_advantages(
    advantages: chex.Array, log_ratio: chex.Array, *, mix: chex.Numeric, clip: chex.Numeric
) -> jax.Array:
    """(1 − λ) A + λ w A with w = clip(2 σ(sgn(A) D), 1 ± clip) (StepOPSD, arXiv 2605.27140).

    Before the equalisation of turns, which is `equalise_turns`.

    Args:
        advantages: `[..., length]` float, A.
        log_ratio: `[..., length]` float, D, nats.
        mix: λ in [0, 1]; 0 leaves A as it is.
        clip: bound of the weight, 0.05 in the paper.

    Returns:
        `[..., length]` float.
    """
    chex.assert_equal_shape([advantages, log_ratio])
    weight = jnp.clip(2 * jax.nn.sigmoid(jnp.sign(advantages) * log_ratio), 1 - clip, 1 + clip)
    return _mixed(advantages, weight, mix)


def _mixed(advantages: chex.Array, factor: jax.Array, mix: chex.Numeric) -> jax.Array:
    """(1 − mix) A + mix · factor · A, without gradient."""
    return jax.lax.stop_gradient(jnp.multiply(advantages, jnp.add(1, jnp.multiply(mix, factor - 1))))


def turn_sums(
    values: chex.Array, trajectory: chex.Array, turn: chex.Array, mask: chex.Array, *, shape: tuple[int, int]
) -> jax.Array:
    """Sums of token values over turns.

    Args:
        values: `[...]` float, one a token, in any layout.
        trajectory, turn: `[...]` int, where each token comes from.
        mask: `[...]` bool or 0/1; masked tokens count for nothing, whatever they hold.
        shape: (trajectories, turns).

    Returns:
        `[trajectories, turns]` float; 0 where there is no token.
    """
    chex.assert_equal_shape([values, trajectory, turn, mask])
    kept = jnp.where(jnp.asarray(mask) != 0, values, 0)
    return jnp.zeros(shape, kept.dtype).at[trajectory, turn].add(kept)


def turn_means(
    values: chex.Array, trajectory: chex.Array, turn: chex.Array, mask: chex.Array, *, shape: tuple[int, int]
) -> jax.Array:
    """Means of token values over turns, 0 where there is no token; see `turn_sums`."""
    counts = turn_sums(jnp.ones_like(values), trajectory, turn, mask, shape=shape)
    return turn_sums(values, trajectory, turn, mask, shape=shape) / jnp.maximum(counts, 1)


def equalise_turns(
    shaped: chex.Array,
    advantages: chex.Array,
    trajectory: chex.Array,
    turn: chex.Array,
    mask: chex.Array,
    *,
    shape: tuple[int, int],
) -> jax.Array:
    """Scales `shaped` so that its mean size in every turn is that of `advantages` (StepOPSD, arXiv 2605.27140).

    Args:
        shaped: `[...]` float, reshaped advantages.
        advantages: `[...]` float, what they were made of.
        trajectory, turn, mask, shape: as in `turn_sums`.

    Returns:
        `[...]` float; a turn in which `shaped` is all 0 stays 0.
    """
    own = turn_means(jnp.abs(shaped), trajectory, turn, mask, shape=shape)
    wanted = turn_means(jnp.abs(advantages), trajectory, turn, mask, shape=shape)
    scale = jnp.asarray(jnp.where(own > 0, wanted / jnp.where(own > 0, own, 1), 0))
    return jax.lax.stop_gradient(jnp.where(jnp.asarray(mask) != 0, shaped * scale[trajectory, turn], 0))


def sod_weights(turn_divergence: chex.Array, *, cap: chex.Numeric, epsilon: float = 1e-6) -> jax.Array:
    """w_1 = 1 and w_k = min((d_1 + ε) / (d_k + ε), cap): turns far from the teacher count less (SOD, arXiv 2605.07725).

    Args:
        turn_divergence: `[..., turns]` float, d_k = mean |D| of turn k, nats.
        cap: greatest weight, 1.2 in the paper.
        epsilon: nats.

    Returns:
        `[..., turns]` float.
    """
    distance = jnp.asarray(turn_divergence) + epsilon
    weights = jnp.minimum(distance[..., :1] / distance, cap)
    return jax.lax.stop_gradient(weights.at[..., 0].set(1))


def agentopsd_advantages(
    advantages: chex.Array,
    turn_log_ratio: chex.Array,
    *,
    prior: chex.Numeric,
    scale: chex.Numeric,
    mix: chex.Numeric,
    mask: chex.Array | None = None,
) -> jax.Array:
    """Turn advantages from what each turn adds to the belief in success (AgentOPSD, arXiv 2608.05987).

    logit V_k = logit V_0 + Σ_{i≤k} D_i; q_k = V_k − V_{k−1}; m = clip(1 + scale · sgn(A) · z(q), 1 ± scale) with z the
    standardisation over the turns of the trajectory (population deviation); A ((1 − mix) + mix · m).

    Args:
        advantages: `[...]` float, A of each trajectory.
        turn_log_ratio: `[..., turns]` float, D_k summed over the tokens of turn k, nats.
        prior: V_0 in (0, 1), a scalar or `[...]`.
        scale: 0.2 in the paper.
        mix: 0.5 in the paper.
        mask: `[..., turns]` bool or 0/1, the turns that were played; None: all.

    Returns:
        `[..., turns]` float; A itself where all turns add the same.
    """
    played = jnp.ones(turn_log_ratio.shape, bool) if mask is None else jnp.asarray(mask) != 0
    prior = jnp.asarray(prior, turn_log_ratio.dtype)
    start = jnp.log(prior) - jnp.log1p(-prior)
    logits = start[..., None] + jnp.cumsum(jnp.where(played, turn_log_ratio, 0), axis=-1)
    value = jax.nn.sigmoid(logits)
    before = jnp.concatenate([jnp.broadcast_to(prior[..., None], (*value.shape[:-1], 1)), value[..., :-1]], axis=-1)
    added = value - before
    mean = jnp.mean(added, axis=-1, where=played, keepdims=True)
    deviation = jnp.std(added, axis=-1, where=played, keepdims=True)
    standard = jnp.where(deviation > 1e-8, (added - mean) / jnp.where(deviation > 1e-8, deviation, 1), 0)
    advantages = jnp.asarray(advantages)[..., None]
    factor = jnp.clip(1 + scale * jnp.sign(advantages) * standard, 1 - scale, 1 + scale)
    return jax.lax.stop_gradient(jnp.where(played, advantages * ((1 - mix) + mix * factor), 0))


def skill_sd_penalty(student_log_probs: chex.Array, teacher_log_probs: chex.Array) -> jax.Array:
    """k3 of log S − log T for each token, the log-ratio cut at ±10 nats (Skill-SD, arXiv 2604.10674).

    Args:
        student_log_probs: `[..., length]` float, nats; carries the gradient.
        teacher_log_probs: `[..., length]` float, nats; carries none.

    Returns:
        `[..., length]` float, nats, never negative.
    """
    chex.assert_equal_shape([student_log_probs, teacher_log_probs])
    log_ratio = jnp.clip(jnp.subtract(student_log_probs, jax.lax.stop_gradient(teacher_log_probs)), -10, 10)
    return kl_estimate(log_ratio, jnp.zeros_like(log_ratio), kind="k3")


def sdar_loss(
    student_log_probs: chex.Array, teacher_log_probs: chex.Array, mask: chex.Array, *, gate: chex.Numeric
) -> jax.Array:
    """Token mean of `sdar_token_loss`.

    Args:
        student_log_probs: `[..., length]` float, nats.
        teacher_log_probs: `[..., length]` float, nats; carries no gradient.
        mask: `[..., length]` bool or 0/1; masked tokens may hold anything.
        gate: steepness, 5 in the paper, 1 / nats.

    Returns:
        Scalar, nats per token.
    """
    selected = jnp.asarray(mask) != 0
    student, teacher = (jnp.where(selected, log_probs, 0) for log_probs in (student_log_probs, teacher_log_probs))
    return aggregate(sdar_token_loss(student, teacher, gate=gate), mask)


def sdar_token_loss(student_log_probs: chex.Array, teacher_log_probs: chex.Array, *, gate: chex.Numeric) -> jax.Array:
    """sg[σ(gate · D)] · D for each token, to be minimised (SDAR, arXiv 2605.15155).

    Its gradient runs through log S only. With a constant gate its expectation under the student would be 0.

    Args:
        student_log_probs: `[..., length]` float, nats.
        teacher_log_probs: `[..., length]` float, nats; carries no gradient.
        gate: steepness, 5 in the paper, 1 / nats.

    Returns:
        `[..., length]` float, nats.
    """
    chex.assert_equal_shape([student_log_probs, teacher_log_probs])
    log_ratio = jnp.subtract(jax.lax.stop_gradient(teacher_log_probs), student_log_probs)
    return jax.lax.stop_gradient(jax.nn.sigmoid(gate * log_ratio)) * log_ratio


def turnopd_weights(counts: chex.Array, *, blend: chex.Numeric) -> jax.Array:
    """Weights of a token by its turn: from every token alike to every turn alike (TurnOPD, arXiv 2607.05804).

    With n_k tokens in turn k of T, N in all: (1 − blend) + blend · (N / T) / n_k. The mean over the tokens of a
    trajectory is 1 whatever the blend.

    Args:
        counts: `[..., turns]` float or int, n_k; 0 for a turn that was not played.
        blend: in [0, 1].

    Returns:
        `[..., turns]` float; 0 where nothing was played.
    """
    counts = jnp.asarray(counts, jnp.result_type(float))
    played = counts > 0
    fair = counts.sum(axis=-1, keepdims=True) / jnp.maximum(played.sum(axis=-1, keepdims=True), 1)
    weights = (1 - blend) + blend * fair / jnp.where(played, counts, 1)
    return jax.lax.stop_gradient(jnp.where(played, weights, 0))


def dagger_beta(iteration: int) -> float:
    """Share of turns that the teacher plays: max(0.6, 1 − 0.2 (i − 1)), iterations counted from 1 (arXiv 2605.12913).

    Raises:
        ValueError: `iteration` is less than 1.
    """
    if iteration < 1:
        raise ValueError(f"iteration is {iteration}; iterations are counted from 1")
    return max(0.6, 1 - 0.2 * (iteration - 1))
