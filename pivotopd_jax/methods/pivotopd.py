"""PivotOPD (arXiv 2609.40285) and the points of the space that it contains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax.numpy as jnp

from pivotopd_jax.losses.divergences import kl_divergence
from pivotopd_jax.losses.preventive import preventive_advantages
from pivotopd_jax.losses.recovery import recovery_advantages
from pivotopd_jax.methods.method import Annotation, Divergence, Method, Recovery
from pivotopd_jax.records import PLAIN, TokenBatch, View


def shape_pivotopd(
    batch: TokenBatch,
    views: Mapping[View, Any],
    *,
    reward_weight: float,
    preventive_weight: float,
    lesson_weight: float,
    recovery_weight: float,
    clip: float,
) -> Any:
    """Per-token advantages of PivotOPD.

    Rollout tokens: w·A_RL + w_prev·D on pivotal turns + w_traj·D under the lesson, unclipped.
    Recovery tokens: w_rec·clip(D, ±δ) and nothing else.

    Args:
        batch: tokens `[rows, length]`.
        views: "plain", "hinted" and, if used, "lesson" log-probs in nats, `[rows, length]`.
        reward_weight, preventive_weight, lesson_weight, recovery_weight: the four weights.
        clip: δ, nats.

    Returns:
        `[rows, length]` float32.
    """
    plain, hinted = views[PLAIN], views.get("hinted", views[PLAIN])
    lesson = views.get("lesson", plain)
    preventive = preventive_advantages(hinted, plain, weight=preventive_weight)
    rollout = (
        reward_weight * batch.reward_advantages
        + jnp.where(batch.pivotal, preventive, 0.0)
        + preventive_advantages(lesson, plain, weight=lesson_weight)
    )
    recovery = recovery_advantages(hinted, plain, weight=recovery_weight, clip=clip)
    return jnp.where(batch.mask, jnp.where(batch.recovery, recovery, rollout), 0.0)


@dataclass(frozen=True)
class RecoveryMode:
    """How recovery turns teach.

    Attributes:
        sampler: who speaks in them: the "hinted" self-teacher or the "plain" student.
        clipped: the advantage w·D is clipped to ±δ.
        exact: w·KL(hinted ‖ student) over the whole vocabulary takes the place of the advantage.
    """

    sampler: Literal["hinted", "plain"] = "hinted"
    clipped: bool = True
    exact: bool = False


RECOVERY_MODES: Mapping[str, RecoveryMode] = {
    "clipped_advantage": RecoveryMode(),
    "exact_forward_kl": RecoveryMode(exact=True),
    "reverse_kl": RecoveryMode(sampler="plain", clipped=False),
}
"""`knobs.recovery_mode`: the paper's, the ideal objective that the paper's approximates, and the paper's ablation."""


def pivotopd(knobs: Any) -> Method:
    """Preventive signal at the pivotal turn, K recovery turns after it."""
    return Method(
        "pivotopd",
        shape=_shape(knobs),
        annotation=Annotation(max_actions=knobs.max_actions),
        views=_views(knobs, hinted=knobs.preventive_weight or knobs.recovery_weight),
        normalization=knobs.normalization,
        **_recovery(knobs),
    )


def preventive_only(knobs: Any) -> Method:
    """No recovery turns; the preventive weight is the paper's larger one."""
    return Method(
        "preventive_only",
        shape=_shape(knobs, preventive_weight=0.1),
        annotation=Annotation(max_actions=knobs.max_actions),
        views=_views(knobs, hinted=True),
        normalization=knobs.normalization,
    )


def recovery_only(knobs: Any) -> Method:
    """Recovery turns without the preventive signal."""
    return Method(
        "recovery_only",
        shape=_shape(knobs, preventive_weight=0.0, lesson_weight=0.0),
        annotation=Annotation(max_actions=knobs.max_actions),
        views=("hinted",),
        normalization=knobs.normalization,
        **_recovery(knobs),
    )


def opsd(knobs: Any) -> Method:
    """Self-distillation at every turn, hinted with the gold action there, without a reward (arXiv 2601.18734)."""
    return Method(
        "opsd",
        shape=_shape(knobs, reward_weight=0.0, preventive_weight=1.0, lesson_weight=0.0),
        annotation=Annotation(turns="every"),
        views=("hinted",),
        normalization=knobs.normalization,
    )


def grpo(knobs: Any) -> Method:
    """Group-relative advantages only (arXiv 2402.03300)."""
    return Method("grpo", shape=lambda batch, views: batch.reward_advantages, normalization=knobs.normalization)


def _views(knobs: Any, *, hinted: Any) -> tuple[View, ...]:
    """The views that count for something; the others need not be scored."""
    return (*(("hinted",) if hinted else ()), *(("lesson",) if knobs.lesson_weight else ()))


def _recovery_mode(knobs: Any) -> RecoveryMode:
    if knobs.recovery_mode not in RECOVERY_MODES:
        raise ValueError(
            f"config.knobs.recovery_mode is {knobs.recovery_mode!r}; choose one of {', '.join(RECOVERY_MODES)}"
        )
    return RECOVERY_MODES[knobs.recovery_mode]


def _recovery(knobs: Any) -> dict[str, Any]:
    """The stages of a method that recovery turns take part in."""
    mode = _recovery_mode(knobs)
    return {
        "extension": Recovery(knobs.recovery_depth, knobs.recovery_limit, mode.sampler),
        "divergence": Divergence(kl_divergence, knobs.recovery_weight, "recovery") if mode.exact else None,
    }


def _shape(knobs: Any, **fixed: float) -> Any:
    mode = _recovery_mode(knobs)
    weights = {
        "reward_weight": 1.0,
        "preventive_weight": knobs.preventive_weight,
        "lesson_weight": knobs.lesson_weight,
        "recovery_weight": 0.0 if mode.exact else knobs.recovery_weight,
        "clip": knobs.recovery_clip if mode.clipped else math.inf,
    }
    return partial(shape_pivotopd, **{**weights, **fixed})
