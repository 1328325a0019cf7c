"""Replays recorded episodes of an official engine in ours and counts where the two agree."""

from __future__ import annotations

import gzip
import json
import lzma
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pivotopd_jax.envs.alfworld.engine import AlfWorldEnv
from pivotopd_jax.envs.alfworld.games import Game, as_game, load_game_file, load_packed
from pivotopd_jax.envs.alfworld.planner import AlfWorldPlanner
from pivotopd_jax.records import Observation, Task

MAX_DIFFERENCES = 10


@dataclass
class Agreement:
    """Counts of one verification.

    Attributes:
        episodes: recorded episodes.
        steps: recorded steps; the first text of an episode is not a step.
        intro_equal: episodes whose first text and first admissible list agree.
        observation_equal: steps whose text agrees, character for character. First texts are not counted here.
        admissible_equal: steps whose list of admissible commands agrees, order included. First lists are not counted.
        won_equal: steps that agree on whether the task is solved.
        oracle_checked: steps with a recorded plan length that were compared.
        oracle_equal: those where our L(s) agrees; a recorded 0 in an unsolved state means "no plan", L(s) = inf.
        first_differences: the first few disagreements: {game, kind, step, what, expected, got}; step 0 is the start.
    """

    episodes: int = 0
    steps: int = 0
    intro_equal: int = 0
    observation_equal: int = 0
    admissible_equal: int = 0
    won_equal: int = 0
    oracle_checked: int = 0
    oracle_equal: int = 0
    first_differences: list[dict[str, Any]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Nothing differs."""
        return not self.first_differences

    def to_json(self) -> str:
        """One line of JSON with the fields above."""
        return json.dumps(asdict(self))


def verify_alfworld(episodes: str | Path, data: str | Path, *, oracle: bool = True) -> Agreement:
    """Plays every recorded ALFWorld episode again.

    Args:
        episodes: `*.jsonl`, `.jsonl.xz` or `.jsonl.gz`, one episode a line: {game: "split/task/trial", kind, intro,
            admissible, steps: [{action, feedback, admissible, won, planner_length?}]}, lists with `help`.
        data: folder of the games: packed `<split>.jsonl[.xz]`, or `[json_2.1.1/]<split>/<task>/<trial>/game.tw-pddl`.
        oracle: also compare L(s) with `planner_length`.

    Raises:
        FileNotFoundError: no such recording, or a game of it is not under `data`.
        GameError: a game cannot be read.
    """
    find = GameFinder(Path(data))
    agreement = Agreement()
    planner = AlfWorldPlanner() if oracle else None
    for episode in read_json_lines(episodes):
        _Replay(agreement, episode, find(episode["game"]), planner).run()
    return agreement


def read_json_lines(path: str | Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON-lines file, compressed by xz or gzip if its name says so."""
    openers: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}
    with openers.get(Path(path).suffix, open)(path, "rt", encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


class GameFinder:
    """Games by "split/task/trial" in either layout; a packed split is read once."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._split = cache(self._read_split)

    def __call__(self, name: str) -> Game:
        split, _, id = name.partition("/")
        rows = self._split(split)
        if id in rows:
            return as_game(rows[id])
        for root in (self._data / "json_2.1.1", self._data):
            path = root / name / "game.tw-pddl"
            if path.is_file():
                return load_game_file(path)
        raise FileNotFoundError(
            f"game {name!r} is not in {self._data}: expected {split}.jsonl.xz with it, or {name}/game.tw-pddl"
        )

    def _read_split(self, split: str) -> dict[str, dict[str, Any]]:
        for suffix in (".jsonl.xz", ".jsonl"):
            path = self._data / f"{split}{suffix}"
            if path.is_file():
                return {row["id"]: row for row in load_packed(path)}
        return {}


class _Replay:
    """One episode, step by step beside its recording."""

    def __init__(
        self, agreement: Agreement, episode: dict[str, Any], game: Game, planner: AlfWorldPlanner | None
    ) -> None:
        self._agreement, self._episode, self._planner = agreement, episode, planner
        self._env = AlfWorldEnv(list_help=True)
        self._task = Task(game.id, game.kind, game)

    def run(self) -> None:
        self._agreement.episodes += 1
        shown = self._env.reset(self._task)
        texts = self._same(0, "intro", self._episode["intro"], shown.text)
        self._agreement.intro_equal += self._same_list(0, self._episode["admissible"], shown) and texts
        for number, step in enumerate(self._episode["steps"], 1):
            self._step(number, step)

    def _step(self, number: int, step: dict[str, Any]) -> None:
        agreement = self._agreement
        # Should we, wrongly, have won already, the rest of the recording still gets compared.
        self._env.restore(self._env.snapshot()._replace(done=False))
        result = self._env.step(step["action"])
        agreement.steps += 1
        agreement.observation_equal += self._same(number, "observation", step["feedback"], result.observation.text)
        agreement.admissible_equal += self._same_list(number, step["admissible"], result.observation)
        agreement.won_equal += self._same(number, "won", step["won"], result.won)
        if self._planner is not None and "planner_length" in step:
            length = step["planner_length"]
            expected = math.inf if length == 0 and not step["won"] else float(length)
            agreement.oracle_checked += 1
            distance = float(self._planner.distance(self._env.snapshot()))
            agreement.oracle_equal += self._same(number, "oracle", expected, distance)

    def _same_list(self, number: int, expected: list[str], shown: Observation) -> bool:
        return self._same(number, "admissible", expected, list(shown.admissible or ()))

    def _same(self, number: int, what: str, expected: Any, got: Any) -> bool:
        differences = self._agreement.first_differences
        if expected != got and len(differences) < MAX_DIFFERENCES:
            where = {"game": self._episode["game"], "kind": self._episode.get("kind"), "step": number}
            differences.append({**where, "what": what, "expected": _plain(expected), "got": _plain(got)})
        return expected == got


def _plain(value: Any) -> Any:
    """JSON has no infinity."""
    return "inf" if value == math.inf else value
