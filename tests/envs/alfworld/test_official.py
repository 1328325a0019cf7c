"""The official engine behind our protocol: its bookkeeping on a stand-in, and itself where it is installed."""

from __future__ import annotations

import importlib.util
import json
import random

import pytest

from pivotopd_jax.envs.alfworld import official
from pivotopd_jax.envs.alfworld.engine import AlfWorldEnv
from pivotopd_jax.envs.alfworld.games import KINDS, GameError, load_packed
from pivotopd_jax.envs.alfworld.official import OfficialAlfWorldEnv, OfficialSnapshot
from pivotopd_jax.records import Task

INSTALLED = all(importlib.util.find_spec(name) for name in ("alfworld", "textworld"))
needs_alfworld = pytest.mark.skipif(not INSTALLED, reason="the official engine is not installed (pip install alfworld)")


class Corridor:
    """A stand-in for the official engine: three rooms in a row, won in the last one."""

    def __init__(self):
        self.resets, self.steps, self.room = 0, 0, 0

    def reset(self):
        self.resets, self.room = self.resets + 1, 0
        return self._state("You wake up.")

    def step(self, command):
        self.steps += 1
        said = "Nothing happens."
        if command.strip() in self._commands():
            self.room += {"on": 1, "back": -1, "help": 0}[command.strip()]
            said = f"Room {self.room}."
        state = self._state(said)
        return state, int(state["won"]), state["won"]

    def _commands(self):
        return ["help", "on"] if self.room == 0 else ["back", "help", "on"]

    def _state(self, said):
        return {"feedback": said, "admissible_commands": self._commands(), "won": self.room == 2}


class Backend:
    """Hands out corridors and remembers what it was asked to load."""

    def __init__(self):
        self.loaded, self.engine = [], Corridor()

    def load(self, game_file):
        self.loaded.append(game_file)
        return self.engine

    def rules(self, folder):
        return "domain", '"Your task is to: UNKNOWN GOAL."'


@pytest.fixture
def backend(monkeypatch):
    backend = Backend()
    monkeypatch.setattr(official, "_Backend", lambda: backend)
    return backend


TASK = Task("t", "k", {"task_desc": 'find "it".', "pddl_problem": "problem"})


def test_an_episode(backend):
    env = OfficialAlfWorldEnv()
    assert env.reset(TASK).text == "You wake up."
    assert env.accepts(" on ")
    assert env.accepts("help")
    assert not env.accepts("back")
    results = [env.step(command) for command in ("back", "on", "on")]
    assert [(r.observation.text, r.reward, r.done, r.won) for r in results] == [
        ("Nothing happens.", 0.0, False, False),
        ("Room 1.", 0.0, False, False),
        ("Room 2.", 1.0, True, True),
    ]
    assert results[0].observation.admissible == ("on",)
    assert results[1].observation.admissible == ("back", "on")
    assert not env.accepts("on")
    with pytest.raises(RuntimeError, match="after the episode was won"):
        env.step("on")


def test_snapshots_are_replayed(backend):
    env, engine = OfficialAlfWorldEnv(list_help=True), backend.engine
    env.reset(TASK)
    env.step("on")
    env.step("dance")
    snapshot = env.snapshot()
    assert snapshot.commands == ("on",)
    assert snapshot.observation.text == "Nothing happens."
    assert snapshot.observation.admissible == ("back", "help", "on")
    env.step("on")
    assert env.restore(snapshot) == snapshot.observation
    assert (engine.room, engine.resets) == (1, 2)
    assert env.step("on").won
    # What lies ahead is reached without starting again.
    won = env.snapshot()
    env.restore(snapshot)
    env.restore(won)
    assert (engine.room, engine.resets) == (2, 3)
    assert len(backend.loaded) == 1
    other = OfficialAlfWorldEnv(list_help=True)
    assert other.restore(snapshot) == snapshot.observation
    assert other.snapshot() == snapshot


def test_a_replay_that_goes_wrong_is_reported(backend):
    env = OfficialAlfWorldEnv()
    shown = env.reset(TASK)
    with pytest.raises(RuntimeError, match="refuses 'back' on replay"):
        env.restore(OfficialSnapshot(TASK, ("back",), shown, False, False))
    with pytest.raises(TypeError, match="got str"):
        env.restore("x")


def test_before_the_first_reset(backend):
    env = OfficialAlfWorldEnv()
    for call in (lambda: env.step("on"), env.snapshot, lambda: env.accepts("on")):
        with pytest.raises(RuntimeError, match="no episode is running"):
            call()


def test_sources(backend, kitchen, tmp_path):
    env = OfficialAlfWorldEnv()
    env.reset(TASK)
    packed = {"pddl_domain": "domain", "grammar": '"Your task is to: find \\"it\\"."', "pddl_problem": "problem"}
    assert backend.loaded[-1] == packed
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(packed))
    for source in (packed, path, str(path)):
        env.reset(Task("t", "k", source))
        assert backend.loaded[-1] == packed
    with pytest.raises(GameError, match="got Game; a Game no longer has the text"):
        env.reset(Task("t", "k", kitchen.game()))
    with pytest.raises(GameError, match="got int"):
        env.reset(Task("t", "k", 3))


@pytest.mark.skipif(INSTALLED, reason="the official engine is installed")
def test_without_alfworld_the_message_says_what_to_do():
    with pytest.raises(ImportError, match="pip install alfworld"):
        OfficialAlfWorldEnv()


def walk_both(theirs, ours, task, chance, turns):
    """A random walk, with less going about than a uniform choice would give, in both engines at once."""
    shown = theirs.reset(task)
    assert ours.reset(task) == shown
    for _ in range(turns):
        commands = [c for c in shown.admissible or () if chance.random() < 0.2 or not c.startswith(("go", "help"))]
        result = theirs.step(command := chance.choice(commands or ["look"]))
        assert ours.step(command) == result
        if result.done:
            break
        shown = result.observation


@needs_alfworld
@pytest.mark.slow
def test_the_official_engine_says_the_same_in_the_kitchen(alfworld_data, kitchen):
    theirs, ours = OfficialAlfWorldEnv(list_help=True, rules=alfworld_data), AlfWorldEnv(list_help=True)
    for kind in KINDS:
        row = {"id": f"{kind}-/kitchen", "task_desc": "tidy up.", "pddl_problem": kitchen.problem(kind)}
        walk_both(theirs, ours, Task(row["id"], kind, row), random.Random(kind), 100)


@needs_alfworld
@pytest.mark.slow
@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_the_official_engine_says_the_same(alfworld_data, split):
    path = alfworld_data / f"{split}.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"{path} does not exist")
    theirs, ours = OfficialAlfWorldEnv(list_help=True, rules=alfworld_data), AlfWorldEnv(list_help=True)
    for row in load_packed(path)[::45]:
        task = Task(row["id"], "k", row)
        walk_both(theirs, ours, task, random.Random(row["id"]), 40)
        snapshot = theirs.snapshot()
        theirs.reset(task)
        theirs.restore(snapshot)
        assert theirs.snapshot() == snapshot
