"""What goes wrong in one of several processes: `pod_faults.py FOLDER DISK`; writes what each saw there.

Not a test: tests/test_pod_faults.py starts it. DISK is a small disk, or "" for none.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np
from faulty_world import Faulty, crash
from pod_run import pod_config
from sharded_updates import whole

from pivotopd_jax import train as training
from pivotopd_jax.envs.guard import EnvironmentFailure, GuardedWorld
from pivotopd_jax.learner.checkpoints import UNREADABLE, Checkpoints
from pivotopd_jax.learner.learner import NonFiniteUpdates
from pivotopd_jax.preemption import Preempted
from pivotopd_jax.processes import gather, join
from pivotopd_jax.recording import read_metrics
from pivotopd_jax.scoring import advantages

STEPS = 3


def config(steps: int = STEPS) -> Any:
    c = pod_config(jax.process_count(), steps, "grpo")
    c.evaluate.every = 100
    return c


def at_step(wanted: int, do: Callable[[], Any]) -> Any:
    """A patch: before step `wanted` each process does this; all go on together."""
    step_as_ever = training.train_step

    def step(run: Any, progress: Any, step: int, recorder: Any) -> Any:
        if step == wanted:
            do()
            gather(None)
        return step_as_ever(run, progress, step, recorder)

    return mock.patch.object(training, "train_step", step)


def numbers(directory: Path) -> Any:
    """Metrics but for what they cost."""
    gather(None)
    return [
        {k: v for k, v in line.items() if not k.startswith(("seconds/", "compile/", "eval/"))}
        for line in read_metrics(directory)
    ]


def preempted(directory: Path) -> dict[str, Any]:
    """The second process alone is told to end, before the second step."""
    told = False
    with at_step(1, lambda: jax.process_index() == 1 and signal.raise_signal(signal.SIGTERM)):
        try:
            training.train(config(), directory)
        except Preempted as ended:
            told = ended.code is None
    saved = len(numbers(directory))
    _, state = training.train(config(), directory)
    return {"told": told, "saved": saved, "state": state, "lines": numbers(directory)}


def skipped(directory: Path) -> dict[str, Any]:
    """What the second process has from its second update on is not finite."""
    calls = 0

    def poisoned(*given: Any) -> np.ndarray:
        nonlocal calls
        calls += 1
        found = advantages(*given)
        return np.full_like(found, np.nan) if jax.process_index() == 1 and calls >= 2 else found

    ended = ""
    with mock.patch("pivotopd_jax.scoring.advantages", poisoned):
        try:
            training.train(config(9), directory)
        except NonFiniteUpdates as error:
            ended = str(error)
    return {
        "ended": ended[:40],
        "skipped": [line["update/skipped"] for line in numbers(directory)],
        "kept": (directory / f"skipped_update_{jax.process_index()}.npz").exists(),
    }


def fill(disk: Path) -> None:
    if jax.process_index() == 0:
        with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))


def empty(disk: Path) -> None:
    if jax.process_index() == 0:
        (disk / "ballast").unlink()


@contextmanager
def seen_checkpoints(directory: Path, found: list[Any]) -> Any:
    """Lists the checkpoints that there are whenever a save has been waited for."""
    finish = Checkpoints.finish

    def watched(self: Checkpoints) -> None:
        try:
            finish(self)
        finally:
            found.append([int(p.name) for p in sorted((directory / "checkpoints").iterdir()) if p.name.isdigit()])

    with mock.patch.object(Checkpoints, "finish", watched):
        yield


def full_disk(directory: Path, full: Callable[[], None], free: Callable[[], None]) -> dict[str, Any]:
    """A disk is full, in one process or all, while the checkpoint after the second step is written."""
    found: list[Any] = []
    save = Checkpoints.save

    def on_full_disk(self: Checkpoints, done: int, *given: Any, **options: Any) -> None:
        if done == 2:
            full()
        try:
            save(self, done, *given, **options)
            if done == 2:
                self.finish()
        finally:
            if done == 2:
                free()

    with mock.patch.object(Checkpoints, "save", on_full_disk), seen_checkpoints(directory, found):
        _, state = training.train(config(), directory)
    return {"found": found[-1], "during": found, "state": state, "lines": len(numbers(directory))}


def small_files() -> None:
    """No file of the second process may be written any more."""
    if jax.process_index() == 1:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def large_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def broken_environments(directory: Path) -> dict[str, Any]:
    """In the second process all environments fail in the second step; in both, in all later ones."""
    failing: list[bool] = []

    def fails(name: str, given: Any) -> None:
        if name == "reset" and failing:
            crash()

    def faulty(world: Any, **options: Any) -> GuardedWorld:
        return GuardedWorld(Faulty(world, fails), **options)

    ended = ""
    start_one = at_step(1, lambda: failing.append(True) if jax.process_index() == 1 else None)
    with mock.patch("pivotopd_jax.run.GuardedWorld", faulty), start_one, at_step(2, lambda: failing.append(True)):
        try:
            training.train(config(9), directory)
        except EnvironmentFailure as error:
            ended = str(error)
    lines = numbers(directory)
    return {"ended": ended[:50], "dropped": [line["train/dropped_groups"] for line in lines],
            "updated": ["update/loss" in line for line in lines]}  # fmt: skip


def damaged(straight: Path) -> dict[str, Any]:
    """The newest checkpoint of a finished run has lost what the second process wrote."""
    if jax.process_index() == 0:
        parts = list((straight / "checkpoints" / str(STEPS) / "state").glob("ocdbt.process_1/d/*"))
        assert parts
        for part in parts:
            part.unlink()
    gather(None)
    _, state = training.train(config(), straight)
    return {"state": state, "lines": numbers(straight), "aside": (straight / UNREADABLE / str(STEPS)).is_dir()}


def main(folder: Path, disk: str) -> None:
    join()
    runs = folder / "runs"
    _, straight = training.train(config(), runs / "straight")
    expected, straight_lines = whole(straight.params), numbers(runs / "straight")

    def same(state: Any) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(whole(state.params), expected, strict=True))

    seen: dict[str, Any] = {}
    result = preempted(runs / "preempted")
    seen["preempted"] = {**result, "state": same(result["state"]), "lines": result["lines"] == straight_lines}
    seen["skipped"] = skipped(runs / "skipped")
    seen["environments"] = broken_environments(runs / "environments")
    result = full_disk(runs / "one_full", small_files, large_files)
    seen["one_full"] = {**result, "state": same(result["state"])}
    if disk:
        small = Path(disk)
        result = full_disk(small / "full", lambda: fill(small), lambda: empty(small))
        seen["all_full"] = {**result, "state": same(result["state"])}
    result = damaged(runs / "straight")
    seen["damaged"] = {**result, "state": same(result["state"]), "lines": result["lines"] == straight_lines}
    (folder / f"seen_{jax.process_index()}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
