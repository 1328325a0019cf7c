"""Finds ALFWorld's released games on disk, in either form: packed (`train.jsonl.xz`) or one folder per game.

Folders are those of `alfworld-download`: `json_2.1.1/<split>/<task>/<trial>/game.tw-pddl`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pivotopd_jax.envs.alfworld.games import KINDS, GameError, kind_of, load_game_file, load_packed

VARIABLE = "ALFWORLD_DATA"
"""Environment variable that says where the games are."""

SPLITS = ("train", "valid_seen", "valid_unseen", "valid_train")

_RELEASE = "json_2.1.1"
_PACKED = (".jsonl.xz", ".jsonl.gz", ".jsonl")
_UNSOLVABLE = re.compile(rb'"solvable"\s*:\s*false')


class GameFile(Mapping[str, Any]):
    """A packed row that stays on disk until more than its id is asked for. Equal, and picklable, by path."""

    def __init__(self, path: Path) -> None:
        """`path`: `<split>/<task>/<trial>/game.tw-pddl`; the id is "task/trial"."""
        self.path = path

    def __getitem__(self, key: str) -> Any:
        if key == "id":
            return f"{self.path.parent.parent.name}/{self.path.parent.name}"
        return _read(self.path)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(_read(self.path))

    def __len__(self) -> int:
        return len(_read(self.path))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GameFile) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"GameFile({str(self.path)!r})"


@lru_cache(maxsize=256)
def _read(path: Path) -> dict[str, Any]:
    game = load_game_file(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    return {
        "id": game.id,
        "task_desc": game.description,
        "walkthrough": data.get("walkthrough", []),
        "pddl_problem": data["pddl_problem"],
        "wording": game.wording,
    }


def data_directory() -> Path:
    """The directory that `ALFWORLD_DATA` names.

    Raises:
        FileNotFoundError: the variable is not set.
    """
    value = os.environ.get(VARIABLE)
    if not value:
        raise FileNotFoundError(
            f"real ALFWorld games were asked for, but {VARIABLE} is not set; run alfworld-download and set it to the "
            "directory that holds json_2.1.1, pass a path, or use generated games, which need no data"
        )
    return Path(value)


def find_splits(directory: Path) -> dict[str, Path]:
    """The splits found in `directory`: name -> packed file or folder of games, in the order of `SPLITS`.

    Raises:
        FileNotFoundError: no such directory, or no games in it.
    """
    if not directory.is_dir():
        raise FileNotFoundError(
            f"no directory {str(directory)!r} with ALFWorld games; run alfworld-download (or set {VARIABLE}), "
            "or use generated games, which need no data"
        )
    found = {split: path for split in SPLITS if (path := _find(directory, split)) is not None}
    if not found:
        raise FileNotFoundError(
            f"no ALFWorld games in {str(directory)!r}; expected {_RELEASE}/<split>/<task>/<trial>/game.tw-pddl or "
            f"<split>.jsonl.xz, with <split> one of {', '.join(SPLITS)}"
        )
    return found


def _find(directory: Path, split: str) -> Path | None:
    packed = [directory / (split + suffix) for suffix in _PACKED]
    folders = [directory / _RELEASE / split, directory / split]
    return next((path for path in packed if path.is_file()), next((path for path in folders if path.is_dir()), None))


def read_split(path: Path) -> list[Mapping[str, Any]]:
    """The games of a split as packed rows: in file order, or (lazily read) in the order of their paths.

    Like the official loader, leaves out folders of games with movable receptacles or sliced objects, and games marked
    as unsolvable.

    Raises:
        GameError: a packed file is broken, or no game is left.
    """
    rows: list[Mapping[str, Any]] = list(load_packed(path) if path.is_file() else _folders(path))
    if not rows:
        raise GameError(f"{path}: no games in it; expected <task>/<trial>/game.tw-pddl, not marked as unsolvable")
    return rows


def _folders(path: Path) -> Iterator[GameFile]:
    for task in sorted(path.iterdir()):
        if kind_of(f"{task.name}/trial") in KINDS and not re.search("movable|Sliced", task.name):
            for file in sorted(task.glob("*/game.tw-pddl")):
                if not _UNSOLVABLE.search(file.read_bytes()):
                    yield GameFile(file)
