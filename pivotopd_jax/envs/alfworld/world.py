"""ALFWorld as a world: its tasks by split, real or generated, whole or thinned; its episodes; its planner."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pivotopd_jax.envs.alfworld import game_files, generator
from pivotopd_jax.envs.alfworld.engine import AlfWorldEnv
from pivotopd_jax.envs.alfworld.exploration import SearchOrder
from pivotopd_jax.envs.alfworld.games import KINDS, GameError, as_game, kind_of
from pivotopd_jax.envs.alfworld.planner import AlfWorldPlanner
from pivotopd_jax.envs.alfworld.thinning import ThinningError, thin_problem
from pivotopd_jax.envs.drawn import DrawnTasks
from pivotopd_jax.records import Task

LABELS = dict(zip(KINDS, ("Pick", "Look", "Clean", "Heat", "Cool", "Pick2"), strict=True))
"""Task type -> column of the papers' tables."""

GENERATED = {"train": 1_000_000, "valid": 1_200, "test": 1_200}
"""Splits of generated games and their sizes."""

_ALL = 1_000_000  # more receptacles or objects than any game has

_log = logging.getLogger(__name__)


class AlfWorld:
    """ALFWorld games, their episodes and their planner.

    Attributes:
        name: says which games these are and whether they were thinned, for tables and logs.
        kinds: Pick, Look, Clean, Heat, Cool, Pick2.
        splits: names that `tasks` takes.
        dropped: split -> {id of a game that was left out: why}, once `tasks` was called for it.
    """

    kinds: Sequence[str] = tuple(LABELS.values())

    def __init__(
        self,
        source: str | Path = "generated",
        *,
        receptacles: int | None = None,
        distractors: int | None = None,
        search: SearchOrder = "likeliest",
        seed: int = 0,
        skip_broken: bool = False,
    ) -> None:
        """Looks where the games are; they are read when they are asked for.

        Args:
            source: "generated" (splits train, valid and test; no data needed), "real" (the directory that the
                environment variable ALFWORLD_DATA names) or the path of such a directory (splits train, valid_seen,
                valid_unseen, valid_train, as far as they are there).
            receptacles: size of the rooms. Real games with more are thinned, which makes other games of them:
                results on them are not ALFWorld scores. None: all.
            distractors: how many objects a room holds beyond those the goal needs: thinned likewise. None: all.
            search: in which order the planner explores: "likeliest", what the training games suggest, or "listed", as
                the first text lists the receptacles.
            seed: decides what thinning keeps.
            skip_broken: leave broken real games out (which reads every game of a split at once) instead of raising
                when one is played; `dropped` says which.

        Raises:
            ValueError: `receptacles` or `distractors` out of range, unknown `search`.
            FileNotFoundError: no games where `source` says.
        """
        self._size = (receptacles, distractors)
        self._seed = seed
        self._skip_broken = skip_broken
        self._planner = AlfWorldPlanner(search=search)
        self._tasks: dict[str, Sequence[Task]] = {}
        self.dropped: dict[str, dict[str, str]] = {}
        generator.check_size(receptacles, distractors)
        generated = source == "generated"
        self._files = {} if generated else game_files.find_splits(_directory(source))
        self.splits: Sequence[str] = tuple(GENERATED if generated else self._files)
        self.name = f"alfworld ({', '.join(_words(generated, *self._size))})"

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split, in a fixed order; `Task.kind` is one of `kinds`.

        Thinned real games are all read and planned at once, about 10 ms each; those that became impossible are left
        out, with a warning and an entry in `dropped`.

        Raises:
            ValueError: no such split, with the ones that exist.
            GameError: a broken game, unless they are skipped.
        """
        if split not in self.splits:
            raise ValueError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        if split not in self._tasks:
            self._tasks[split] = self._load(split) if self._files else generated_tasks(split, *self._size)
        return self._tasks[split]

    def make(self) -> AlfWorldEnv:
        """A fresh episode holder."""
        return AlfWorldEnv()

    @property
    def planner(self) -> AlfWorldPlanner:
        """The planner of these games."""
        return self._planner

    def _load(self, split: str) -> Sequence[Task]:
        rows = game_files.read_split(self._files[split])
        dropped: dict[str, str] = {}
        tasks = tuple(task for row in rows if (task := self._admitted(row, dropped)) is not None)
        self.dropped[split] = dropped
        if dropped:
            id, reason = next(iter(dropped.items()))
            count = f"{len(dropped)} of {len(rows)}"
            _log.warning("%s, %s: left out %s games, such as %s (%s)", self.name, split, count, id, reason)
        return tasks

    def _admitted(self, row: Mapping[str, Any], dropped: dict[str, str]) -> Task | None:
        """The task of a real game; None, and why in `dropped`, for one to be left out."""
        try:
            return self._thinned(row) if self._size != (None, None) else self._whole(row)
        except ThinningError as error:
            dropped[row["id"]] = str(error)
        except GameError as error:
            if not self._skip_broken:
                raise GameError(
                    f"{error}; to go on without broken games, use AlfWorld(..., skip_broken=True)"
                ) from error
            dropped[row["id"]] = str(error)
        return None

    def _whole(self, row: Mapping[str, Any]) -> Task:
        if self._skip_broken:
            as_game(row)
        return _task(row)

    def _thinned(self, row: Mapping[str, Any]) -> Task:
        receptacles, distractors = (_ALL if size is None else size for size in self._size)
        problem = thin_problem(
            row["pddl_problem"], receptacles=receptacles, distractors=distractors, seed=self._seed, id=row["id"]
        )
        task = _task({**row, "pddl_problem": problem, "walkthrough": []})
        env = self.make()
        env.reset(task)
        if not 0 < self._planner.distance(env.snapshot()) < math.inf:
            raise ThinningError(f"game {task.id!r}: solved or impossible once thinned")
        return task


def generated_tasks(split: str, receptacles: int | None, distractors: int | None) -> Sequence[Task]:
    """The tasks of one of `GENERATED`, drawn when they are asked for; task i is of kind i modulo 6."""
    return DrawnTasks(GENERATED[split], lambda seed: _task(_drawn(seed, split, receptacles, distractors)))


@lru_cache(maxsize=512)
def _drawn(seed: int, split: str, receptacles: int | None, distractors: int | None) -> dict[str, Any]:
    kind = KINDS[seed % len(KINDS)]
    return generator.generate_game(seed, kind=kind, split=split, receptacles=receptacles, distractors=distractors)


def _task(row: Mapping[str, Any]) -> Task:
    kind = kind_of(row["id"])
    if kind not in LABELS:
        raise GameError(f"game {row['id']!r}: unknown task type {kind!r}; expected one of {', '.join(LABELS)}")
    return Task(row["id"], LABELS[kind], row)


def _directory(source: str | Path) -> Path:
    return game_files.data_directory() if source == "real" else Path(source)


def _words(generated: bool, receptacles: int | None, distractors: int | None) -> list[str]:
    sizes = [(receptacles, "receptacles"), (distractors, "distractors")]
    words = ["generated" if generated else "real"] + [f"{size} {what}" for size, what in sizes if size is not None]
    if not generated and len(words) > 1:
        words[1] = f"thinned to {words[1]}"
    return words
