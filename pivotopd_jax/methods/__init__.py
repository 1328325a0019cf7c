"""Methods by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pivotopd_jax.methods.distillation import gkd, opd, sod, tcod_backward, tcod_forward, turnopd
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
        opd, gkd, sod, turnopd, tcod_forward, tcod_backward,
        opsd, rlsd, sdar, skill_grpo, skill_sd, stepopsd, agentopsd, opid,
        pivotopd, preventive_only, recovery_only, random_turns, hints_without_gold, reverse_kl_recovery, exact_recovery,
        self_distillation,
    )
}  # fmt: skip


def make_method(name: str, knobs: Any) -> Method:
    """The method `name` with its knobs set.

    Raises:
        ValueError: there is no such method; names those that exist.
    """
    if name not in METHODS:
        raise ValueError(f"method {name!r} is not known; choose one of {', '.join(METHODS)}")
    return METHODS[name](knobs)
