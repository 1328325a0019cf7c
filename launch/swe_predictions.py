"""Writes what a student hands in, for the official harness of SWE-bench.

    python launch/swe_predictions.py --config=configs/swe.py --workdir=DIR --out=predictions.jsonl
    python -m swebench.harness.run_evaluation --predictions_path predictions.jsonl --dataset_name .. --run_id ..

The student is a checkpoint of the run in --workdir; each task of the evaluation splits is played once.
"""

from __future__ import annotations

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from pivotopd_jax import command_line
from pivotopd_jax.evaluation.checkpointed import checkpoint_params
from pivotopd_jax.evaluation.evaluate import panel
from pivotopd_jax.evaluation.swe_predictions import write_predictions
from pivotopd_jax.run import make_run
from pivotopd_jax.train import evaluate_run

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file, with its preset after a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
OUT = flags.DEFINE_string("out", None, "File that gets a row a task.")
CHECKPOINT = flags.DEFINE_enum("checkpoint", "last", ["last", "best", "base"], "Which student of the run.")


def main() -> None:
    config, directory = CONFIG.value, Path(str(WORKDIR.value))
    run = make_run(config, directory)
    params, steps = checkpoint_params(run, directory, CHECKPOINT.value)
    tasks = panel(run.world, config.world.eval_splits, 0)
    played = evaluate_run(run, params, tasks, config.eval_temperature)
    write_predictions(Path(str(OUT.value)), played.trajectories, f"{config.student}, {steps} steps")
    print(f"{len(tasks)} predictions in {OUT.value}; by our own tests {100 * played.success:.1f}% are right")


if __name__ == "__main__":
    command_line.run(main, required=["config", "workdir", "out"])
