"""Cells of a comparison: configurations trained from one base, judged on one panel and one set of mistakes.

Every cell is a directory. A finished one is kept, so that an interrupted comparison goes on where it stopped; with
other `Judging` it is judged anew, but not trained. The last checkpoint is judged, whatever the curve looked like.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from pivotopd_jax.evaluation.evaluate import panel
from pivotopd_jax.evaluation.mistakes import Mistake, frozen_mistakes
from pivotopd_jax.evaluation.recovery import recoveries
from pivotopd_jax.files import write_json
from pivotopd_jax.learner.checkpoints import ConfigurationChanged
from pivotopd_jax.recording import CONFIGURATION_FILE, read_metrics
from pivotopd_jax.run import Run, configuration_differences, configuration_record, make_run
from pivotopd_jax.train import evaluate_run, train

BASE = "base"
CELL_FILE = "cell.json"
MISTAKES_FILE = "mistakes.json"


@dataclass(frozen=True)
class Judging:
    """How every student is judged.

    Attributes:
        temperatures: of sampling.
        evaluation_seeds: times the panel is played at each temperature.
    """

    temperatures: tuple[float, ...] = (0.4, 1.0)
    evaluation_seeds: int = 4

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"temperatures": list(self.temperatures), "evaluation_seeds": self.evaluation_seeds}


@dataclass(frozen=True)
class Arm:
    """One configuration of a comparison.

    Attributes:
        name: of its cells, with a training seed behind it.
        changes: values by their keys in the configuration, "knobs.recovery_depth" for example.
        x: place on the axis of a sweep; None where there is no axis.
        line: curve of the sweep that it belongs to.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    x: float | None = None
    line: str = ""


def cell_name(arm: str, seed: int) -> str:
    """Directory of the cell of an arm with a training seed."""
    return f"{arm}-{seed}"


def arm_of(cell: str) -> str:
    """The arm that a directory's name says it is a cell of; the whole name if it ends in no seed."""
    arm, _, seed = cell.rpartition("-")
    return arm if arm and seed.isdecimal() else cell


def run_cells(
    config: Any,
    arms: Sequence[Arm],
    seeds: Sequence[int],
    directory: Path,
    judging: Judging,
    report: Callable[[str], Any],
) -> dict[str, Any]:
    """Trains and judges every cell that is not there yet; returns all cells by name ("base", "grpo-0", ...)."""
    cells: dict[str, Any] = {}
    mistakes = None
    _check_configuration(config, directory / CONFIGURATION_FILE)
    for arm, seed in [(Arm(BASE), 0), *((arm, seed) for seed in seeds for arm in arms)]:
        name = BASE if arm.name == BASE else cell_name(arm.name, seed)
        path = directory / name / CELL_FILE
        cell = json.loads(path.read_text()) if path.exists() else {}
        if cell.get("judging") != judging.record():
            report(f"cell {name}")
            cell_config = _cell_config(config, arm, seed)
            if arm.name == BASE:
                run = make_run(cell_config, directory / name)
                params = run.reference
            else:
                run, state = train(cell_config, directory / name)
                params = state.params
            if mistakes is None:
                mistakes = frozen_mistakes(run, directory / MISTAKES_FILE)
            cell = judge(run, params, mistakes, judging)
            write_json(path, cell)
        cells[name] = {**cell, **cost(directory / name)}
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
    for varied in ("method", "seed"):
        now.pop(varied)
    if not path.exists():
        write_json(path, now)
    then = json.loads(path.read_text())
    if changed := configuration_differences(then, now):
        raise ConfigurationChanged(
            f"the comparison in this workdir was made with another configuration ({changed}); choose another --workdir "
            "or the old configuration"
        )


def _cell_config(config: Any, arm: Arm, seed: int) -> ConfigDict:
    cell = ConfigDict(config.to_dict())
    cell.update_from_flattened_dict({**arm.changes, "seed": seed})
    return cell


def judge(run: Run, params: Any, mistakes: Sequence[Mistake], judging: Judging) -> dict[str, Any]:
    """Success of every game at every temperature and seed, and of every continuation of every mistake.

    Returns:
        {"judging": its record, "success": {temperature: [seeds][games]}, "recovery": [mistakes][continuations],
        "rejected": share at the first temperature}, numbers 0 or 1.
    """
    tasks = panel(run.world, run.config.world.eval_splits, run.config.evaluate.final_tasks)
    success: dict[str, list] = {}
    rejected = []
    for temperature in judging.temperatures:
        for seed in range(judging.evaluation_seeds):
            played = evaluate_run(run, params, tasks, temperature, seed)
            success.setdefault(str(temperature), []).append([int(won) for won in played.won])
            rejected.append(played.rejected)
    return {
        "judging": judging.record(),
        "success": success,
        "recovery": recoveries(run, mistakes).astype(int).tolist(),
        "rejected": rejected[0],
    }
