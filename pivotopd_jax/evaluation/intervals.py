"""Bootstrap intervals over whole units (trajectories, games, mistakes), and how they are written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Statistic = Callable[..., Any]
"""(values `[..., n]`, axis) → `[...]`: `numpy.mean`, `numpy.median`, ..."""


def bootstrap_interval(
    values: Any, *, statistic: Statistic = np.mean, draws: int = 4000, seed: int = 0
) -> tuple[float, float]:
    """95% percentile interval of a statistic of `values [n]`, whole entries resampled.

    Args:
        values: one a unit.
        statistic: of all units.
        draws, seed: arXiv 2609.40285 has 4,000 and 0.
    """
    drawn = np.random.default_rng(seed).integers(0, len(values), (draws, len(values)))
    low, high = np.percentile(statistic(np.asarray(values, np.float64)[drawn], axis=1), [2.5, 97.5])
    return float(low), float(high)


@dataclass(frozen=True)
class Estimate:
    """A statistic of some units.

    Attributes:
        value: of all of them.
        low, high: 95% bootstrap interval.
        units: how many there are.
    """

    value: float
    low: float
    high: float
    units: int


def estimate(values: Any, *, statistic: Statistic = np.mean) -> Estimate | None:
    """A statistic of `values [n]` with its interval; None if there are none."""
    values = np.asarray(values, np.float64)
    if not values.size:
        return None
    return Estimate(float(statistic(values, axis=0)), *bootstrap_interval(values, statistic=statistic), len(values))


def interval_text(found: Estimate | None, *, scale: float = 1.0, digits: int = 1, signed: bool = False) -> str:
    """An estimate as "value [low, high]", each times `scale`; a dash for None."""
    if found is None:
        return "–"
    value, low, high = scale * found.value, scale * found.low, scale * found.high
    return f"{value:{'+' if signed else ''}.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def percent_text(found: Estimate | None, *, signed: bool = False) -> str:
    """A share as percent, "value [low, high]"; a dash for None."""
    return interval_text(found, scale=100, signed=signed)


def seeds_text(shares: Sequence[float]) -> str:
    """The share of each training seed in percent, " (68.2 66.6 68.6)"; nothing for a single one."""
    return f" ({' '.join(f'{100 * share:.1f}' for share in shares)})" if len(shares) > 1 else ""
