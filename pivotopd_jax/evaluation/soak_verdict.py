"""What a soak has shown: pure functions from what was watched and what the run has written."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pivotopd_jax.records import Task

WARM_UP = 30
"""Steps of its own after which a life has met all that it compiles and keeps: evaluations, checkpoints, every shape."""

LONG = 60.0
"""Seconds after its warm-up from which on a life is long enough to show a leak."""

GROWTH = 0.05
"""Share by which memory may grow between the first and the last third of that time: caches fill slowly."""


class Watched(NamedTuple):
    """One look at a training process.

    Attributes:
        age: seconds since it was started.
        memory: resident without pages of files, which the kernel takes and gives as it likes, MiB.
        files: open ones, sockets included.
        threads: of it.
        children: processes below it.
    """

    age: float
    memory: float
    files: int
    threads: int
    children: int


@dataclass
class Life:
    """A training process from its start to its end.

    Attributes:
        ending: how it was to end, "kill" (SIGKILL) or "term" (SIGTERM).
        watched: looks at it, in order.
        seconds: how long it lived.
        status: exit status, as `subprocess` gives it; None if it did not end in time.
        left: processes that it left behind.
        by_itself: it ended before it was told to.
        began: seconds after its start at which it took its first step; None if it did not come so far.
        warm: seconds after its start at which it had taken `WARM_UP` steps; None if it did not come so far.
    """

    ending: str
    watched: list[Watched] = field(default_factory=list)
    seconds: float = 0.0
    status: int | None = None
    left: int = 0
    by_itself: bool = False
    began: float | None = None
    warm: float | None = None

    @property
    def judged(self) -> float:
        """Seconds that it has trained after its warm-up."""
        return 0.0 if self.warm is None else self.seconds - self.warm

    @property
    def long(self) -> bool:
        """Whether it shows leaks."""
        return self.judged >= LONG

    def third(self, number: int) -> Sequence[Watched]:
        """What was seen in a third, counted from 0, of the time after the warm-up of a long life."""
        if self.warm is None or not self.long:
            return []
        return [w for w in self.watched if w.age >= self.warm and int(3 * (w.age - self.warm) / self.judged) == number]


COMPARED: Mapping[str, tuple[Callable[[Sequence[float]], float], Callable[[Sequence[float]], float]]] = {
    "memory": (statistics.median, statistics.median),
    "files": (min, min),
    "threads": (max, min),
    "children": (min, min),
}
"""What is taken of the first third, and what of the last. Pools of threads grow with what they have to do, and what
hangs holds one more: there a leak is what exceeds all that there ever were."""


def endings(lives: Sequence[Life]) -> list[str]:
    """Lives that did not end as they were told to, in words.

    Before the first step there is nothing to save, and SIGTERM ends a process as usual.
    """
    broken = []
    for number, life in enumerate(lives):
        expected = -9 if life.ending == "kill" else -15 if life.began is None else 0
        if life.by_itself:
            broken.append(f"life {number} ended by itself, with status {life.status}")
        elif life.status != expected:
            broken.append(f"life {number} was to end by {life.ending} and has status {life.status}")
        if life.left:
            broken.append(f"life {number} left {life.left} processes behind")
    return broken


def leaks(life: Life) -> list[str]:
    """What grew between the first and the last third of a long life after its warm-up, in words."""
    found = []
    for name in COMPARED:
        seen = _ends(life, name)
        if len(seen) == 2 and seen[1] > seen[0] * (1 + GROWTH * (name == "memory")):
            unit = " MiB" if name == "memory" else ""
            found.append(f"{name} grew from {seen[0]:.0f} to {seen[1]:.0f}{unit} in {life.judged:.0f} s")
    return found


def _ends(life: Life, name: str) -> list[float]:
    """What a long life held in the first and in the last third after its warm-up, as `COMPARED` says."""
    thirds = zip(COMPARED[name], (life.third(0), life.third(2)), strict=True)
    return [pick([getattr(w, name) for w in part]) for pick, part in thirds if part]


def lines_lost(lines: Sequence[Mapping[str, float]], done: int) -> list[str]:
    """Steps of 0 .. done − 1 that metrics.jsonl lacks, has twice, or has too many, in words."""
    found, expected = [int(line["step"]) for line in lines], list(range(done))
    if found == expected:
        return []
    counts = Counter(found)
    wrong = sorted(step for step in {*counts, *expected} if counts[step] != (step < done))
    return [f"of {done} steps metrics.jsonl has {len(found)} lines; wrong are steps {wrong[:5]}"]


def tasks_lost(step: int, asked: Sequence[Task], found: Mapping[tuple[str, int], int], rollouts: int) -> list[str]:
    """Tasks of a step that were not trained once, in words.

    Args:
        step: which one.
        asked: tasks whose groups should have been trained.
        found: (task id, group) → trajectories in the log of the step.
        rollouts: a group.
    """
    expected = Counter(task.id for task in asked)
    groups = Counter(task for task, _ in found)
    wrong = [f"step {step}: task {t} in {groups[t]} groups, not {expected[t]}" for t in {*expected, *groups}
             if groups[t] != expected[t]]  # fmt: skip
    return wrong + [f"step {step}: {n} rollouts of {t}, not {rollouts}" for (t, _), n in found.items() if n != rollouts]


def logged_groups(path: Path) -> Counter[tuple[str, int]]:
    """(task id, group) → trajectories in a file of them; empty if there is no file."""
    lines = path.read_bytes().splitlines() if path.exists() else []  # text has other ends of lines within its strings
    return Counter((record["task"], record["group"]) for record in map(json.loads, lines))


def life_table(lives: Sequence[Life]) -> str:
    """A line a life: how long, how it ended, and what it held at both ends of what is judged, if it is long."""
    widths = {"memory": 11, "files": 8, "threads": 9, "children": 9}
    rows = ["life  seconds  ending  status  memory MiB    files    threads  children"]
    for number, life in enumerate(lives):
        parts = [" → ".join(f"{value:.0f}" for value in _ends(life, name)).rjust(widths[name]) for name in widths]
        rows.append(f"{number:4d}  {life.seconds:7.0f}  {life.ending:>6s}  {life.status!s:>6s} " + " ".join(parts))
    return "\n".join(rows)
