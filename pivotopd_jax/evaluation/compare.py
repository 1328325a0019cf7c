"""Methods side by side from one base: same tasks, steps and seeds; judged on one panel and one set of mistakes.

Every cell is a directory. A finished one is kept, so that an interrupted comparison goes on where it stopped. The last
checkpoint is judged, whatever the curve looked like.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from pivotopd_jax.evaluation.evaluate import panel
from pivotopd_jax.evaluation.recovery import (
    Mistake,
    bootstrap_interval,
    find_mistakes,
    mistake_record,
    recoveries,
    replayed_mistake,
)
from pivotopd_jax.files import write_json
from pivotopd_jax.learner.checkpoints import ConfigurationChanged
from pivotopd_jax.recording import read_metrics
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.run import Run, configuration_differences, configuration_record, make_run
from pivotopd_jax.train import train

BASE = "base"
CELL_FILE = "cell.json"
MISTAKES_FILE = "mistakes.json"
CONFIGURATION_FILE = "configuration.json"


@dataclass(frozen=True)
class Judging:
    """How every student is judged.

    Attributes:
        temperatures: of sampling.
        evaluation_seeds: times the panel is played at each temperature.
    """

    temperatures: tuple[float, ...] = (0.4, 1.0)
    evaluation_seeds: int = 4


def compare(
    config: Any,
    methods: Sequence[str],
    seeds: Sequence[int],
    directory: Path,
    judging: Judging,
    report: Callable,
) -> dict[str, Any]:
    """Trains and judges every missing cell; returns all cells by name ("base", "grpo-0", ...)."""
    cells: dict[str, Any] = {}
    mistakes = None
    _check_configuration(config, directory / CONFIGURATION_FILE)
    for method, seed in [(BASE, 0), *((m, s) for s in seeds for m in methods)]:
        name = BASE if method == BASE else f"{method}-{seed}"
        path = directory / name / CELL_FILE
        if not path.exists():
            report(f"cell {name}")
            cell_config = _cell_config(config, method, seed)
            if method == BASE:
                run = make_run(cell_config, directory / name)
                params = run.reference
            else:
                run, state = train(cell_config, directory / name)
                params = state.params
            if mistakes is None:
                mistakes = frozen_mistakes(run, directory / MISTAKES_FILE)
            write_json(path, judge(run, params, mistakes, judging))
        cells[name] = {**json.loads(path.read_text()), **cost(directory / name)}
    return cells


def cost(directory: Path) -> dict[str, float]:
    """What the training run in `directory` cost: "tokens" trained and "seconds" of all stages; nothing for a base."""
    lines = read_metrics(directory)
    if not lines:
        return {}
    seconds = sum(value for line in lines for name, value in line.items() if name.startswith("seconds/"))
    return {"tokens": sum(line["train/tokens"] for line in lines), "seconds": seconds}


def _check_configuration(config: Any, path: Path) -> None:
    """Refuses to go on in a directory whose finished cells were made with another configuration.

    Raises:
        ConfigurationChanged: they were; says what differs.
    """
    now = configuration_record(config)
    for varied in ("method", "seed", "log"):
        now.pop(varied)
    if not path.exists():
        write_json(path, now)
    then = json.loads(path.read_text())
    if changed := configuration_differences(then, now):
        raise ConfigurationChanged(
            f"the comparison in this workdir was made with another configuration ({changed}); choose another --workdir "
            "or the old configuration"
        )


def _cell_config(config: Any, method: str, seed: int) -> ConfigDict:
    cell = ConfigDict(config.to_dict())
    cell.seed = seed
    if method != BASE:
        cell.method = method
    return cell


def frozen_mistakes(run: Run, path: Path) -> list[Mistake]:
    """The mistakes that all students of a comparison continue: those in `path`, which is written first if missing.

    Sampled anew on another machine, or with another number of threads, they would not be quite the same.
    """
    if not path.exists():
        write_json(path, [mistake_record(mistake) for mistake in base_mistakes(run)])
    config = run.config
    tasks = {task.id: task for task in panel(run.world, config.world.eval_splits, config.evaluate.final_tasks)}
    return [replayed_mistake(run.world, run.prompter, tasks, record) for record in json.loads(path.read_text())]


def base_mistakes(run: Run) -> list[Mistake]:
    """Oracle-pivotal mistakes of the base: from as many plays of the panel as it takes to find enough."""
    config, seed = run.config, 0
    found: list[Mistake] = []
    tasks = panel(run.world, config.world.eval_splits, config.evaluate.final_tasks)
    run.load(run.reference)
    while len(found) < config.evaluate.mistakes and seed < 4:
        played = _play(run, tasks, config.eval_temperature, 1000 + seed)
        wanted = config.evaluate.mistakes - len(found)
        found += find_mistakes(run.world.planner, played, max_turns=config.max_turns, limit=wanted, seed=seed)
        seed += 1
    return found


def _play(run: Run, tasks: Sequence, temperature: float, seed: int) -> list:
    starts = fresh_starts(run.world, run.prompter, tasks, rollouts=1, max_turns=run.config.max_turns)
    return play(
        run.policy, starts, temperature=temperature, top_p=run.config.evaluate.top_p, seed=seed,
        concurrency=run.policy.slots, threads=run.config.sampler.env_threads,
    )  # fmt: skip


def judge(run: Run, params: Any, mistakes: Sequence[Mistake], judging: Judging) -> dict[str, Any]:
    """Success of every game at every temperature and seed, and of every continuation of every mistake.

    Returns:
        {"success": {temperature: [seeds][games]}, "recovery": [mistakes][continuations], "rejected": share at the
        first temperature}, numbers 0 or 1.
    """
    config = run.config
    tasks = panel(run.world, config.world.eval_splits, config.evaluate.final_tasks)
    run.load(params)
    success: dict[str, list] = {}
    rejected = []
    for temperature in judging.temperatures:
        for seed in range(judging.evaluation_seeds):
            played = _play(run, tasks, temperature, seed)
            success.setdefault(str(temperature), []).append([int(t.won) for t in played])
            rejected.append(np.mean([not turn.accepted for t in played for turn in t.turns]))
    recovered = recoveries(
        run.policy, run.world, run.prompter, mistakes, continuations=config.evaluate.continuations,
        temperature=config.eval_temperature, top_p=config.evaluate.top_p, seed=1, max_turns=config.max_turns,
        concurrency=run.policy.slots, threads=config.sampler.env_threads,
    )  # fmt: skip
    return {"success": success, "recovery": recovered.astype(int).tolist(), "rejected": float(rejected[0])}


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
        paired = [_interval_text(left[n].mean(axis=0) - right[n].mean(axis=0), signed=True) for n in names]
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
    return [cell for name, cell in cells.items() if name == method or name.rpartition("-")[0] == method]


def _cost_texts(own: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{np.mean([cell[key] for cell in own]):,.0f}" if all(key in cell for cell in own) else "–"
        for key in ("tokens", "seconds")
    ]


def _cell_text(values: np.ndarray) -> str:
    if not values.size:
        return "no mistakes"
    seeds = f" ({' '.join(f'{100 * v:.1f}' for v in values.mean(axis=1))})" if len(values) > 1 else ""
    return _interval_text(values.mean(axis=0)) + seeds


def _interval_text(values: np.ndarray, *, signed: bool = False) -> str:
    if not values.size:
        return "–"
    low, high = bootstrap_interval(values)
    return f"{100 * values.mean():{'+' if signed else ''}.1f} [{100 * low:.1f}, {100 * high:.1f}]"
