"""The trajectories that a run has written, found again: an index of all lines, single ones on demand, and search.

What a model or a teacher wrote is in these files, and anyone may have edited them: nothing in them is trusted. A line
that cannot be read is named, and the others are still there.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from pivotopd_jax.recording import TRAJECTORIES

OCCASIONS = {"step": "training", "validation": "validation", "closing": "closing evaluation"}
FILE_NAME = re.compile(r"(step|validation|closing)_(\d{1,9})\.jsonl")


class Entry(NamedTuple):
    """What the index knows of one line.

    Attributes:
        offset, length: in bytes.
        line: its number, from 1.
        task, kind, group, won, score: as in `records.Trajectory`.
        turns, pivotal, recoveries: how many there are.
    """

    offset: int
    length: int
    line: int
    task: str
    kind: str
    group: int
    won: bool
    score: float
    turns: int
    pivotal: int
    recoveries: int


class Problem(NamedTuple):
    """A line that cannot be read, and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}.jsonl, line {self.line}: {self.reason}"


class LogFile(NamedTuple):
    """One file of the log.

    Attributes:
        name: without its ending.
        occasion: "step", "validation" or "closing".
        step: of training, or the number of steps before an evaluation.
        entries: of the lines that can be read.
        problems: the other ones.
        stamp: size in bytes and time of the last change, by which a changed file is known.
    """

    name: str
    occasion: str
    step: int
    entries: Sequence[Entry]
    problems: Sequence[Problem]
    stamp: tuple[int, int]


class TrajectoryLog:
    """The log of the run in `directory`; a run that is still going on may be read, see `refresh`.

    Attributes:
        directory: of the run.
        files: by name, in the order of their steps.
    """

    def __init__(self, directory: Path):
        """Reads all of it once.

        Raises:
            FileNotFoundError: there is no log.
        """
        self.directory, self.files = directory, dict[str, LogFile]()
        self._folder, self._lock = directory / TRAJECTORIES, Lock()
        if not self._folder.is_dir():
            raise FileNotFoundError(
                f"{directory} holds no folder {TRAJECTORIES}; expected the --workdir of a run of launch/train.py"
            )
        self.refresh()
        if not self.files:
            raise FileNotFoundError(f"{self._folder} holds no trajectories yet; a run writes them after its first step")

    def refresh(self) -> None:
        """Reads the files that are new or have changed."""
        with self._lock:
            found = {path.stem: path for path in self._folder.iterdir() if FILE_NAME.fullmatch(path.name)}
            files = [self._known(name) or index_file(path) for name, path in found.items()]
            order = list(OCCASIONS)
            self.files = {f.name: f for f in sorted(files, key=lambda f: (f.step, order.index(f.occasion)))}

    def _known(self, name: str) -> LogFile | None:
        known = self.files.get(name)
        return known if known and known.stamp == _stamp(self.path(name)) else None

    def path(self, name: str) -> Path:
        """Where the file of a name that is in `files` lies."""
        return self._folder / f"{name}.jsonl"

    def read(self, name: str, line: int) -> dict[str, Any]:
        """The trajectory in one line.

        Raises:
            KeyError: there is no such file, or no readable line of that number.
            ValueError: the line has changed since and cannot be read.
        """
        if name not in self.files:
            raise KeyError(f"the log has no file {name!r}")
        entry = next((e for e in self.files[name].entries if e.line == line), None)
        if entry is None:
            problem = next((p for p in self.files[name].problems if p.line == line), None)
            raise KeyError(str(problem) if problem else f"{name}.jsonl has no line {line}")
        with self.path(name).open("rb") as file:
            file.seek(entry.offset)
            return parse_line(file.read(entry.length))

    def records(self) -> Iterator[tuple[LogFile, Entry, dict[str, Any]]]:
        """Every trajectory that can be read, in order."""
        for file in self.files.values():
            for entry in file.entries:
                yield file, entry, self.read(file.name, entry.line)

    def search(self, text: str, limit: int) -> tuple[list[tuple[str, int]], bool]:
        """Trajectories in which `text` occurs, in whatever was shown, said or noted; case does not matter.

        Returns:
            (file, line) of the first `limit` in order, and whether these are all.
        """
        found: list[tuple[str, int]] = []
        for file in self.files.values():
            for entry in self._candidates(file, text):
                if not any(text.lower() in words.lower() for words in texts(self.read(file.name, entry.line))):
                    continue
                if len(found) == limit:
                    return found, False
                found.append((file.name, entry.line))
        return found, True

    def _candidates(self, file: LogFile, text: str) -> Iterator[Entry]:
        """Entries whose bytes hold `text`, be it only in a key; case matters beyond ASCII."""
        data = self.path(file.name).read_bytes().lower()
        needle = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "backslashreplace").lower()
        starts = [entry.offset for entry in file.entries]
        at = data.find(needle)
        while at >= 0:
            place = bisect_right(starts, at) - 1
            if place >= 0 and at < starts[place] + file.entries[place].length:
                yield file.entries[place]
            end = data.find(b"\n", at)
            at = data.find(needle, end) if end >= 0 else -1


def index_file(path: Path) -> LogFile:
    """The index of one file."""
    stamp, entries, problems, offset = _stamp(path), [], [], 0
    with path.open("rb") as file:
        for line, data in enumerate(file, 1):
            if data.strip():
                try:
                    entries.append(_entry(offset, data, line))
                except ValueError as error:
                    problems.append(Problem(path.stem, line, str(error)))
            offset += len(data)
    occasion, _, step = path.stem.partition("_")
    return LogFile(path.stem, occasion, int(step), entries, problems, stamp)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def parse_line(data: bytes) -> dict[str, Any]:
    """A trajectory; numbers that JSON does not know (NaN, Infinity) become None.

    Raises:
        ValueError: it is none; says what was expected, and not what was there.
    """
    try:
        record = json.loads(data, parse_constant=lambda _: None)
    except json.JSONDecodeError as error:
        cut = "" if data.endswith(b"\n") else "; the line is cut short"
        raise ValueError(f"expected JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}{cut}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected JSON in UTF-8 ({type(error).__name__})") from None
    if not isinstance(record, dict) or not _objects(record.get("turns")) or not _objects(record.get("recoveries", [])):
        raise ValueError("expected an object with a list of turns, as docs/viewing.md describes it")
    if not all(_objects(branch.get("turns")) for branch in record.get("recoveries", [])):
        raise ValueError("expected turns in every recovery, as docs/viewing.md describes it")
    return record


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


class _Turn(msgspec.Struct):
    pivotal: bool | None = None


class _Branch(msgspec.Struct):
    turns: list[_Turn]


class _Facts(msgspec.Struct):
    """What of a line the index needs; all else in it is checked to be JSON, and skipped."""

    turns: list[_Turn]
    task: str = ""
    kind: str = ""
    group: int | None = None
    won: bool | None = None
    score: float | None = None
    recoveries: list[_Branch] = []


_QUICK = msgspec.json.Decoder(_Facts)


def _facts(data: bytes) -> _Facts:
    """Ten times as fast as `parse_line`, which has the last word on what is odd.

    Raises:
        ValueError: as `parse_line` does.
    """
    try:
        data.decode()
        return _QUICK.decode(data)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        record = parse_line(data)
    group, score = record.get("group"), record.get("score")
    return _Facts(
        [_Turn(turn.get("pivotal") is True) for turn in record["turns"]],
        str(record.get("task", "")),
        str(record.get("kind", "")),
        group if isinstance(group, int) else 0,
        record.get("won") is True,
        float(score) if isinstance(score, int | float) and abs(score) < 1e9 else 0.0,
        [_Branch([]) for _ in record.get("recoveries", [])],
    )


def _entry(offset: int, data: bytes, line: int) -> Entry:
    facts = _facts(data)
    return Entry(
        offset,
        len(data),
        line,
        facts.task,
        facts.kind,
        facts.group or 0,
        facts.won is True,
        facts.score or 0.0,
        len(facts.turns),
        sum(turn.pivotal is True for turn in facts.turns),
        len(facts.recoveries),
    )


def texts(record: Mapping[str, Any]) -> Iterator[str]:
    """All that was shown, said or noted in a trajectory, prompts apart, which repeat it."""
    yield from (str(record.get(key) or "") for key in ("task", "kind", "final"))
    branches = record.get("recoveries", [])
    for turn in (*record["turns"], *(turn for branch in branches for turn in branch["turns"])):
        for key in ("observation", "response", "action", "gold_action", "lesson", "named"):
            yield str(turn.get(key) or "")
    yield from (str(branch.get("final") or "") for branch in branches)
