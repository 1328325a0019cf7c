"""Trains a student: `train.py --config=configs/alfworld.py[:paper|:mini] --workdir=DIR [--config.x=y ..]`."""

from __future__ import annotations

import sys
from pathlib import Path

from absl import app, flags, logging
from ml_collections import config_flags

from pivotopd_jax.summary import summarise_run
from pivotopd_jax.train import train

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file, with its preset after a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run; an interrupted run goes on from it.")


def main(_) -> None:
    logging.set_verbosity(logging.WARNING)
    workdir = Path(str(WORKDIR.value))
    try:
        run, state = train(CONFIG.value, workdir)
        summarise_run(run, state.params, workdir)
    except (ValueError, FileNotFoundError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    flags.mark_flags_as_required(["config", "workdir"])
    app.run(main)
