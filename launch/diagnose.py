"""Diagnoses a student and its teacher: `diagnose.py agreement --config=configs/alfworld.py:mini --workdir=DIR`.

agreement: how often the teacher marks the turn that the oracle calls the mistake, beside turns drawn at random.
The student is a checkpoint of the run in --workdir, or with --checkpoint=base the student before training.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from pivotopd_jax import command_line
from pivotopd_jax.evaluation.agreement import agreement, agreement_text
from pivotopd_jax.evaluation.checkpointed import checkpoint_params
from pivotopd_jax.evaluation.evaluate import panel
from pivotopd_jax.run import make_run, sampled_teachers
from pivotopd_jax.train import evaluate_run

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file, with its preset after a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
CHECKPOINT = flags.DEFINE_enum("checkpoint", "base", ["last", "best", "base"], "Which student of the run.")
TASKS = flags.DEFINE_integer("tasks", 0, "Size of the panel; 0 plays every game of the evaluation splits.")
SAMPLES = flags.DEFINE_integer("samples", 5, "Reports on each failed trajectory.")


def main(arguments: list[str]) -> None:
    if arguments != ["agreement"]:
        raise ValueError(f"diagnose.py was told {' '.join(arguments) or 'nothing'!r}; expected 'agreement'")
    config, directory = CONFIG.value, Path(str(WORKDIR.value))
    run = make_run(config, directory)
    params, _ = checkpoint_params(run, directory, CHECKPOINT.value)
    tasks = panel(run.world, config.world.eval_splits, TASKS.value)
    played = evaluate_run(run, params, tasks, config.eval_temperature).trajectories
    teachers = sampled_teachers(run, SAMPLES.value)
    found = agreement(run.world.planner, teachers, played, max_actions=config.knobs.max_actions)
    print(agreement_text(found))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    command_line.run(main, required=["config", "workdir"], positional=True)
