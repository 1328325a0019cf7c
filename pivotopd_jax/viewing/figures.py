"""The curves of a run as SVG that takes its colours from the page, light or dark."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pivotopd_jax.viewing.excerpt import HIDDEN

LONGEST_LABEL = 24
# Drawn in these colours, which the page replaces by its own, light or dark.
INK, GRID = "#010101", "#020202"
SERIES = tuple(f"#0{i}0{i}0{i}" for i in range(3, 10))
VARIABLES = {INK: "ink", GRID: "line", **{colour: f"series-{i}" for i, colour in enumerate(SERIES, 1)}}
STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "report", "text.parse_math": False, "font.size": 9,
    "font.family": "sans-serif",
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": GRID, "xtick.color": INK, "ytick.color": INK,
    "grid.color": GRID, "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "lines.linewidth": 1.8, "lines.markersize": 4,
}  # fmt: skip
Lines = Sequence[Mapping[str, float]]
"""What metrics.jsonl holds."""


def figures(lines: Lines) -> list[str]:
    """The curves of a run; those without any point are left out."""
    wanted: list[tuple[str, Callable[[Axes, Lines], None]]] = [
        ("Success", _success),
        ("Success on the validation panel, by type", _kinds),
        ("Pivotal turns and recoveries, of each step", _recoveries),
        ("Recoveries that followed the teacher's action", _followed),
        ("Answers of the teacher, of each step", _answers),
        ("KL to the student before training", _metric("update/kl_reference", "nats a token")),
        ("Norm of the gradient", _metric("update/grad_norm", "before clipping")),
        ("Greatest difference between the log-probs of sampler and learner", _metric("drift/most", "nats")),
        ("Entropy estimate", _metric("update/entropy_estimate", "nats a token")),
        ("Seconds of each stage", _seconds),
    ]
    return [figure for title, draw in wanted if (figure := _figure(title, draw, lines))]


def _figure(title: str, draw: Callable[[Axes, Lines], None], lines: Lines) -> str:
    with rc_context(STYLE):
        figure = Figure(figsize=(5.2, 2.9), layout="constrained")
        axes = figure.add_subplot()
        draw(axes, lines)
        if not axes.has_data():
            return ""
        axes.set_xlabel("step")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, ncols=2)
        file = io.StringIO()
        unsaid = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=unsaid)
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    return f"<figure><figcaption>{html.escape(title)}</figcaption>{svg}</figure>"


def _label(name: str) -> str:
    """A name as it fits into a legend."""
    return HIDDEN.sub("\ufffd", name)[:LONGEST_LABEL]


def _points(axes: Axes, lines: Lines, name: str, label: str | None, **style: Any) -> None:
    points = [(line["step"], line[name]) for line in lines if name in line]
    if points:
        axes.plot(*zip(*points, strict=True), label=label and _label(label), **style)


def _success(axes: Axes, lines: Lines) -> None:
    _points(axes, lines, "train/success", "training rollouts", color=SERIES[1])
    _points(axes, lines, "eval/success", "validation panel", color=SERIES[0], marker="o")
    axes.set(ylim=(0, 1), ylabel="share won")


def _kinds(axes: Axes, lines: Lines) -> None:
    kinds = dict.fromkeys(name for line in lines for name in line if name.startswith("eval/success_"))
    for i, name in enumerate(kinds):
        _points(axes, lines, name, name.removeprefix("eval/success_"), color=SERIES[i % len(SERIES)], marker="o")
    axes.set(ylim=(0, 1), ylabel="share won")


def _recoveries(axes: Axes, lines: Lines) -> None:
    _points(axes, lines, "train/pivotal_turns", "pivotal turns", color=SERIES[2])
    _points(axes, lines, "recovery/rows", "recovery rows", color=SERIES[3])
    axes.set_ylim(bottom=0)


def _followed(axes: Axes, lines: Lines) -> None:
    shares = [
        {"step": line["step"], "share": line.get("recovery/followed", 0.0) / line["recovery/rows"]}
        for line in lines
        if line.get("recovery/rows")
    ]
    _points(axes, shares, "share", None, color=SERIES[3])
    axes.set(ylim=(0, 1.02), ylabel="share of rows")


def _answers(axes: Axes, lines: Lines) -> None:
    names = dict.fromkeys(name for line in lines for name in line if name.startswith("teacher/"))
    for i, name in enumerate(names):
        _points(axes, lines, name, name.removeprefix("teacher/"), color=SERIES[i % len(SERIES)])


def _metric(name: str, unit: str) -> Callable[[Axes, Lines], None]:
    def draw(axes: Axes, lines: Lines) -> None:
        _points(axes, lines, name, None, color=SERIES[0])
        axes.set_ylabel(unit)

    return draw


def _seconds(axes: Axes, lines: Lines) -> None:
    names = list(dict.fromkeys(name for line in lines for name in line if name.startswith("seconds/")))
    if not names:
        return
    values = [[line.get(name, 0.0) for line in lines] for name in names]
    colours = [SERIES[i % len(SERIES)] for i in range(len(names))]
    labels = [_label(name.removeprefix("seconds/")) for name in names]
    axes.stackplot(
        [line["step"] for line in lines], values, labels=labels, colors=colours,
        step="mid" if len(lines) > 1 else None,
    )  # fmt: skip
    axes.set(ylabel="seconds", ylim=(0, None))
