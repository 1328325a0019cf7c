"""Where the numbers of a run go besides metrics.jsonl: TensorBoard, Weights & Biases."""

from __future__ import annotations

import importlib
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog  # type: ignore[attr-defined]
from tensorboardX.summary import scalar

WANDB_FILE = "wandb_run"
"""Holds the id of the run at Weights & Biases, so that a resumed run goes on there."""
HIDDEN = "hidden"
_USER = re.compile(r"(?<=://)[^@\s]+(?=@)")
_QUERY = re.compile(r"(?i)(?<=[?&])([^=&\s]*(?:key|token|secret|password)[^=&\s]*=)[^&\s]+")
_SECRET = re.compile(r"(?i)(^|_)(api_key|key|token|secret|password)$")


class Tracker(Protocol):
    """Takes down numbers."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Takes down the numbers of one step."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class TensorBoard:
    """Event files in `directory`; steps from `resume_from` on are of an interrupted attempt and are hidden.

    They are written at once: the thread that `SummaryWriter` writes on dies on a full disk, and the run would wait for
    it for ever.
    """

    def __init__(self, directory: Path, resume_from: int):
        directory.mkdir(parents=True, exist_ok=True)
        self._events = EventsWriter(str(directory / "events"), f".{resume_from}")
        if resume_from:
            start = SessionLog(status=SessionLog.START)
            self._events.write_event(Event(wall_time=time.time(), step=resume_from, session_log=start))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._events.write_event(Event(wall_time=time.time(), step=step, summary=scalar(name, value)))
        self._events.flush()

    def close(self) -> None:
        self._events.close()


class WeightsAndBiases:
    """A run at Weights & Biases: its numbers and its configuration without secrets; no code, no output, no command.

    The key is the library's own affair: `wandb login`, or $WANDB_API_KEY. WANDB_MODE=offline keeps all here.
    """

    def __init__(self, directory: Path, project: str, configuration: Mapping[str, Any]):
        """Opens the run, or goes on with the one that `directory` remembers.

        Raises:
            ImportError: the library is not installed.
        """
        try:
            wandb = importlib.import_module("wandb")
        except ImportError as error:
            raise ImportError(
                "config.log.trackers names wandb, which is not installed; pip install -r requirements-wandb.txt, or "
                "leave it out"
            ) from error
        kept = directory / WANDB_FILE
        if not kept.exists():
            kept.write_text(secrets.token_hex(8))
        settings = wandb.Settings(console="off", disable_code=True, disable_git=True, x_disable_meta=True)
        self._run = wandb.init(
            project=project, dir=str(directory), id=kept.read_text().strip(), resume="allow", name=directory.name,
            config=without_secrets(configuration), settings=settings,
        )  # fmt: skip

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()


def make_trackers(log: Mapping[str, Any], directory: Path, configuration: Mapping[str, Any], *, resume_from: int):
    """The trackers that `log` (`config.log`) names, for the run in `directory`.

    Raises:
        ValueError: one is not known.
        ImportError: the library of one is not installed.
    """
    names = check_trackers(log["trackers"])
    makers = {
        "tensorboard": lambda: TensorBoard(directory / "tensorboard", resume_from),
        "wandb": lambda: WeightsAndBiases(directory, log["project"], configuration),
    }
    trackers: list[Tracker] = [makers[name]() for name in names]
    return trackers


def check_trackers(named: str) -> list[str]:
    """The trackers in a list with commas.

    Raises:
        ValueError: one is not known.
    """
    names = [name.strip() for name in named.split(",") if name.strip()]
    for name in names:
        if name not in ("tensorboard", "wandb"):
            raise ValueError(f"config.log.trackers is {named!r}; expected 'tensorboard', 'wandb', both, or ''")
    return names


def without_secrets(value: Any, name: str = "") -> Any:
    """A configuration in which whatever looks like a secret is hidden: keys, and what URLs say of users and keys."""
    if isinstance(value, Mapping):
        return {key: without_secrets(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(inner, name) for inner in value]
    if not isinstance(value, str):
        return value
    if value and _SECRET.search(name):
        return HIDDEN
    return _QUERY.sub(rf"\g<1>{HIDDEN}", _USER.sub(HIDDEN, value))
