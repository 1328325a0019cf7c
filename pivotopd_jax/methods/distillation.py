"""On-policy distillation from an external teacher: another model that scores the student's own tokens.

D is log(teacher) − log(student) of each token, in nats; only SOD knows a reward besides. Left out: a trained critic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp

from pivotopd_jax.losses.credit import sod_weights, turn_means, turn_sums, turnopd_weights
from pivotopd_jax.losses.divergences import jensen_shannon, reverse_kl
from pivotopd_jax.losses.preventive import preventive_advantages
from pivotopd_jax.methods.method import Annotation, Behaviour, Divergence, Labels, Method, Probe
from pivotopd_jax.methods.shaping import log_ratio, turns_of
from pivotopd_jax.records import PLAIN, TEACHER, TEACHER_HINTED, TokenBatch, View

NO_PENALTY = {"kl_coefficient": 0.0}
"""The teacher takes the reference's place."""


def shape_opd(batch: TokenBatch, views: Mapping[View, Any]) -> Any:
    """D on every trained token, without a reward; `[rows, length]` float32."""
    return log_ratio(batch, views, TEACHER)


def shape_hinted_opd(batch: TokenBatch, views: Mapping[View, Any], *, preventive_weight: float) -> Any:
    """D, and w_prev · D of the teacher that is shown the gold action, on pivotal turns (arXiv 2609.40285, on SWE).

    Returns:
        `[rows, length]` float32.
    """
    hinted = preventive_advantages(views[TEACHER_HINTED], views[PLAIN], weight=preventive_weight)
    return shape_opd(batch, views) + jnp.where(batch.pivotal, hinted, 0.0) * batch.mask


def shape_sod(batch: TokenBatch, views: Mapping[View, Any], *, cap: float) -> Any:
    """A_RL + w_k D with the weight of the token's turn; `[rows, length]` float32 (arXiv 2605.07725)."""
    signal = log_ratio(batch, views, TEACHER)
    divergence = turn_means(jnp.abs(signal), **turns_of(batch))
    return batch.reward_advantages + sod_weights(divergence, cap=cap)[batch.trajectory, batch.turn] * signal


def shape_turnopd(batch: TokenBatch, views: Mapping[View, Any], *, blend: float) -> Any:
    """D with the weight of the token's turn; `[rows, length]` float32 (arXiv 2607.05804)."""
    counts = turn_sums(jnp.ones(batch.mask.shape), **turns_of(batch))
    return turnopd_weights(counts, blend=blend)[batch.trajectory, batch.turn] * log_ratio(batch, views, TEACHER)


def shape_nothing(batch: TokenBatch, views: Mapping[View, Any]) -> Any:
    """0 everywhere: all that is learned comes from the divergence. `[rows, length]` float32."""
    del views
    return 0.0 * batch.mask


def opd(knobs: Any) -> Method:
    """Reverse KL to an external teacher on the student's own tokens, sampled or over the whole vocabulary."""
    if knobs.full_vocabulary:
        term = Divergence(reverse_kl, 1.0, ("rollout",), TEACHER)
        return Method("opd", shape=shape_nothing, divergence=term, update=NO_PENALTY)
    return Method("opd", shape=shape_opd, views=(TEACHER,), update=NO_PENALTY)


def hinted_opd(knobs: Any) -> Method:
    """OPD, and at the last turn of one failed trajectory a group the teacher hinted with the gold action."""
    return Method(
        "hinted_opd",
        shape=partial(shape_hinted_opd, preventive_weight=knobs.preventive_weight),
        annotation=Annotation(turns="final", max_actions=1),
        views=(TEACHER, TEACHER_HINTED),
        update=NO_PENALTY,
    )


def gkd(knobs: Any) -> Method:
    """Generalised Jensen–Shannon divergence to the teacher on episodes of student and expert (arXiv 2306.13649)."""
    by_expert = 1.0 - knobs.student_share
    return Method(
        "gkd",
        shape=shape_nothing,
        behaviour=Behaviour("episodes", lambda iteration: by_expert),
        labels=Labels("teacher") if by_expert else None,
        divergence=Divergence(partial(jensen_shannon, beta=knobs.beta), 1.0, ("rollout", "label"), TEACHER),
        update=NO_PENALTY,
    )


def sod(knobs: Any) -> Method:
    """Reward and distillation, where turns far from the teacher are distilled less (arXiv 2605.07725)."""
    return Method(
        "sod", shape=partial(shape_sod, cap=knobs.turn_cap), views=(TEACHER,), normalization=knobs.normalization
    )


def turnopd(knobs: Any) -> Method:
    """OPD whose weight moves from tokens to turns, on rollouts as deep as the teacher has to say (arXiv 2607.05804)."""
    return replace(
        _sampled_opd(knobs),
        name="turnopd",
        shape=shape_turnopd,
        behaviour=Behaviour(probe=Probe()),
        schedule=lambda step, steps: {"blend": step / max(steps - 1, 1)},
    )


def tcod_forward(knobs: Any) -> Method:
    """OPD on episodes that grow by a turn every few steps (arXiv 2604.24005, front to back)."""
    grows = Behaviour("student", depth=lambda step: 1 + step // 6)
    return replace(_sampled_opd(knobs), name="tcod_forward", behaviour=grows, aggregation="sequence_mean")


def tcod_backward(knobs: Any) -> Method:
    """OPD after an expert's prefix that shrinks by a turn every few steps (arXiv 2604.24005, back to front)."""
    shrinks = Behaviour("prefix", prefix=lambda step, whole: max(0, whole - 1 - step // 5))
    return replace(_sampled_opd(knobs), name="tcod_backward", behaviour=shrinks, aggregation="sequence_mean")


def _sampled_opd(knobs: Any) -> Method:
    del knobs
    return Method("opd", shape=shape_opd, views=(TEACHER,), update=NO_PENALTY)
