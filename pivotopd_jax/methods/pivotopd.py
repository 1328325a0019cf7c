"""PivotOPD (arXiv 2609.40285) and the points of the space that it contains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    return _pivotopd(knobs, knobs.recovery_mode)


def _pivotopd(knobs: Any, mode: str) -> Method:
    return Method(
        "pivotopd",
        shape=_shape(knobs, mode),
        annotation=_report(knobs),
        views=_views(knobs, hinted=knobs.preventive_weight or knobs.recovery_weight),
        normalization=knobs.normalization,
        **_recovery(knobs, mode),
    )


def preventive_only(knobs: Any) -> Method:
    """No recovery turns; the preventive weight is the paper's larger one."""
    return Method(
        "preventive_only",
        shape=_shape(knobs, knobs.recovery_mode, preventive_weight=0.1),
        annotation=_report(knobs),
        views=_views(knobs, hinted=True),
        normalization=knobs.normalization,
    )


def recovery_only(knobs: Any) -> Method:
    """Recovery turns without the preventive signal."""
    return Method(
        "recovery_only",
        shape=_shape(knobs, knobs.recovery_mode, preventive_weight=0.0, lesson_weight=0.0),
        annotation=Annotation(max_actions=knobs.max_actions),
        views=("hinted",),
        normalization=knobs.normalization,
        **_recovery(knobs, knobs.recovery_mode),
    )


def random_turns(knobs: Any) -> Method:
    """PivotOPD with as many hints at turns drawn at random, in place of those that the teacher names."""
    return replace(pivotopd(knobs), name="random_turns", annotation=replace(_report(knobs), turns="random"))


def self_distillation(knobs: Any) -> Method:
    """PivotOPD whose teacher is the student itself, as it was at the start of the step."""
    return replace(pivotopd(knobs), name="self_distillation", teacher="student")


def hints_without_gold(knobs: Any) -> Method:
    """PivotOPD with a generic reflection in the place of the gold and recovery actions."""
    method = pivotopd(knobs)
    assert method.extension
    return replace(
        method,
        name="hints_without_gold",
        annotation=replace(_report(knobs), hint="reflection"),
        extension=replace(method.extension, hint="reflection"),
    )


def reverse_kl_recovery(knobs: Any) -> Method:
    """PivotOPD whose recovery turns are the student's own, scored under the hint."""
    return replace(_pivotopd(knobs, "reverse_kl"), name="reverse_kl_recovery")


def exact_recovery(knobs: Any) -> Method:
    """PivotOPD with the forward KL that the recovery advantage approximates, over the whole vocabulary."""
    return replace(_pivotopd(knobs, "exact_forward_kl"), name="exact_recovery")


def _report(knobs: Any) -> Annotation:
    """What the teacher is asked for; lessons only if they count for something."""
    return Annotation(max_actions=knobs.max_actions, lessons="report" if knobs.lesson_weight else None)


def _views(knobs: Any, *, hinted: Any) -> tuple[View, ...]:
    """The views that count for something; the others need not be scored."""
    return (*(("hinted",) if hinted else ()), *(("lesson",) if knobs.lesson_weight else ()))


def _mode(name: str) -> RecoveryMode:
    if name not in RECOVERY_MODES:
        raise ValueError(f"config.knobs.recovery_mode is {name!r}; choose one of {', '.join(RECOVERY_MODES)}")
    return RECOVERY_MODES[name]


def _recovery(knobs: Any, mode: str) -> dict[str, Any]:
    """The stages of a method that recovery turns take part in."""
    exact = _mode(mode).exact
    return {
        "extension": Recovery(knobs.recovery_depth, knobs.recovery_limit, _mode(mode).sampler),
        "divergence": Divergence(kl_divergence, knobs.recovery_weight, ("recovery",)) if exact else None,
    }


def _shape(knobs: Any, mode: str, **fixed: float) -> Any:
    weights = {
        "reward_weight": knobs.reward_weight,
        "preventive_weight": knobs.preventive_weight,
        "lesson_weight": knobs.lesson_weight,
        "recovery_weight": 0.0 if _mode(mode).exact else knobs.recovery_weight,
        "clip": knobs.recovery_clip if _mode(mode).clipped else math.inf,
    }
    return partial(shape_pivotopd, **{**weights, **fixed})
