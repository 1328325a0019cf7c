"""What a run writes into its working directory, and what it shows while it works."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from tensorboardX import SummaryWriter

from pivotopd_jax.compilation import Compiled, compiled
from pivotopd_jax.processes import is_first
from pivotopd_jax.records import Note, Trajectory

METRICS_FILE = "metrics.jsonl"


class Moment(NamedTuple):
    """When something was.

    Attributes:
        age: of the process, in seconds.
        compiled: what it had built.
    """

    age: float
    compiled: Compiled

    @classmethod
    def now(cls) -> Moment:
        return cls(time.time() - psutil.Process().create_time(), compiled())


def make_recorder(directory: Path, *, resume_from: int, begun: Moment) -> QuietRecorder:
    """A recorder that writes into `directory`, in the first of all processes; one that writes nothing in the others.

    `begun` is when the run began to be put together.
    """
    return Recorder(directory, resume_from=resume_from, begun=begun) if is_first() else QuietRecorder()


class QuietRecorder:
    """Takes down what happens, and keeps it to itself.

    Attributes:
        seconds: seconds spent in each stage since the last call of `step`.
        total_seconds: over the whole process.
    """

    def __init__(self, console: Console | None = None):
        self.console = console or Console(quiet=True)
        self.seconds: dict[str, float] = {}
        self.total_seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts the seconds of a stage, waiting for other processes included, and shows its name while it lasts."""
        start = time.monotonic()
        with self.console.status(name):
            yield
        spent = time.monotonic() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + spent
        self.total_seconds[name] = self.total_seconds.get(name, 0.0) + spent

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Records one step."""
        del step, metrics
        self.seconds = {}

    def trajectories(self, step: int, trajectories: Sequence[Trajectory], notes: Sequence[Note]) -> None:
        """Records what was played."""

    def close(self) -> None:
        """Nothing more will come."""


class Recorder(QuietRecorder):
    """Writes metrics.jsonl, TensorBoard events and readable trajectories; prints one line a step.

    Attributes:
        directory: of the run.
    """

    def __init__(self, directory: Path, *, resume_from: int, begun: Moment | None = None):
        """Opens the files; lines of steps from `resume_from` on are of an interrupted attempt and are dropped.

        `begun` is when the run began; what was built since then counts for the first step.
        """
        super().__init__(Console(highlight=False))
        self._ready = Moment.now()
        self._begun: Moment | None = begun or self._ready
        self._compiled = self._begun.compiled
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        kept = [line for line in read_metrics(directory) if line["step"] < resume_from]
        temporary = directory / (METRICS_FILE + ".new")
        temporary.write_text("".join(json.dumps(line) + "\n" for line in kept))
        os.replace(temporary, directory / METRICS_FILE)
        self._metrics = (directory / METRICS_FILE).open("a")
        self._events = SummaryWriter(str(directory / "tensorboard"), purge_step=resume_from or None)

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Records one step, with the seconds of its stages and what was compiled meanwhile, and shows it."""
        until, self._compiled = self._compiled, compiled()
        built = self._compiled.since(until)._asdict()
        line: dict[str, float] = {"step": step, **metrics}
        line |= {f"seconds/{name}": value for name, value in self.seconds.items()}
        line |= {f"compile/{name}": value for name, value in built.items()}
        self._metrics.write(json.dumps(line) + "\n")
        self._metrics.flush()
        for name, value in line.items():
            if name != "step":
                self._events.add_scalar(name, value, step)
        self._show(step, metrics)
        if self._begun:
            self.console.print(first_step(self._begun, self._ready, Moment.now()), soft_wrap=True)
            self._begun = None
        self.seconds = {}

    def _show(self, step: int, metrics: Mapping[str, float]) -> None:
        shown = ("train/success", "eval/success", "train/rejected", "recovery/rows", "recovery/followed_share")
        parts = [
            f"{name.split('/')[-1] if 'eval' not in name else name} {metrics[name]:.3g}"
            for name in shown
            if name in metrics
        ]
        update = {"kl": "update/kl_reference", "grad": "update/grad_norm"}
        parts += [f"{title} {metrics[name]:.3g}" for title, name in update.items() if name in metrics]
        if "update/loss" not in metrics:
            parts.append("nothing to learn from: no update")
        line = f"step {step:4d}  {sum(self.seconds.values()):5.1f} s  " + "  ".join(parts)
        self.console.print(line, soft_wrap=True)

    def trajectories(self, step: int, trajectories: Sequence[Trajectory], notes: Sequence[Note]) -> None:
        """Writes trajectories/step_NNNNNN.jsonl, one readable trajectory of this process a line."""
        folder = self.directory / "trajectories"
        folder.mkdir(exist_ok=True)
        noted = {(n.trajectory, n.turn): n for n in notes}
        with (folder / f"step_{step:06d}.jsonl").open("w") as file:
            for index, trajectory in enumerate(trajectories):
                file.write(json.dumps(trajectory_record(index, trajectory, noted), ensure_ascii=False) + "\n")

    def close(self) -> None:
        self._metrics.close()
        self._events.close()


def first_step(begun: Moment, ready: Moment, ended: Moment) -> str:
    """Where the seconds between the start of a process and the end of its first step went."""
    built = ended.compiled.since(begun.compiled)
    return (
        f"first step ended {ended.age:.1f} s after the process began: {begun.age:.1f} imports, "
        f"{ready.age - begun.age:.1f} student and world, {ended.age - ready.age:.1f} the step; "
        f"{built.seconds:.1f} s of it to build {built.programs} programs, of which {built.cached} were read from the "
        "persistent cache"
    )


def trajectory_record(index: int, trajectory: Trajectory, noted: Mapping[tuple[int, int], Note]) -> dict[str, Any]:
    """A trajectory as plain JSON."""

    def turn_record(number: int) -> dict[str, Any]:
        turn, note = trajectory.turns[number], noted.get((index, number))
        record = {
            "observation": turn.observation.text,
            "response": turn.response,
            "action": turn.action,
            "accepted": turn.accepted,
            "actor": turn.actor,
            "log_prob": round(float(turn.log_probs.sum()), 4),
        }
        if note is not None:
            record |= {"gold_action": note.gold_action, "lesson": note.lesson, "pivotal": note.pivotal}
        return record

    return {
        "task": trajectory.task.id,
        "kind": trajectory.task.kind,
        "group": trajectory.group,
        "won": trajectory.won,
        "score": trajectory.score,
        "turns": [turn_record(number) for number in range(len(trajectory.turns))],
        "final": trajectory.final.text,
    }


def read_metrics(directory: Path) -> list[dict[str, float]]:
    """The lines of a run's metrics.jsonl; a last line cut short by a crash is dropped."""
    path = directory / METRICS_FILE
    lines = []
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines
