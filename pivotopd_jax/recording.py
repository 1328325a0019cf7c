"""What a run writes into its working directory, and what it shows while it works."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import psutil
from absl import logging
from rich.console import Console

from pivotopd_jax.compilation import Compiled, compiled
from pivotopd_jax.files import parse_json, write_json
from pivotopd_jax.processes import is_first
from pivotopd_jax.records import DivergenceBatch, TokenBatch
from pivotopd_jax.trackers import make_trackers, without_secrets

METRICS_FILE = "metrics.jsonl"
CONFIGURATION_FILE = "configuration.json"
SUMMARY_FILE = "summary.json"
TRAJECTORIES = "trajectories"
Records = Iterable[Mapping[str, Any]]


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


@contextmanager
def going_on_without(what: str) -> Iterator[None]:
    """A block in which `what` is written: if it cannot be, on a full disk say, there is a warning and no more."""
    try:
        yield
    except OSError as error:
        logging.warning("%s could not be written, and the run goes on without: %s", what, error)


def make_recorder(
    directory: Path, *, resume_from: int, configuration: Mapping[str, Any], begun: Moment
) -> QuietRecorder:
    """A recorder that writes into `directory`, in the first of all processes; one that writes nothing in the others.

    `begun` is when the run began to be put together.
    """
    if not is_first():
        return QuietRecorder(directory)
    return Recorder(directory, resume_from=resume_from, configuration=configuration, begun=begun)


class QuietRecorder:
    """Takes down what happens, and keeps it to itself; but for batches, of which each process has a part.

    Attributes:
        directory: of the run; None keeps batches, too.
        seconds: seconds spent in each stage since the last call of `step`.
        total_seconds: over the whole process.
    """

    def __init__(self, directory: Path | None = None, console: Console | None = None):
        self.directory, self.console = directory, console or Console(quiet=True)
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

    def trajectories(self, occasion: str, step: int, records: Records) -> None:
        """Records what was played."""

    def skipped(self, step: int, batch: TokenBatch, term: DivergenceBatch | None) -> None:
        """Keeps what the latest skipped update was made of: this process's rows, and those of a full-vocabulary term.

        They are the fields of a `TokenBatch` and, after "divergence_", of a `DivergenceBatch`.
        """
        if self.directory is None:
            return
        arrays = {"step": np.int32(step), **batch._asdict()}
        if term:
            arrays |= {f"divergence_{name}": value for name, value in term._asdict().items()}
        temporary = self.directory / (skipped_file() + ".new")
        with going_on_without(skipped_file()):
            with temporary.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
            os.replace(temporary, self.directory / skipped_file())

    def close(self) -> None:
        """Nothing more will come."""


class Recorder(QuietRecorder):
    """Writes metrics.jsonl, configuration.json and readable trajectories, tells trackers, prints one line a step."""

    def __init__(
        self, directory: Path, *, resume_from: int, configuration: Mapping[str, Any], begun: Moment | None = None
    ):
        """Opens the files; lines of steps from `resume_from` on are of an interrupted attempt and are dropped.

        `begun` is when the run began; what was built since then counts for the first step.

        Raises:
            ValueError, ImportError: a tracker that `configuration` names cannot be used.
        """
        super().__init__(directory, Console(highlight=False))
        self._ready = Moment.now()
        self._begun: Moment | None = begun or self._ready
        self._compiled = self._begun.compiled
        directory.mkdir(parents=True, exist_ok=True)
        kept = [line for line in read_metrics(directory) if line["step"] < resume_from]
        temporary = directory / (METRICS_FILE + ".new")
        temporary.write_text("".join(json.dumps(line) + "\n" for line in kept))
        os.replace(temporary, directory / METRICS_FILE)
        self._metrics = (directory / METRICS_FILE).open("a")
        write_json(directory / CONFIGURATION_FILE, without_secrets(configuration), indent=1)
        self._trackers = make_trackers(configuration["log"], directory, configuration, resume_from=resume_from)

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Records one step, with the seconds of its stages and what was compiled meanwhile, and shows it."""
        until, self._compiled = self._compiled, compiled()
        built = self._compiled.since(until)._asdict()
        line: dict[str, float] = {"step": step, **metrics}
        line |= {f"seconds/{name}": value for name, value in self.seconds.items()}
        line |= {f"compile/{name}": value for name, value in built.items()}
        with going_on_without(f"{METRICS_FILE} of step {step}"):
            self._metrics.write(json.dumps(line) + "\n")
            self._metrics.flush()  # what does not fit is kept, and tried again with the next line
        line.pop("step")
        for tracker in self._trackers:
            with going_on_without(f"{type(tracker).__name__} of step {step}"):
                tracker.log(step, line)
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
        update = {"kl": "update/kl_reference", "grad": "update/grad_norm", "drift": "drift/most"}
        parts += [f"{title} {metrics[name]:.3g}" for title, name in update.items() if name in metrics]
        if "update/loss" not in metrics:
            parts.append("nothing to learn from: no update")
        line = f"step {step:4d}  {sum(self.seconds.values()):5.1f} s  " + "  ".join(parts)
        self.console.print(line, soft_wrap=True)

    def trajectories(self, occasion: str, step: int, records: Records) -> None:
        """Writes them as `write_trajectories` does."""
        assert self.directory
        with going_on_without(f"trajectories of {occasion} {step}"):
            write_trajectories(self.directory, occasion, step, records)

    def close(self) -> None:
        with going_on_without(METRICS_FILE):
            self._metrics.close()
        for tracker in self._trackers:
            with going_on_without(type(tracker).__name__):
                tracker.close()


def first_step(begun: Moment, ready: Moment, ended: Moment) -> str:
    """Where the seconds between the start of a process and the end of its first step went."""
    built = ended.compiled.since(begun.compiled)
    return (
        f"first step ended {ended.age:.1f} s after the process began: {begun.age:.1f} before the run, "
        f"{ready.age - begun.age:.1f} student and world, {ended.age - ready.age:.1f} the step; "
        f"{built.seconds:.1f} s of it to build {built.programs} programs, of which {built.cached} were read from the "
        "persistent cache"
    )


def write_trajectories(directory: Path, occasion: str, step: int, records: Records) -> None:
    """Writes trajectories/OCCASION_NNNNNN.jsonl of the run in `directory`, one trajectory of this process a line.

    Args:
        directory: of the run.
        occasion: "step" for the rollouts of training step `step`; for evaluations after so many steps "validation", or
            "closing" at the end of the run.
        step: see `occasion`.
        records: made by `trajectory_records`.
    """
    folder = directory / TRAJECTORIES
    folder.mkdir(exist_ok=True)
    # Half of a character that UTF-8 cannot hold becomes an escape, which JSON reads as what it was.
    path = folder / f"{occasion}_{step:06d}.jsonl"
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def skipped_file() -> str:
    """Where this process keeps the batch of a skipped update."""
    return "skipped_update.npz" if jax.process_count() == 1 else f"skipped_update_{jax.process_index()}.npz"


def read_metrics(directory: Path) -> list[dict[str, float]]:
    """The lines of a run's metrics.jsonl, up to the first that is none: a last one cut short by a crash, say."""
    path = directory / METRICS_FILE
    lines = []
    for text in path.read_bytes().splitlines() if path.exists() else ():
        try:
            line = parse_json(text)
        except ValueError:
            break
        if not isinstance(line, dict) or type(line.get("step")) is not int or not all(map(_is_number, line.values())):
            break
        lines.append(line)
    return lines


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)
