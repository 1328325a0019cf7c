"""Methods whose teacher is the frozen student itself in a privileged context.

It is shown skills, a demonstration, hindsight, or a gold action.

D is log(privileged) − log(plain) of each of the student's own tokens, in nats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp

from pivotopd_jax.losses.credit import (
    agentopsd_advantages,
    equalise_turns,
    rlsd_advantages,
    sdar_token_loss,
    skill_sd_penalty,
    stepopsd_advantages,
    turn_means,
    turn_sums,
)
from pivotopd_jax.methods.grpo import grpo
from pivotopd_jax.methods.method import Annotation, Behaviour, Method, Penalty
from pivotopd_jax.methods.shaping import log_ratio, turns_of
from pivotopd_jax.records import TokenBatch, View


def shape_added(
    batch: TokenBatch, views: Mapping[View, Any], *, view: View, reward_weight: float, weight: float
) -> Any:
    """w_reward A + w D; `[rows, length]` float32."""
    return reward_weight * batch.reward_advantages + weight * log_ratio(batch, views, view)


def shape_rlsd(batch: TokenBatch, views: Mapping[View, Any], *, view: View, mix: float, clip: float) -> Any:
    """A scaled by the teacher's opinion of each token; `[rows, length]` float32, see `rlsd_advantages`."""
    return rlsd_advantages(batch.reward_advantages, log_ratio(batch, views, view), mix=mix, clip=clip)


def shape_stepopsd(batch: TokenBatch, views: Mapping[View, Any], *, view: View, mix: float, clip: float) -> Any:
    """Weighed by the teacher's opinion, every turn as large as before; `[rows, length]` float32."""
    advantages = jnp.asarray(batch.reward_advantages)
    shaped = stepopsd_advantages(advantages, log_ratio(batch, views, view), mix=mix, clip=clip)
    return equalise_turns(shaped, advantages, **turns_of(batch))


def shape_agentopsd(
    batch: TokenBatch, views: Mapping[View, Any], *, view: View, prior: float, scale: float, mix: float
) -> Any:
    """One advantage a turn, from what the turn adds to the belief in success; `[rows, length]` float32."""
    where = turns_of(batch)
    belief = turn_sums(log_ratio(batch, views, view), **where)
    played = turn_sums(jnp.ones(batch.mask.shape), **where) > 0
    advantages = turn_means(jnp.asarray(batch.reward_advantages), **where)
    # All turns of a trajectory have the same A; those that the student did not play hold 0.
    own = jnp.sum(advantages, axis=1) / jnp.maximum(played.sum(axis=1), 1)
    shaped = agentopsd_advantages(own, belief, prior=prior, scale=scale, mix=mix, mask=played)
    return jnp.where(batch.mask, shaped[batch.trajectory, batch.turn], 0.0)


def opsd(knobs: Any) -> Method:
    """Sampled reverse KL to the privileged self at every turn, without a reward (arXiv 2601.18734)."""
    return _self_taught(knobs, "opsd", partial(shape_added, reward_weight=0.0, weight=1.0))


def rlsd(knobs: Any) -> Method:
    """The reward gives an advantage its sign, the privileged self its size, less so every step (arXiv 2604.03128)."""
    method = _self_taught(knobs, "rlsd", partial(shape_rlsd, clip=0.2))
    return replace(method, schedule=lambda step, steps: {"mix": 0.5 * (1 - step / steps)})


def sdar(knobs: Any) -> Method:
    """GRPO and a gated log-ratio to the privileged self (arXiv 2605.15155)."""
    return _penalised(knobs, "sdar", partial(_gated, gate=5.0), 0.01)


def skill_sd(knobs: Any) -> Method:
    """GRPO and an importance-weighted k3 to the privileged self (arXiv 2604.10674)."""
    return _penalised(knobs, "skill_sd", _weighted_k3, 0.001)


def _gated(student: Any, frozen: Any, teacher: Any, *, gate: float) -> Any:
    del frozen
    return sdar_token_loss(student, teacher, gate=gate)


def _weighted_k3(student: Any, frozen: Any, teacher: Any) -> Any:
    """ρ · k3, both with their gradients: together they have that of the expected k3 under the student."""
    return jnp.exp(student - frozen) * skill_sd_penalty(student, teacher)


def skill_grpo(knobs: Any) -> Method:
    """GRPO with skills in the training prompts; none are shown when it is evaluated."""
    return replace(grpo(knobs), name="skill_grpo", behaviour=Behaviour(skills=knobs.skills))


def stepopsd(knobs: Any) -> Method:
    """Tokens weighed by the self that has seen the group's first success (arXiv 2605.27140)."""
    return Method(
        "stepopsd",
        shape=partial(shape_stepopsd, view="lesson", clip=0.05),
        annotation=Annotation(turns="none", lessons="success"),
        views=("lesson",),
        normalization=knobs.normalization,
        schedule=lambda step, steps: {"mix": max(0.0, 1 - step / 50)},
    )


def agentopsd(knobs: Any) -> Method:
    """Turns weighed by what they add to the privileged self's belief in success (arXiv 2608.05987)."""
    return _self_taught(knobs, "agentopsd", partial(shape_agentopsd, prior=knobs.prior, scale=0.2, mix=0.5))


def opid(knobs: Any) -> Method:
    """Reward and a little of the self that has read the teacher's hindsight, by turn or episode (arXiv 2606.26790)."""
    return Method(
        "opid",
        shape=partial(shape_added, view="lesson", reward_weight=1.0, weight=0.001),
        annotation=Annotation(max_actions=knobs.max_actions, lessons="report"),
        views=("lesson",),
        normalization="mean",
    )


def _self_taught(knobs: Any, name: str, shape: Any) -> Method:
    """A method whose self-teacher is shown what `knobs.privileged` says."""
    annotation, view = _privileged(knobs)
    return Method(
        name,
        shape=partial(shape, view=view),
        annotation=annotation,
        views=(view,),
        normalization=knobs.normalization,
    )


def _penalised(knobs: Any, name: str, function: Any, weight: float) -> Method:
    annotation, view = _privileged(knobs)
    return replace(
        grpo(knobs), name=name, annotation=annotation, views=(view,), penalty=Penalty(function, weight, view)
    )


def _privileged(knobs: Any) -> tuple[Annotation, View]:
    """What the self-teacher is shown at every turn.

    Raises:
        ValueError: `knobs.privileged` is neither "skills" nor "gold_action".
    """
    if knobs.privileged == "skills":
        return Annotation(turns="none", lessons="skills", skills=knobs.skills), "lesson"
    if knobs.privileged == "gold_action":
        return Annotation(turns="every"), "hinted"
    raise ValueError(f"config.knobs.privileged is {knobs.privileged!r}; expected 'skills' or 'gold_action'")
