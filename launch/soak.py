"""Trains for a while under random faults: `soak.py --workdir=DIR [--minutes=120] [--seed=0]`.

Environments crash and hang, a scripted teacher has outages, and the training process is killed or told to end again and
again, while its memory, files, threads and children are watched. Ends with a table and a verdict: exit status 1 if a
life did not end as it was told to, something leaked, or a task was lost or trained twice.
"""

from __future__ import annotations

import sys
from pathlib import Path

from absl import flags

from pivotopd_jax import command_line
from pivotopd_jax.evaluation.soak import soak

WORKDIR = flags.DEFINE_string("workdir", None, "New directory of the soak.")
MINUTES = flags.DEFINE_float("minutes", 120.0, "How long.", lower_bound=0.5)
SEED = flags.DEFINE_integer("seed", 0, "Of the faults.")
CONFIG = str(Path(__file__).resolve().parents[1] / "configs" / "alfworld.py:mini")


def main() -> None:
    directory = Path(str(WORKDIR.value))
    if directory.exists() and any(directory.iterdir()):
        raise ValueError(f"{directory} is not empty; a soak counts all that it finds there: choose a new --workdir")
    broken = soak(CONFIG, directory, MINUTES.value * 60, SEED.value, lambda line: print(line, flush=True))
    print("\n".join(["broken:", *broken]) if broken else "verdict: every promise was kept")
    sys.exit(bool(broken))


if __name__ == "__main__":
    command_line.run(main, required=["workdir"])
