"""Configurations side by side: a table and figures of what `cells.run_cells` measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pivotopd_jax.evaluation.cells import BASE, Arm, arm_of
from pivotopd_jax.evaluation.intervals import bootstrap_interval, estimate, percent_text, seeds_text


def measures(cells: Mapping[str, Any], method: str) -> dict[str, np.ndarray]:
    """Per measure `[training seeds, units]`: units are games (success) or mistakes (recovery), averaged over plays."""
    own = _cells_of(cells, method)
    temperatures = own[0]["success"]
    found = {f"success, T {t}": np.stack([np.mean(cell["success"][t], axis=0) for cell in own]) for t in temperatures}
    found["recovery"] = np.stack([[float(np.mean(plays)) for plays in cell["recovery"]] for cell in own])
    return found


def comparison_table(cells: Mapping[str, Any], methods: Sequence[str]) -> str:
    """A Markdown table: each method, then the first one's lead over each other; 95% bootstrap intervals over units.

    Success and recovery in percent, with every training seed's own mean in brackets; tokens trained and seconds of
    training are means over seeds.
    """
    names = list(measures(cells, BASE))
    lines = ["| | " + " | ".join([*names, "tokens", "seconds"]) + " |", "|---" * (len(names) + 3) + "|"]
    for method in (BASE, *methods):
        texts = [_cell_text(measures(cells, method)[n]) for n in names]
        lines.append(f"| {method} | " + " | ".join([*texts, *_cost_texts(_cells_of(cells, method))]) + " |")
    for other in methods[1:]:
        left, right = measures(cells, methods[0]), measures(cells, other)
        paired = [percent_text(estimate(left[n].mean(axis=0) - right[n].mean(axis=0)), signed=True) for n in names]
        lines.append(f"| **{methods[0]} − {other}**, paired | " + " | ".join([*paired, "", ""]) + " |")
    return "\n".join(lines)


def draw_comparison(cells: Mapping[str, Any], methods: Sequence[str], path: Path) -> None:
    """A figure of every measure by method, with the intervals of `comparison_table` and a dot for each seed."""
    shown = [BASE, *methods]
    names = list(measures(cells, BASE))
    figure = Figure(figsize=(3.2 * len(names), 1 + 0.35 * len(shown)))
    axes = figure.subplots(1, len(names), sharey=True)
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        for place, method in enumerate(reversed(shown)):
            values = 100 * measures(cells, method)[name]
            if not values.size:
                continue
            low, high = bootstrap_interval(values.mean(axis=0))
            axis.plot([low, high], [place, place], color="0.6", linewidth=2)
            axis.plot(values.mean(axis=1), [place] * len(values), "o", color="tab:blue", markersize=3)
            axis.plot(values.mean(), place, "|", color="black", markersize=12)
        axis.set_title(f"{name} (%)", fontsize=9)
        axis.set_yticks(range(len(shown)), list(reversed(shown)))
        axis.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def _cells_of(cells: Mapping[str, Any], method: str) -> list[Any]:
    return [cell for name, cell in cells.items() if arm_of(name) == method]


def _cost_texts(own: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{np.mean([cell[key] for cell in own]):,.0f}" if all(key in cell for cell in own) else "–"
        for key in ("tokens", "seconds")
    ]


def draw_curves(cells: Mapping[str, Any], arms: Sequence[Arm], axis: str, path: Path) -> None:
    """A figure of every measure over the axis of a sweep, one curve a line of `arms`, and the base as a level.

    The intervals are those of `comparison_table`.
    """
    names = [name for name, values in measures(cells, BASE).items() if values.size]
    figure = Figure(figsize=(3.6 * len(names), 3.2), layout="constrained")
    for panel, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
        panel.axhline(100 * measures(cells, BASE)[name].mean(), color="0.6", linestyle=":", label=BASE)
        for line in dict.fromkeys(arm.line for arm in arms):
            own = [arm for arm in arms if arm.line == line]
            values = [measures(cells, arm.name)[name].mean(axis=0) for arm in own]
            means = np.asarray([100 * v.mean() for v in values])
            bounds = 100 * np.asarray([bootstrap_interval(v) for v in values])
            panel.errorbar(
                [arm.x for arm in own], means, [means - bounds[:, 0], bounds[:, 1] - means],
                marker="o", markersize=3, capsize=2, label=line,
            )  # fmt: skip
        panel.set(title=f"{name} (%)", xlabel=axis)
        panel.grid(alpha=0.3)
        panel.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def _cell_text(values: np.ndarray) -> str:
    if not values.size:
        return "no mistakes"
    return percent_text(estimate(values.mean(axis=0))) + seeds_text(values.mean(axis=1))
