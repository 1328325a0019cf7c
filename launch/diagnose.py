"""Diagnoses a student: `diagnose.py [part ...] --config=configs/alfworld.py:mini --workdir=DIR [--checkpoint=base]`.

pivots: how many failures hold an oracle-pivotal turn, when the first one comes, how many turns are wasted after it.
likelihoods: probability of the action taken there, and of the oracle's.
agreement: how often the teacher marks the turn that the oracle calls the mistake, beside turns drawn at random.
replays: success when something is changed at that turn or after it, from snapshots.
sharpness: entropy of the student before, at and after the first mistake.
Without a part, all of them. Works in every environment, since each has an oracle. The student is a checkpoint of the
run in --workdir, or with --checkpoint=base the student before training; a student behind a server cannot be diagnosed,
since nothing samples from one yet. The last line is JSON.
"""

from __future__ import annotations

import json
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from pivotopd_jax import command_line
from pivotopd_jax.evaluation.checkpointed import checkpoint_params
from pivotopd_jax.evaluation.diagnosis import PARTS, Case, diagnose
from pivotopd_jax.evaluation.evaluate import panel
from pivotopd_jax.run import make_run, sampled_teachers
from pivotopd_jax.train import evaluate_run

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file, with its preset after a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
CHECKPOINT = flags.DEFINE_enum("checkpoint", "last", ["last", "best", "base"], "Which student of the run.")
PLAYED_BY = flags.DEFINE_string("played_by", None, "The run whose last student plays, or base; by default --workdir.")
TASKS = flags.DEFINE_integer("tasks", 0, "Size of the panel; 0 plays every game of the evaluation splits.")
TEMPERATURE = flags.DEFINE_float("temperature", None, "Of sampling; by default config.eval_temperature.")
SAMPLES = flags.DEFINE_integer("samples", 5, "agreement: reports on each failed trajectory.", lower_bound=1)


def main(arguments: list[str]) -> None:
    if unknown := [part for part in arguments if part not in PARTS]:
        raise ValueError(f"diagnose.py was told {' '.join(unknown)!r}; expected {', '.join(PARTS)}, or none for all")
    config, directory, parts = CONFIG.value, Path(str(WORKDIR.value)), arguments or PARTS
    run = make_run(config, directory)
    params, _ = checkpoint_params(run, directory, CHECKPOINT.value)
    player = {None: params, "base": run.reference}.get(PLAYED_BY.value)
    if player is None:
        player, _ = checkpoint_params(run, Path(str(PLAYED_BY.value)), "last")
    temperature = config.eval_temperature if TEMPERATURE.value is None else TEMPERATURE.value
    tasks = panel(run.world, config.world.eval_splits, TASKS.value)
    trajectories = evaluate_run(run, player, tasks, temperature).trajectories
    run.load(params)
    teachers = sampled_teachers(run, SAMPLES.value, directory.parent / "teacher_replies")
    text, record = diagnose(Case(run, params, trajectories, teachers, temperature), parts)
    print(text)
    print(json.dumps(record))


if __name__ == "__main__":
    command_line.run(main, required=["config", "workdir"], positional=True)
