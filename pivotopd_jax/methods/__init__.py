"""Methods by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pivotopd_jax.methods.distillation import gkd, hinted_opd, opd, sod, tcod_backward, tcod_forward, turnopd
from pivotopd_jax.methods.grpo import dapo, dr_grpo, gigpo, grpo, pivotrl
from pivotopd_jax.methods.imitation import aggrevate, dagger, sft
from pivotopd_jax.methods.method import Method
from pivotopd_jax.methods.pivotopd import (
    exact_recovery,
    hints_without_gold,
    pivotopd,
    preventive_only,
    random_turns,
    recovery_only,
    reverse_kl_recovery,
    self_distillation,
)
from pivotopd_jax.methods.privileged import (
    agentopsd,
    opid,
    opsd,
    rlsd,
    sdar,
    skill_grpo,
    skill_sd,
    stepopsd,
)

METHODS: Mapping[str, Callable[[Any], Method]] = {
    method.__name__: method
    for method in (
        sft, dagger, aggrevate,
        grpo, dapo, dr_grpo, gigpo, pivotrl,
        opd, hinted_opd, gkd, sod, turnopd, tcod_forward, tcod_backward,
        opsd, rlsd, sdar, skill_grpo, skill_sd, stepopsd, agentopsd, opid,
        pivotopd, preventive_only, recovery_only, random_turns, hints_without_gold, reverse_kl_recovery, exact_recovery,
        self_distillation,
    )
}  # fmt: skip


LEAST = 1e-6
RANGES: Mapping[str, tuple[float, float]] = {
    "max_actions": (0, math.inf),
    "recovery_depth": (0, math.inf),
    "recovery_limit": (0, math.inf),
    "recovery_clip": (LEAST, math.inf),
    "student_share": (0, 1),
    "beta": (0, 1),
    "turn_cap": (LEAST, math.inf),
    "discount": (0, 1),
    "skills": (1, math.inf),
    "prior": (LEAST, 1 - LEAST),
    "pivot_rollouts": (2, math.inf),
    "pivot_least": (0, 1),
    "pivot_most": (0, 1),
}
"""Knob → its least and greatest value; outside of it a method would quietly become another one."""


def make_method(name: str, knobs: Any) -> Method:
    """The method `name` with its knobs set.

    Raises:
        ValueError: there is no such method, or a knob is out of range; says what was expected.
    """
    if name not in METHODS:
        raise ValueError(f"method {name!r} is not known; choose one of {', '.join(METHODS)}")
    for knob, (least, most) in RANGES.items():
        value = getattr(knobs, knob, None)
        if value is not None and not least <= value <= most:
            raise ValueError(f"config.knobs.{knob} is {value}; expected {least:g} to {most:g}")
    if (scale := getattr(knobs, "normalization", "mean")) not in ("mean", "mean_std"):
        raise ValueError(f"config.knobs.normalization is {scale!r}; expected 'mean' or 'mean_std'")
    return METHODS[name](knobs)
