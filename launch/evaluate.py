"""Plays held-out games: `evaluate.py --config=configs/alfworld.py:mini --workdir=DIR [--checkpoint=last|best|base]`.

The student is a checkpoint of the run in --workdir, or with --checkpoint=base the student before training.
"""

from __future__ import annotations

import json
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from pivotopd_jax import command_line
from pivotopd_jax.evaluation.checkpointed import evaluate_checkpoint, evaluation_table

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file, with its preset after a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
CHECKPOINT = flags.DEFINE_enum("checkpoint", "last", ["last", "best", "base"], "Which student of the run.")
TEMPERATURE = flags.DEFINE_float("temperature", None, "Of sampling; by default config.eval_temperature.")
SEEDS = flags.DEFINE_integer("seeds", 1, "Times each game is played.")
TASKS = flags.DEFINE_integer("tasks", 0, "Size of the panel; 0 plays every game of the evaluation splits.")


def main() -> None:
    config = CONFIG.value
    temperature = config.eval_temperature if TEMPERATURE.value is None else TEMPERATURE.value
    directory = Path(str(WORKDIR.value))
    result = evaluate_checkpoint(config, directory, CHECKPOINT.value, temperature, range(SEEDS.value), TASKS.value)
    print(evaluation_table(result))
    print(json.dumps(result))


if __name__ == "__main__":
    command_line.run(main, required=["config", "workdir"])
