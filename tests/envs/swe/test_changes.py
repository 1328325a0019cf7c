"""Tasks of taking one change back: the search that the tests guide, its oracle and its expert."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from swe_repository import archive

from pivotopd_jax.envs.swe.bubblewrap import Bubblewrap
from pivotopd_jax.envs.swe.changes import ONLY, TEST, Changes, apart, compose, reverse
from pivotopd_jax.envs.swe.engine import EXPECTED, Assignment, SweEnv, SweSnapshot
from pivotopd_jax.envs.swe.finishing import SUBMIT
from pivotopd_jax.envs.swe.instances import Instance
from pivotopd_jax.envs.swe.mutations import as_patch
from pivotopd_jax.envs.swe.planner import Known, SwePlanner
from pivotopd_jax.envs.swe.remembered import KeptBytes, Remembered
from pivotopd_jax.envs.swe.sandbox import Output, Ran
from pivotopd_jax.records import Observation, Task

NAMES = ("one", "two", "three")
RIGHT = {f"{name}.py": f"def {name}(x):\n    return x + {n}\n" for n, name in enumerate(NAMES, 1)}
TESTS = "".join(f"from {n} import {n}\ndef test_{n}(): assert {n}(0) == {i}\n" for i, n in enumerate(NAMES, 1))
FILES = {**RIGHT, "tests/test_all.py": TESTS}


class NoSandbox:
    """Nothing is to be run."""

    start = b""

    def run(self, *arguments, **options):
        raise AssertionError("a command was run")

    difference = run


def mended(name: str) -> Instance:
    """The instance of the mistake in the file of that name."""
    wrong = RIGHT[f"{name}.py"].replace("x + ", "x - ")
    tests = [f"tests/test_all.py::test_{n}" for n in NAMES]
    patch = as_patch(f"{name}.py", wrong, RIGHT[f"{name}.py"])
    failing = (f"tests/test_all.py::test_{name}",)
    return Instance(f"x.{name}", "x", "", "", patch, "", failing, tuple(set(tests) - set(failing)), archive="x.tar")


@pytest.fixture(scope="module")
def task(machine: Bubblewrap, tmp_path_factory: pytest.TempPathFactory) -> Task:
    """The second file is broken."""
    kept = KeptBytes(tmp_path_factory.mktemp("kept"))
    told, sandbox, changes = compose([mended(name) for name in NAMES], 1, 3, machine, archive(FILES), kept)
    return Task(told.id, "SWE", Assignment(told, sandbox, changes))


def test_the_task_is_told_and_laid_out(task):
    env = SweEnv()
    first = env.reset(task)
    changes = task.source.changes
    head, *listed, only = first.text.split("\n")
    assert only == ONLY
    assert head == "The tests of x fail: one of its last changes broke it. Changes:"
    assert listed[changes.guilty - 1] == f"{changes.guilty} two.py"
    assert sorted(line[2:] for line in listed) == ["one.py", "three.py", "two.py"]
    assert first.admissible == changes.commands(frozenset())
    shown = env.step(changes.look(changes.guilty)).observation.text
    assert "-    return x + 2\n+    return x - 2" in shown
    other = next(n for n in changes.numbers if n != changes.guilty)
    assert "+    return x + " in env.step(changes.look(other)).observation.text


def test_l_counts_the_changes_that_stand_wrong(task):
    env, planner, changes = SweEnv(), SwePlanner(), task.source.changes
    wrong = next(n for n in changes.numbers if n != changes.guilty)
    env.reset(task)
    steps = [
        (TEST, 2), (changes.take_back(wrong), 3), (changes.take_back(changes.guilty), 2), (TEST, 2),
        (changes.bring_back(wrong), 1), (TEST, 1), (SUBMIT, 0),
    ]  # fmt: skip
    assert planner.distance(env.snapshot()) == 2
    shown = []
    for command, left in steps:
        shown.append(env.step(command).observation.text)
        assert planner.distance(env.snapshot()) == left
    assert env.snapshot().won
    assert ["passed" in text for text in shown] == [False, False, False, False, False, True, False]


def test_what_is_not_offered_is_not_carried_out(task):
    env, changes = SweEnv(), task.source.changes
    env.reset(task)
    for command in (changes.bring_back(1), "ls", f"{TEST} "):
        assert not env.accepts(command)
        assert env.step(command).observation.text == EXPECTED
    env.step(changes.take_back(1))
    assert env.accepts(changes.bring_back(1))
    assert not env.accepts(changes.take_back(1))


def test_the_expert_tries_one_after_another(task):
    """It knows what the tests have said, and hands in what they have passed."""
    env, planner, changes = SweEnv(), SwePlanner(), task.source.changes
    env.reset(task)
    known = planner.observed(env.snapshot())
    assert planner.distance(env.snapshot(), known) == math.inf
    played = []
    while not env.snapshot().done:
        action = planner.next_action(env.snapshot(), planner.observed(env.snapshot()))
        assert action is not None
        played.append(action)
        env.step(action)
    assert env.snapshot().won
    before = [n for n in changes.numbers if n < changes.guilty]
    tried = [command for n in before for command in (changes.take_back(n), TEST, changes.bring_back(n))]
    assert played == [*tried, changes.take_back(changes.guilty), TEST, SUBMIT]
    env.reset(task)
    env.step(SUBMIT)
    assert planner.distance(env.snapshot()) == math.inf


def test_the_last_one_left_needs_no_test_to_be_known():
    """Where one of two is innocent, the way is known, and where nothing was undone nothing is."""
    changes, first = Changes(count=2, guilty=2), frozenset({1})
    start = SweSnapshot(Assignment(mended("one"), NoSandbox(), changes), b"", (), 0.0, Observation(""))
    planner = SwePlanner()
    assert planner.distance(start, Known(False, frozenset({(first, False)}))) == 2
    assert planner.next_action(start, Known(False, frozenset({(first, False)}))) == changes.take_back(2)
    assert planner.distance(start, Known(False, frozenset({(frozenset(), False)}))) == math.inf
    assert planner.next_action(start, Known(False, frozenset({(frozenset(), False)}))) == changes.take_back(1)


def test_patches_far_apart_and_turned_round():
    patch = mended("one").patch
    assert reverse(reverse(patch)) == patch
    assert reverse(patch) == as_patch("one.py", RIGHT["one.py"], RIGHT["one.py"].replace("+", "-")).replace(
        "- 1", "- 1"
    )
    assert apart([mended("one"), mended("one"), mended("two")]) == [mended("one"), mended("two")]


@dataclass
class Counting(NoSandbox):
    """Each command appends a byte to the tree; `ending` is how it ends."""

    ending: str = "ended"
    runs: list[str] = field(default_factory=list)

    def run(self, tree, command, **options):
        self.runs.append(command)
        return Ran(Output(command, "é", 3), 7, tree + b"x", self.ending, 0.5)  # type: ignore[arg-type]

    def difference(self, tree):
        self.runs.append("difference")
        return tree[1:]


def test_what_was_run_is_not_run_again(tmp_path):
    """The same command on the same tree asks the sandbox only once, and so it is for whoever comes later."""
    first_time = Counting()
    sandbox = Remembered(first_time, KeptBytes(tmp_path), machine="a")
    one = sandbox.run(b"", "ls", files={"a": b"1"})
    assert sandbox.run(b"", "ls", files={"a": b"1"}) == one
    two = sandbox.run(one.tree, "ls", files={"a": b"1"})
    for files in ({"a": b"2"}, {"a1": b""}):
        sandbox.run(b"", "ls", files=files)
    sandbox.run(b"", "ls", seconds=5.0)
    sandbox.run(b"", "ls", shown=5)
    sandbox.run(b"", "pwd")
    assert first_time.runs == [*["ls"] * 6, "pwd"]
    assert sandbox.run(one.tree, "ls", files={"a": b"1"}).tree is two.tree
    assert sandbox.difference(two.tree) == sandbox.difference(two.tree) == b"x"
    assert first_time.runs[7:] == ["difference"]

    later = Counting()
    sandbox = Remembered(later, KeptBytes(tmp_path), machine="a")
    assert sandbox.run(b"", "ls", files={"a": b"1"}) == one
    assert sandbox.run(one.tree, "ls", files={"a": b"1"}) == two
    assert sandbox.difference(two.tree) == b"x"
    assert later.runs == []
    Remembered(later, KeptBytes(tmp_path), machine="b").run(b"", "ls", files={"a": b"1"})
    assert later.runs == ["ls"]


@pytest.mark.parametrize("ending", ["timeout", "lost"])
def test_what_did_not_end_is_run_again(tmp_path, ending):
    """It may have been the machine's load; so may a difference that could not be told."""
    counting = Counting(ending)
    sandbox = Remembered(counting, KeptBytes(tmp_path), machine="a")
    for _ in range(2):
        assert sandbox.run(b"", "ls").ending == ending
        assert sandbox.difference(b"y") == b""
    assert counting.runs == ["ls", "difference"] * 2


def test_what_was_kept_and_is_damaged_or_gone_is_run_again(tmp_path):
    Remembered(Counting(), KeptBytes(tmp_path), machine="a").run(b"", "ls")
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert len(files) == 2
    for file in files:
        before = file.read_bytes()
        for damage in (lambda file: file.write_bytes(b"nonsense"), Path.unlink):
            damage(file)
            counting = Counting()
            assert Remembered(counting, KeptBytes(tmp_path), machine="a").run(b"", "ls").tree == b"x"
            assert counting.runs == ["ls"]
            assert file.read_bytes() == before
