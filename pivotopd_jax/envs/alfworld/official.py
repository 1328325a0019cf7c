"""The official engine (alfworld on textworld) behind our protocol: a slow, optional second opinion on `engine`.

It takes over a second to start a game and a tenth of a second a step, and it cannot be copied: a snapshot is the list
of commands that led to it, and restoring one plays them again. `pip install alfworld` compiles a planner for about ten
minutes; nothing else in this project needs it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pivotopd_jax.envs.alfworld.games import Game, GameError
from pivotopd_jax.envs.protocol import Snapshot
from pivotopd_jax.records import Observation, StepResult, Task

NOTHING_HAPPENS = "Nothing happens."

INSTALL = (
    "the official ALFWorld engine is not installed; run "
    "`CMAKE_BUILD_PARALLEL_LEVEL=2 MAKEFLAGS=-j2 pip install alfworld` "
    "(it compiles for about ten minutes), or use AlfWorldEnv, which plays the same games"
)


class OfficialSnapshot(NamedTuple):
    """One moment of an episode of the official engine.

    Attributes:
        task: whose `source` the game is built from again.
        commands: what was carried out since the start; inadmissible commands are not in it.
        observation: what was last shown.
        done, won: as of the last step.
    """

    task: Task
    commands: tuple[str, ...]
    observation: Observation
    done: bool
    won: bool


class OfficialAlfWorldEnv:
    """One running episode of the official engine. Takes tasks whose `source` is

    - the path of a `game.tw-pddl`, or an object with such a `path`;
    - the content of such a file, a mapping with pddl_domain, grammar and pddl_problem;
    - a packed row {task_desc, pddl_problem}, to which `rules` adds domain and grammar.
    """

    def __init__(self, *, list_help: bool = False, rules: str | Path | None = None) -> None:
        """Looks for the official engine.

        Args:
            list_help: keep the command `help` in the lists of admissible commands.
            rules: folder with domain.pddl and grammar.twl2 for packed rows; None: those that come with alfworld.

        Raises:
            ImportError: alfworld is not installed, with what to do.
        """
        self._backend = _Backend()
        self._list_help = list_help
        self._rules = None if rules is None else Path(rules)
        self._now: OfficialSnapshot | None = None
        self._engine: Any = None
        self._task: Task | None = None
        self._state: Any = None

    def reset(self, task: Task) -> Observation:
        """Starts `task` and returns the official first text.

        Raises:
            GameError: `task.source` is none of the forms above.
        """
        if self._engine is None or task is not self._task:
            self._engine = self._backend.load(self._game_file(task.source))
            self._task = task
        self._state = self._engine.reset()
        self._now = OfficialSnapshot(task, (), self._observe(), False, bool(self._state["won"]))
        return self._now.observation

    def step(self, action: str) -> StepResult:
        """Carries `action` out.

        Raises:
            RuntimeError: before `reset`, or after the episode was won.
        """
        task, commands, _, done, _ = self._current()
        if done:
            raise RuntimeError("step() after the episode was won; call reset(task) or restore(snapshot) first")
        carried_out = self.accepts(action)
        self._state, reward, done = self._engine.step(action)
        observation, won = self._observe(), bool(self._state["won"])
        commands = (*commands, action) if carried_out else commands
        self._now = OfficialSnapshot(task, commands, observation, bool(done), won)
        return StepResult(observation, float(reward), bool(done), won)

    def accepts(self, action: str) -> bool:
        """Whether `action` would be carried out now. True for `help`, listed or not."""
        return not self._current().done and action.strip() in self._state["admissible_commands"]

    def snapshot(self) -> OfficialSnapshot:
        """The present moment.

        Raises:
            RuntimeError: before `reset`.
        """
        return self._current()

    def restore(self, snapshot: Snapshot) -> Observation:
        """Plays the commands of `snapshot` again, and returns what was last shown when it was taken.

        Raises:
            TypeError: `snapshot` is not an `OfficialSnapshot`.
            RuntimeError: the engine refused a command that it had carried out before.
        """
        if not isinstance(snapshot, OfficialSnapshot):
            raise TypeError(f"expected an OfficialSnapshot, got {type(snapshot).__name__}")
        for command in self._still_to_play(snapshot):
            if command.strip() not in self._state["admissible_commands"]:
                raise RuntimeError(f"task {snapshot.task.id!r}: the official engine refuses {command!r} on replay")
            self._state, _, _ = self._engine.step(command)
        self._now = snapshot
        return snapshot.observation

    def _still_to_play(self, snapshot: OfficialSnapshot) -> tuple[str, ...]:
        """The commands from here to `snapshot`, after a reset if it does not lie ahead."""
        now = self._now
        if now is not None and self._task is snapshot.task and now.task is snapshot.task:
            played = len(now.commands)
            if snapshot.commands[:played] == now.commands:
                return snapshot.commands[played:]
        self.reset(snapshot.task)
        return snapshot.commands

    def _observe(self) -> Observation:
        commands = self._state["admissible_commands"]
        return Observation(self._state["feedback"], tuple(c for c in commands if self._list_help or c != "help"))

    def _current(self) -> OfficialSnapshot:
        if self._now is None:
            raise RuntimeError("no episode is running; call reset(task) or restore(snapshot) first")
        return self._now

    def _game_file(self, source: Any) -> Mapping[str, Any]:
        """The content of a `game.tw-pddl` for a task's source."""
        path = getattr(source, "path", source)
        if isinstance(path, str | Path):
            return json.loads(Path(path).read_text(encoding="utf-8"))
        if isinstance(source, Mapping) and {"pddl_domain", "grammar", "pddl_problem"} <= source.keys():
            return source
        if isinstance(source, Mapping) and {"task_desc", "pddl_problem"} <= source.keys():
            domain, grammar = self._backend.rules(self._rules)
            sentence = json.dumps(source["task_desc"])[1:-1]
            grammar = grammar.replace("UNKNOWN GOAL.", "UNKNOWN GOAL").replace("UNKNOWN GOAL", sentence)
            return {"pddl_domain": domain, "grammar": grammar, "pddl_problem": source["pddl_problem"]}
        hint = "; a Game no longer has the text of its problem" if isinstance(source, Game) else ""
        raise GameError(f"expected a path, a game file's content or a packed row, got {type(source).__name__}{hint}")


class _Backend:
    """What we use of alfworld and textworld; importing them takes a second, so it happens here."""

    def __init__(self) -> None:
        try:
            textworld = importlib.import_module("textworld")
            environments = importlib.import_module("textworld.envs")
            demangling = importlib.import_module("alfworld.agents.environment.alfred_tw_env")
            info = importlib.import_module("alfworld.info")
        except ImportError as error:
            raise ImportError(f"{INSTALL} ({error})") from error
        self._infos, self._engine = textworld.EnvInfos, environments.PddlEnv
        self._demangler = demangling.AlfredDemangler
        self._packaged = (Path(info.ALFRED_PDDL_PATH), Path(info.ALFRED_TWL2_PATH))

    def load(self, game_file: Mapping[str, Any]) -> Any:
        """A loaded engine whose names read "mug 3" instead of "mug_bar_..."."""
        infos = self._infos(feedback=True, won=True, admissible_commands=True)
        engine = self._demangler(self._engine(infos), shuffle=False)
        engine.load(game_file)
        return engine

    def rules(self, folder: Path | None) -> tuple[str, str]:
        """Texts of the domain and the grammar."""
        domain, grammar = self._packaged if folder is None else (folder / "domain.pddl", folder / "grammar.twl2")
        return domain.read_text(encoding="utf-8"), grammar.read_text(encoding="utf-8")
