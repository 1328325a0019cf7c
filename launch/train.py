"""Trains a student: `train.py --config=configs/alfworld.py[:paper|:mini] --workdir=DIR [--config.x=y ..]`.

With --distributed it is one of many processes that train one student together; see docs/pods.md.
"""

from __future__ import annotations

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from pivotopd_jax import command_line, processes
from pivotopd_jax.summary import summarise_run
from pivotopd_jax.train import train

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file, with its preset after a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run; an interrupted run goes on from it.")

ACCEPT_CHANGES = flags.DEFINE_boolean(
    "accept_changes", False, "Go on though the run was started with another configuration; prints what differs."
)
DISTRIBUTED = flags.DEFINE_boolean("distributed", False, "One of many processes of a run, which find one another.")


def main() -> None:
    if DISTRIBUTED.value:
        processes.join()
    workdir = Path(str(WORKDIR.value))
    run, state = train(CONFIG.value, workdir, accept_changes=ACCEPT_CHANGES.value)
    run.export(state.params, workdir / "trained_student")
    summarise_run(run, state.params, workdir)


if __name__ == "__main__":
    command_line.run(main, required=["config", "workdir"])
