"""Diagnoses a student: `diagnose.py agreement|sharpness --config=configs/alfworld.py:mini --workdir=DIR`.

agreement: how often the teacher marks the turn that the oracle calls the mistake, beside turns drawn at random.
sharpness: entropy of the student before, at and after the first mistake, on what the student of --played_by did at the
    training temperature.
The student is a checkpoint of the run in --workdir, or with --checkpoint=base the student before training.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import config_flags

from pivotopd_jax import command_line
from pivotopd_jax.evaluation.agreement import agreement, agreement_text
from pivotopd_jax.evaluation.checkpointed import checkpoint_params
from pivotopd_jax.evaluation.evaluate import panel
from pivotopd_jax.evaluation.sharpness import sharpness
from pivotopd_jax.records import Trajectory
from pivotopd_jax.run import Run, make_run, sampled_teachers
from pivotopd_jax.train import evaluate_run

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file, with its preset after a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
CHECKPOINT = flags.DEFINE_enum("checkpoint", "last", ["last", "best", "base"], "Which student of the run.")
PLAYED_BY = flags.DEFINE_string("played_by", None, "sharpness: the run whose last student plays; by default --workdir.")
TASKS = flags.DEFINE_integer("tasks", 0, "Size of the panel; 0 plays every game of the evaluation splits.")
SAMPLES = flags.DEFINE_integer("samples", 5, "agreement: reports on each failed trajectory.", lower_bound=1)


def played(run: Run, params: Any, temperature: float) -> list[Trajectory]:
    tasks = panel(run.world, run.config.world.eval_splits, TASKS.value)
    return evaluate_run(run, params, tasks, temperature).trajectories


def main(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0] not in ("agreement", "sharpness"):
        raise ValueError(f"diagnose.py was told {' '.join(arguments) or 'nothing'!r}; expected agreement or sharpness")
    config, directory = CONFIG.value, Path(str(WORKDIR.value))
    run = make_run(config, directory)
    params, _ = checkpoint_params(run, directory, CHECKPOINT.value)
    if arguments == ["agreement"]:
        teachers = sampled_teachers(run, SAMPLES.value, directory.parent / "teacher_replies")
        trajectories = played(run, params, config.eval_temperature)
        found = agreement(run.world.planner, teachers, trajectories, max_actions=config.knobs.max_actions)
        print(agreement_text(found))
        print(json.dumps(asdict(found)))
    else:
        player = checkpoint_params(run, Path(PLAYED_BY.value), "last")[0] if PLAYED_BY.value else params
        print(json.dumps(sharpness(run, params, played(run, player, config.temperature))))


if __name__ == "__main__":
    command_line.run(main, required=["config", "workdir"], positional=True)
