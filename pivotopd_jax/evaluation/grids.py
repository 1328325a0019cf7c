"""The sweeps of arXiv 2609.40285, as lists of configurations; `launch/sweep.py` runs one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pivotopd_jax.evaluation.cells import Arm


@dataclass(frozen=True)
class Grid:
    """A sweep.

    Attributes:
        arms: its configurations; the table compares the first one with each other.
        axis: what `Arm.x` is; empty for arms that lie on no axis.
    """

    arms: tuple[Arm, ...]
    axis: str = ""


ABLATIONS = (
    "pivotopd", "preventive_only", "recovery_only", "random_turns", "hints_without_gold", "reverse_kl_recovery",
    "exact_recovery", "self_distillation", "grpo",
)  # fmt: skip
DEPTHS = (1, 2, 3)
WEIGHT_FACTORS = (0.25, 1.0, 4.0)
ERROR_RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


def methods(names: Iterable[str]) -> tuple[Arm, ...]:
    """One arm a method, everything else being as configured."""
    return tuple(Arm(name, {"method": name}) for name in names)


def ablations(config: Any) -> Grid:
    """PivotOPD without one of its parts, or with another one in its place."""
    del config
    return Grid(methods(ABLATIONS))


def recovery(config: Any) -> Grid:
    """K recovery turns × their weight w_rec, which is a factor times the configured one; K = 0 knows no weight."""
    fixed = {"method": "pivotopd"}
    arms = [
        Arm(
            f"K{depth}_w{weight:g}",
            {**fixed, "knobs.recovery_depth": depth, "knobs.recovery_weight": weight},
            weight,
            f"K = {depth}",
        )
        for depth in DEPTHS
        for weight in (factor * config.knobs.recovery_weight for factor in WEIGHT_FACTORS)
    ]
    none = Arm("K0", {**fixed, "knobs.recovery_depth": 0, "knobs.recovery_weight": 0.0}, 0.0, "K = 0")
    return Grid((none, *arms), "recovery weight")


def teacher_errors(config: Any) -> Grid:
    """How wrong may a teacher be? The share of its named actions that are replaced by other candidates.

    Raises:
        ValueError: the teacher is none whose errors can be set.
    """
    if config.teacher.kind != "symbolic":
        raise ValueError(
            f"config.teacher.kind is {config.teacher.kind!r}; only a symbolic teacher can be made to err at a given "
            "rate: pass --config.teacher=symbolic"
        )
    arms = [
        Arm(f"error_{rate:g}", {"method": "pivotopd", "teacher.error_rate": rate}, 100 * rate, "pivotopd")
        for rate in ERROR_RATES
    ]
    return Grid(tuple(arms), "wrong actions of the teacher (%)")


GRIDS: Mapping[str, Callable[[Any], Grid]] = {
    "ablations": ablations,
    "recovery": recovery,
    "teacher_errors": teacher_errors,
}
