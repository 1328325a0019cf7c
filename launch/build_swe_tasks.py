"""Makes SWE tasks on this machine: `build_swe_tasks.py --out=DIR [--count=50] [--seed=0] [--workers=2]`.

The packages come from Python's package index, each checked by its hash; their tests run in sandboxes (bubblewrap).
DIR gets tasks.jsonl, rows of SWE-bench's schema, and repositories/; it can be a world's source: --config.world.source.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from absl import flags

from pivotopd_jax import command_line
from pivotopd_jax.envs.swe.bubblewrap import Bubblewrap, check_bubblewrap
from pivotopd_jax.envs.swe.builder import build_tasks
from pivotopd_jax.envs.swe.packages import PACKAGES
from pivotopd_jax.envs.swe.provision import sandbox_packages

OUT = flags.DEFINE_string("out", None, "Directory that gets the tasks.")
COUNT = flags.DEFINE_integer("count", 50, "How many.", lower_bound=1)
SEED = flags.DEFINE_integer("seed", 0, "Decides which mistakes are tried.")
WORKERS = flags.DEFINE_integer("workers", os.cpu_count() or 1, "Sandboxes at once.", lower_bound=1)


def main() -> None:
    packages, started = sandbox_packages(), time.monotonic()
    check_bubblewrap(packages)

    def report(line: str) -> None:
        print(f"{line}  ({time.monotonic() - started:.0f} s so far)", flush=True)

    machine, out = Bubblewrap(packages), Path(str(OUT.value))
    made = build_tasks(
        PACKAGES, machine, out, count=COUNT.value, seed=SEED.value, workers=WORKERS.value, report=report
    )  # fmt: skip
    report(f"{len(made)} tasks in {out}")


if __name__ == "__main__":
    command_line.run(main, required=["out"])
