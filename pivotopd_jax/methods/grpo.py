"""Group-relative policy optimisation and its variants: the outcome is the only signal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pivotopd_jax.methods.method import Behaviour, Method, Pivots, StepAdvantage


def grpo(knobs: Any) -> Method:
    """Group-relative advantages only (arXiv 2402.03300)."""
    return Method("grpo", shape=lambda batch, views: batch.reward_advantages, normalization=knobs.normalization)


def dapo(knobs: Any) -> Method:
    """GRPO with a higher upper clip, without the groups whose rollouts all score the same (arXiv 2503.14476)."""
    return replace(grpo(knobs), name="dapo", update={"clip_low": 0.2, "clip_high": 0.28}, uniform_groups=False)


def dr_grpo(knobs: Any) -> Method:
    """GRPO without the division by the deviation and by the length of a response (arXiv 2503.20783)."""
    return replace(grpo(knobs), name="dr_grpo", normalization="mean", aggregation="constant")


def gigpo(knobs: Any) -> Method:
    """GRPO plus an advantage of each step among the group's steps from the same observation (arXiv 2505.10978)."""
    return replace(grpo(knobs), name="gigpo", step_advantage=StepAdvantage(knobs.step_weight, knobs.discount))


def pivotrl(knobs: Any) -> Method:
    """GRPO on single turns of offline episodes that the student does not yet get right (arXiv 2603.21383)."""
    pivots = Pivots(knobs.pivot_rollouts, knobs.pivot_least, knobs.pivot_most)
    return replace(grpo(knobs), name="pivotrl", behaviour=Behaviour(pivots=pivots))
