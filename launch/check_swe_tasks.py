"""Tries SWE tasks: `check_swe_tasks.py --source=DIR [--times=3]`; DIR is a directory or file of tasks.

A task is sound if its right patch makes its tests pass and an empty one does not, every time.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from absl import flags

from pivotopd_jax import command_line
from pivotopd_jax.envs.swe.grading import is_sound
from pivotopd_jax.envs.swe.world import Swe

SOURCE = flags.DEFINE_string("source", None, "Directory or file of tasks.")
TIMES = flags.DEFINE_integer("times", 3, "How often each is tried.", lower_bound=1)


def main() -> None:
    world, started = Swe(Path(str(SOURCE.value))), time.monotonic()
    assignments = [task.source for split in world.splits for task in world.tasks(split)]
    sound = 0
    for assignment in assignments:
        if is_sound(assignment.instance, assignment.sandbox, TIMES.value):
            sound += 1
        else:
            print(f"{assignment.instance.id} is not sound", flush=True)
    print(
        f"{sound} of {len(assignments)} tasks: {TIMES.value} times of {TIMES.value} the right patch solves it and an "
        f"empty one does not ({time.monotonic() - started:.0f} s)"
    )
    sys.exit(sound < len(assignments))


if __name__ == "__main__":
    command_line.run(main, required=["source"])
