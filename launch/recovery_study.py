"""Continues the same mistakes: `recovery_study.py --config=configs/alfworld.py:mini --workdir=DIR --runs=A,B`.

Pivotal mistakes of the base policy (config.evaluate.mistakes of them) are frozen in --workdir, and the base and the
student of each run continue every one of them config.evaluate.continuations times. Prints a table, with JSON as the
last line, and draws study.png. Runs named NAME-0, NAME-1, ..., as launch/compare.py names them, are training seeds of
one policy, over which each mistake is averaged. A run that was measured with the same settings is read back, so that
runs can be added later.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from pivotopd_jax import command_line
from pivotopd_jax.evaluation.cells import BASE
from pivotopd_jax.evaluation.study import draw_study, judged, leads_table, policies, study, study_table
from pivotopd_jax.run import make_run

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration that the runs share; their methods may differ.")
WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the study.")
RUNS = flags.DEFINE_list(
    "runs", [], "Directories of runs, which name the policies; the first is set beside the others."
)
CHECKPOINT = flags.DEFINE_enum("checkpoint", "last", ["last", "best"], "Which student of each run.")


def main() -> None:
    directory, students = Path(str(WORKDIR.value)), policies(map(Path, RUNS.value))
    run = make_run(CONFIG.value, directory)
    found = study(run, students, CHECKPOINT.value, directory, print)
    rows = {name: judged(policy, found[BASE]) for name, policy in found.items()}
    print(study_table(rows), leads_table(found), sep="\n\n")
    draw_study(rows, directory / "study.png")
    print(f"figure: {directory / 'study.png'}")
    print(json.dumps({name: asdict(row) for name, row in rows.items()}))


if __name__ == "__main__":
    command_line.run(main, required=["config", "workdir"])
