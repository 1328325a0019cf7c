"""A run that is killed again and again: `killed_run.py DIRECTORY LIVES SEED`; prints what killed it, as JSON.

Not a test: tests/test_kill.py starts it. Everything is imported once; each life is a fork of this process, which
touches no JAX device itself.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from test_train import tiny_config

from pivotopd_jax import train as training
from pivotopd_jax.recording import QuietRecorder

STAGES = ("collect", "annotate", "extend", "score", "update", "record", "evaluate", "checkpoint")
UNFINISHED = "*.orbax-checkpoint-tmp"


def killed_config() -> Any:
    config = tiny_config("pivotopd", steps=16)
    config.evaluate.every, config.evaluate.tasks = 4, 2
    config.log.trajectories_every = 1
    return config


def live(directory: Path, tell: int) -> None:
    """Trains, and writes the name of every stage into the pipe `tell` when it begins."""
    stage, make_run = QuietRecorder.stage, training.make_run

    @contextmanager
    def told(self: QuietRecorder, name: str) -> Iterator[None]:
        os.write(tell, f"{name}\n".encode())
        with stage(self, name):
            yield

    def told_start(*given: Any, **options: Any) -> Any:
        os.write(tell, b"start\n")
        return make_run(*given, **options)

    QuietRecorder.stage, training.make_run = told, told_start
    training.train(killed_config(), directory)


def fork(directory: Path) -> tuple[int, int]:
    """A life under way: its process id, and the end of the pipe where it tells of its stages."""
    listen, tell = os.pipe()
    process = os.fork()
    if process:
        os.close(tell)
        return process, listen
    os.close(listen)
    status = 1
    try:
        live(directory, tell)
        status = 0
    finally:
        os._exit(status)


def wait_for(listen: int, stage: str, seconds: float) -> list[str]:
    """Stages that have begun, up to the first `stage`; without it if the pipe ends or the time runs out."""
    begun, text, until = [], b"", time.monotonic() + seconds
    while stage not in begun and select.select([listen], [], [], max(0.0, until - time.monotonic()))[0]:
        if not (piece := os.read(listen, 4096)):
            break
        text += piece
        begun = text.decode().split()
    return begun


def kill_at(directory: Path, stage: str, delay: float, *, saving: bool) -> dict[str, Any]:
    """One life, killed `delay` seconds after `stage` has begun, or after the first file of a checkpoint is there."""
    process, listen = fork(directory)
    begun = wait_for(listen, stage, 300)
    until = time.monotonic() + 5
    while saving and not any((directory / "checkpoints").glob(UNFINISHED)) and time.monotonic() < until:
        pass
    time.sleep(delay)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    os.close(listen)
    unfinished = any((directory / "checkpoints").glob(UNFINISHED))
    return {"stage": stage, "reached": stage in begun, "status": os.waitstatus_to_exitcode(status),
            "unfinished": unfinished}  # fmt: skip


def main(directory: Path, lives: int, seed: int) -> None:
    chance = random.Random(seed)
    killed = []
    for life in range(lives):
        # Every third in the midst of a save; the others anywhere in a stage, or while a run is put together.
        saving = life % 3 == 2
        stage = "checkpoint" if saving else chance.choice(("start", *STAGES))
        killed.append(kill_at(directory, stage, chance.uniform(0, 0.01 if saving else 0.3), saving=saving))
    process, _ = fork(directory)
    _, status = os.waitpid(process, 0)
    print(json.dumps({"killed": killed, "status": os.waitstatus_to_exitcode(status)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
