"""What a run ends with: a table before and after, seconds a stage, and a learning curve."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pivotopd_jax.evaluation.evaluate import Evaluation, panel
from pivotopd_jax.evaluation.intervals import bootstrap_interval
from pivotopd_jax.evaluation.mistakes import find_mistakes
from pivotopd_jax.evaluation.recovery import recoveries
from pivotopd_jax.processes import is_first, place_of
from pivotopd_jax.recording import SUMMARY_FILE, read_metrics, write_trajectories
from pivotopd_jax.records import Trajectory
from pivotopd_jax.run import Run
from pivotopd_jax.train import evaluate_run
from pivotopd_jax.trajectory_records import trajectory_records
from pivotopd_jax.viewing.report import write_report

LONG_NAMES = {"success": "success on held-out games", "recovery": "recovery from oracle-pivotal mistakes"}


def summarise_run(run: Run, params: Any, directory: Path) -> dict[str, Any]:
    """Judges the base and the trained student on the closing panel; the first process prints and writes the result.

    The recovery rate is over frozen oracle-pivotal mistakes of the base: how many of `config.evaluate.continuations`
    continuations of each succeed within what is left of the turn limit.

    Returns:
        What is written to summary.json.
    """
    console = Console(highlight=False, quiet=not is_first())
    played: list[Sequence[Trajectory]] = []
    with console.status("closing evaluation"):
        result = judge(run, {"before": run.reference, "after": params}, played.append)
    if not is_first():
        return result
    for steps, trajectories in zip((0, run.config.steps), played, strict=True):
        write_trajectories(directory, "closing", steps, trajectory_records(run, trajectories))
    result |= {"seconds": totals(directory, "seconds"), "compile": totals(directory, "compile")}
    result |= {"world": run.world.name, "method": run.method.name}
    (directory / SUMMARY_FILE).write_text(json.dumps(result, indent=1))
    draw_curve(directory)
    written = write_report(directory)
    console.print(table(result))
    console.print(f"the report is {written}; python launch/view.py {directory} opens the trajectories", soft_wrap=True)
    return result


def judge(
    run: Run, students: dict[str, Any], on_played: Callable[[Sequence[Trajectory]], None] = lambda _: None
) -> dict[str, Any]:
    """Success on the closing panel and recovery from the first student's mistakes, for each of `students`.

    Tasks and mistakes are divided among all processes; the result is the same in each. `on_played` is told what each
    student played on the panel in this process.
    """
    config = run.config
    tasks = panel(run.world, config.world.eval_splits, config.evaluate.final_tasks)
    result: dict[str, Any] = {"tasks": len(tasks)}
    units: list[dict[str, np.ndarray]] = []
    mistakes = None
    for name, params in students.items():
        evaluation = evaluate_run(run, params, tasks, config.eval_temperature)
        on_played(evaluation.trajectories)
        if mistakes is None:
            mistakes = find_mistakes(
                run.world.planner, evaluation.trajectories, max_turns=config.max_turns,
                limit=config.evaluate.mistakes, seed=0,
            )  # fmt: skip
            _, result["mistakes"] = place_of(len(mistakes))
        recovered = recoveries(run, mistakes)
        result[name] = _numbers(evaluation, recovered.mean(axis=1))
        won = np.asarray(evaluation.won, np.float64)
        units.append({"success": won, "recovery": recovered.mean(axis=1)})
    result["change"] = {key: _change(units[-1][key] - units[0][key]) for key in units[0]}
    return result


def _change(differences: np.ndarray) -> dict[str, Any] | None:
    """Mean and 95% interval of paired differences, one a game or mistake; None without any."""
    if not differences.size:
        return None
    return {"mean": float(differences.mean()), "interval": bootstrap_interval(differences)}


def _numbers(evaluation: Evaluation, recovered: Any) -> dict[str, Any]:
    return {
        "success": evaluation.success,
        "success_interval": bootstrap_interval(evaluation.won),
        "score": evaluation.score,
        "by_kind": evaluation.by_kind,
        "mean_over_kinds": evaluation.mean_over_kinds,
        "rejected": evaluation.rejected,
        "recovery": float(recovered.mean()) if len(recovered) else None,
        "recovery_interval": bootstrap_interval(recovered) if len(recovered) else None,
    }


def totals(directory: Path, group: str) -> dict[str, float]:
    """The metrics of one group ("seconds" of each stage, "compile"), added up over all steps of a run."""
    found: dict[str, float] = {}
    for line in read_metrics(directory):
        for name, value in line.items():
            if name.startswith(f"{group}/"):
                key = name.removeprefix(f"{group}/")
                found[key] = found.get(key, 0.0) + value
    return found


def table(result: dict[str, Any]) -> Table:
    """The closing table."""
    view = Table(title=f"{result['method']} on {result['world']}, {result['tasks']} held-out games")
    for column in ("", "before", "after", "change, paired"):
        view.add_column(column, justify="left" if not column else "right")
    for key, title in LONG_NAMES.items():
        view.add_row(
            title, *(_percent(result[name], key) for name in ("before", "after")), _points(result["change"][key])
        )
    if any(result[name]["score"] != result[name]["success"] for name in ("before", "after")):
        view.add_row("score × 100", *(f"{100 * result[name]['score']:.1f}" for name in ("before", "after")))
    for kind in result["before"]["by_kind"]:
        view.add_row(f"  {kind}", *(f"{100 * result[name]['by_kind'][kind]:.1f}%" for name in ("before", "after")))
    view.add_row("actions that did nothing", *(f"{100 * result[n]['rejected']:.1f}%" for n in ("before", "after")))
    view.add_section()
    for stage, seconds in result["seconds"].items():
        view.add_row(f"seconds: {stage}", "", f"{seconds:.1f}")
    for name, value in result["compile"].items():
        view.add_row(f"compile: {name}", "", f"{value:.1f}" if name == "seconds" else f"{value:.0f}")
    return view


def _points(change: dict[str, Any] | None) -> str:
    if change is None:
        return ""
    low, high = change["interval"]
    return f"{100 * change['mean']:+.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def _percent(numbers: dict[str, Any], key: str) -> str:
    if numbers[key] is None:
        return "no mistake to recover from"
    low, high = numbers[f"{key}_interval"]
    return f"{100 * numbers[key]:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


def draw_curve(directory: Path) -> Path:
    """Draws curve.png: success in training and on the validation panel, over steps."""
    # Takes half a second to import, and is needed once at the end.
    from matplotlib.figure import Figure

    lines = read_metrics(directory)
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, label in (("train/success", "training rollouts, temperature 1"), ("eval/success", "validation panel")):
        points = [(line["step"], line[name]) for line in lines if name in line]
        axes.plot(*zip(*points, strict=True), marker="o" if name.startswith("eval") else None, label=label)
    axes.set(xlabel="step", ylabel="share of games won", ylim=(0, 1))
    axes.legend(frameon=False)
    path = directory / "curve.png"
    figure.savefig(path, dpi=120)
    return path
