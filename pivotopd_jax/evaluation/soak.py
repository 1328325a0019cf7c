"""A soak: minutes or hours of training under random faults and restarts, watched from outside, with a verdict."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from pivotopd_jax.evaluation.soak_faults import OUTAGES, ScriptedTeacher, broken
from pivotopd_jax.evaluation.soak_life import soak_config
from pivotopd_jax.evaluation.soak_verdict import (
    WARM_UP,
    Life,
    Watched,
    endings,
    leaks,
    life_table,
    lines_lost,
    logged_groups,
    tasks_lost,
)
from pivotopd_jax.learner.checkpoints import Checkpoints
from pivotopd_jax.recording import METRICS_FILE, TRAJECTORIES, read_metrics
from pivotopd_jax.rollout.curriculum import curriculum
from pivotopd_jax.worlds import make_world

GRACE = 120.0
"""Seconds that a process may take to save after SIGTERM."""

LAST_SHARE = 0.4
"""Of the time goes to the last life, which is long enough to show a leak."""


def planned_lives(seconds: float, seed: int) -> list[tuple[float, str]]:
    """(seconds, ending) of each life: many short ones of random length, then a long one that ends by SIGTERM."""
    chance = random.Random(seed)
    mean, left, lives = max(20.0, seconds / 40), seconds * (1 - LAST_SHARE), []
    while left > 0:
        lived = min(left, chance.expovariate(1 / mean))
        lives.append((lived, "kill" if len(lives) % 3 else "term"))
        left -= lived
    return [*lives, (seconds * LAST_SHARE, "term")]


def soak(name: str, directory: Path, seconds: float, seed: int, say: Callable[[str], None]) -> list[str]:
    """Trains in `directory`/run for so long, with faults, restarts and outages that `seed` draws.

    Args:
        name: of the configuration, "FILE.py:preset", which is cut down to a small size.
        directory: empty or new.
        seconds: without the last checking.
        seed: of the faults.
        say: told of each life and of the tables.

    Returns:
        Promises that were broken, in words; empty if none was.
    """
    lives: list[Life] = []
    every = max(0.5, seconds / 600)
    with ScriptedTeacher(pause=0.5, stall=8.0).serving() as teacher:
        plan = planned_lives(seconds, seed)
        for number, (lived, ending) in enumerate(plan):
            chance, last = random.Random(f"{seed} {number}"), number == len(plan) - 1
            life = _live(name, directory, teacher, lived, ending, every, chance, last=last)
            lives.append(life)
            steps = len(read_metrics(directory / "run"))
            say(f"life {number}: {life.seconds:.0f} s, {ending}, status {life.status}; {steps} steps recorded")
            if life.by_itself:
                break
    say(life_table(lives))
    return endings(lives) + [leak for life in lives for leak in leaks(life)] + checked_log(name, directory, say)


def _live(
    name: str,
    directory: Path,
    teacher: ScriptedTeacher,
    seconds: float,
    ending: str,
    every: float,
    chance: random.Random,
    *,
    last: bool,
) -> Life:
    """Starts a training process, watches it and ends it."""
    life, start, born, before = Life(ending), time.monotonic(), time.time(), 0
    module = "pivotopd_jax.evaluation.soak_life"
    command = [sys.executable, "-m", module, name, str(directory / "run"), teacher.url, str(chance.randrange(10**6))]
    outages = _Outages(teacher, chance)
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "output.txt").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            seen = psutil.Process(process.pid)
            # The first life has the student to make, which the others find; the last one has to show that nothing
            # leaks: both are given all the time that it takes.
            while process.poll() is None and (
                life.seconds < seconds or not read_metrics(directory / "run") or (last and not life.long)
            ):
                life.watched.append(_look(seen, life.seconds))
                if life.began is not None:
                    outages.at(life.seconds - life.began)
                elif _changed(directory / "run" / METRICS_FILE) > born:
                    life.began, before = life.seconds, _lines(directory / "run" / METRICS_FILE)
                if life.began is not None and life.warm is None:
                    taken = _lines(directory / "run" / METRICS_FILE) - before
                    life.warm = life.seconds if taken >= WARM_UP else None
                time.sleep(min(every, max(0.1, seconds - life.seconds)))
                life.seconds = time.monotonic() - start
        except psutil.NoSuchProcess:
            pass
        life.by_itself = process.poll() is not None
        if life.began is None and _changed(directory / "run" / METRICS_FILE) > born:
            life.began = life.seconds
        life.status = _ended(process, ending)
    outages.end()
    life.left = _left_behind(process.pid)
    return life


class _Outages:
    """Of a teacher, at random; none before the first step, since a run whose teacher does not answer does not begin."""

    def __init__(self, teacher: ScriptedTeacher, chance: random.Random):
        self._teacher, self._chance = teacher, chance
        self._begins, self._ends = 0.0, 0.0
        self.end()

    def at(self, seconds: float) -> None:
        """Begins or ends an outage if it is time; `seconds` since the first step began."""
        if seconds > self._ends:
            self.end()
            self._begins = seconds + self._chance.expovariate(1 / 90)
            self._ends = self._begins + self._chance.uniform(5, 30)
        elif seconds > self._begins and not self._teacher.outage:
            self._teacher.outage = self._chance.choice(OUTAGES)

    def end(self) -> None:
        """All is well again."""
        self._teacher.outage = ""


def _changed(path: Path) -> float:
    """When a file was last changed; 0 if it is not there."""
    return path.stat().st_mtime if path.exists() else 0.0


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def _look(process: psutil.Process, age: float) -> Watched:
    with process.oneshot():
        memory = process.memory_info()
        own = (memory.rss - memory.shared) / 2**20
        return Watched(age, own, process.num_fds(), process.num_threads(), len(process.children(recursive=True)))


def _ended(process: subprocess.Popen[bytes], ending: str) -> int | None:
    """Ends a process as told; its exit status, or None if SIGTERM was not enough."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL if ending == "kill" else signal.SIGTERM)
    try:
        return process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def _left_behind(session: int) -> int:
    """Processes of a session whose first process has ended."""
    left = 0
    for process in psutil.process_iter():
        try:
            left += os.getsid(process.pid) == session
        except OSError:
            continue
    return left


def checked_log(name: str, directory: Path, say: Callable[[str], None]) -> list[str]:
    """Compares what the run has written with what was asked of it; says what happened, returns what is wrong."""
    config, run = soak_config(name), directory / "run"
    checkpoints = Checkpoints(run, keep=config.checkpoint.keep)
    done = checkpoints.latest or 0
    checkpoints.close()
    lines = read_metrics(run)
    wrong = lines_lost(lines, done)
    tasks, dropped = make_world(config.world)[0].tasks(config.world.train_split), 0
    for line in lines:
        step = int(line["step"])
        asked = curriculum(tasks, step, config.tasks_per_step, config.seed)
        whole = [task for task in asked if not broken(task)]
        dropped += len(asked) - len(whole)
        found = logged_groups(run / TRAJECTORIES / f"step_{step:06d}.jsonl")
        wrong += tasks_lost(step, whole, found, config.rollouts)
        if line["train/dropped_groups"] != len(asked) - len(whole):
            wrong.append(f"step {step}: {line['train/dropped_groups']:g} groups dropped, not {len(asked) - len(whole)}")
    counted = {key: sum(line.get(f"envs/{key}", 0.0) for line in lines) for key in ("crashed", "hung")}
    refused = sum(v for line in lines for k, v in line.items() if k.startswith("teacher/report/") and k[15:] not in
                  ("ok", "cached"))  # fmt: skip
    say(f"{done} steps, {len(lines) * config.tasks_per_step} groups asked for, {dropped} of them of broken tasks; "
        f"calls to environments: {counted['crashed']:.0f} crashed, {counted['hung']:.0f} hung; "
        f"{refused:.0f} reports lost to outages")  # fmt: skip
    if not counted["crashed"] or not counted["hung"]:
        wrong.append("nothing was shown: no call to an environment crashed, or none hung")
    return wrong
