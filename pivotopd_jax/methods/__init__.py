"""Methods by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pivotopd_jax.methods.distillation import gkd, opd, sod, tcod_backward, tcod_forward
from pivotopd_jax.methods.grpo import dapo, dr_grpo, gigpo, grpo
from pivotopd_jax.methods.imitation import aggrevate, dagger, sft
from pivotopd_jax.methods.method import Method
from pivotopd_jax.methods.pivotopd import (
    exact_recovery,
    hints_without_gold,
    opsd,
    pivotopd,
    preventive_only,
    random_turns,
    recovery_only,
    reverse_kl_recovery,
)

METHODS: Mapping[str, Callable[[Any], Method]] = {
    method.__name__: method
    for method in (
        sft, dagger, aggrevate,
        grpo, dapo, dr_grpo, gigpo,
        opd, gkd, sod, tcod_forward, tcod_backward,
        opsd,
        pivotopd, preventive_only, recovery_only, random_turns, hints_without_gold, reverse_kl_recovery, exact_recovery,
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
