"""Evaluates a student of a finished or running run, by the name of its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pivotopd_jax.evaluation.evaluate import panel, summarise
from pivotopd_jax.evaluation.intervals import bootstrap_interval
from pivotopd_jax.learner.checkpoints import Checkpoints, ConfigurationChanged
from pivotopd_jax.run import Run, configuration_differences, configuration_record, make_run
from pivotopd_jax.train import evaluate_run

SHARED = ("world", "prompt", "student", "mini", "lora", "max_turns")
"""Keys of a configuration on which students have to agree to be compared from one base."""


def checkpoint_params(run: Run, directory: Path, which: str) -> tuple[Any, int]:
    """Parameters of the "last", "best" or "base" student of a run, and the steps it has been trained for.

    Raises:
        FileNotFoundError: the run has no checkpoint.
    """
    if which == "base":
        return run.reference, 0
    with _opened(directory, run.config) as checkpoints:
        done = _chosen(checkpoints, directory, which)
        return checkpoints.restore(done, run.learner.init(run.reference)).params, done


def base_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a configuration's record that says which base is trained, and in which world."""
    return {key: record[key] for key in SHARED if key in record}


def trained_from(config: Any, directory: Path, which: str) -> dict[str, Any]:
    """Makes sure that the run in `directory` was trained from the base of `config` in its world.

    Returns:
        The run's "configuration", and the "steps" that its "last" or "best" student has been trained for.

    Raises:
        ConfigurationChanged: it was not; says what differs.
        FileNotFoundError: the run has no checkpoint.
    """
    with _opened(directory, config) as checkpoints:
        done = _chosen(checkpoints, directory, which)
        then = checkpoints.record(done).configuration
    if changed := configuration_differences(base_record(then), base_record(configuration_record(config))):
        raise ConfigurationChanged(
            f"the run in {directory} was trained from another base or in another world than --config says ({changed}); "
            "give the configuration that it was trained with"
        )
    return {"configuration": then, "steps": done}


@contextmanager
def _opened(directory: Path, config: Any) -> Iterator[Checkpoints]:
    checkpoints = Checkpoints(directory, keep=config.checkpoint.keep)
    try:
        yield checkpoints
    finally:
        checkpoints.close()


def _chosen(checkpoints: Checkpoints, directory: Path, which: str) -> int:
    done = checkpoints.latest if which == "last" else checkpoints.best
    if done is None:
        raise FileNotFoundError(f"{directory} holds no checkpoint; train there first, or pass --checkpoint=base")
    return done


def evaluate_checkpoint(
    config: Any, directory: Path, which: str, temperature: float, seeds: Iterable[int], size: int
) -> dict[str, Any]:
    """Plays the evaluation splits of `config` with a student of the run in `directory`.

    Returns:
        Shares in [0, 1]: "success" with its 95% interval over games, "by_kind", "mean_over_kinds", "rejected"; "nats" a
        response; what was played: "world", "games", "plays", "temperature", "checkpoint", "steps".
    """
    run = make_run(config, directory)
    params, done = checkpoint_params(run, directory, which)
    tasks = panel(run.world, config.world.eval_splits, size)
    plays = [evaluate_run(run, params, tasks, temperature, seed).trajectories for seed in seeds]
    result = summarise([t for trajectories in plays for t in trajectories], run.world.kinds)
    per_game = [sum(t.won for t in same) / len(plays) for same in zip(*plays, strict=True)]
    return {
        "world": run.world.name,
        "games": len(tasks),
        "plays": len(plays),
        "temperature": temperature,
        "checkpoint": which,
        "steps": done,
        "success": result.success,
        "success_interval": bootstrap_interval(per_game),
        "by_kind": result.by_kind,
        "mean_over_kinds": result.mean_over_kinds,
        "rejected": result.rejected,
        "nats": result.nats,
    }


def evaluation_table(result: dict[str, Any]) -> str:
    """One Markdown row: success by kind of task, their unweighted mean, success over all games; nats a response."""
    kinds = list(result["by_kind"])
    head = [*kinds, "mean of kinds", "all games", "nats a response"]
    low, high = result["success_interval"]
    values = [f"{100 * result['by_kind'][kind]:.1f}" for kind in kinds]
    values += [
        f"{100 * result['mean_over_kinds']:.1f}",
        f"{100 * result['success']:.1f} [{100 * low:.1f}, {100 * high:.1f}]",
        f"{result['nats']:.3f}",
    ]
    title = f"{result['checkpoint']} student ({result['steps']} steps) on {result['games']} games of {result['world']}"
    return "\n".join(
        [f"{title}, temperature {result['temperature']}:", _row(head), _row(["---"] * len(head)), _row(values)]
    )


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
