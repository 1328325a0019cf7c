"""A planner for tasks made on this machine: their patch is known, so that it is known what is left to do.

In tasks where any command is carried out a plan has four kinds of turn: to look at the place of the mistake, to mend
it, to run the tests, and to hand in. The shortest mend and hand in. What bash could do in one line is not counted, and
whoever damages the repository has lost nothing by it: one command mends both.

Where only changes are taken back and brought back, L counts these, and the turn that hands in.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pivotopd_jax.envs.swe.changes import PASSED, TEST, Changes
from pivotopd_jax.envs.swe.engine import Assignment, Said, SweSnapshot
from pivotopd_jax.envs.swe.finishing import SUBMIT
from pivotopd_jax.envs.swe.grading import grade
from pivotopd_jax.envs.swe.sandbox import Tree

AROUND = 10
"""Lines shown before and after the place of a mistake."""


class Known(NamedTuple):
    """What had been seen.

    Attributes:
        place: the lines of the mistake were shown.
        tried: (changes undone, whether the tests passed then) of each time that the tests were run.
    """

    place: bool
    tried: frozenset[tuple[frozenset[int], bool]]


class SwePlanner:
    """A `Planner` of SWE tasks whose patch mends one file."""

    def __init__(self, *, remembered: int = 4096) -> None:
        """`remembered`: trees whose verdict is kept."""
        self._solved = lru_cache(maxsize=remembered)(_solved)
        self._intact = lru_cache(maxsize=remembered)(_intact)

    def observed(self, snapshot: SweSnapshot) -> Known:
        """What the commands so far have shown."""
        changes, said = snapshot.assignment.changes, snapshot.said
        if changes is None:
            wrong = _wrong_lines(snapshot.assignment)
            return Known(any(all(line in turn.shown for line in wrong) for turn in said), frozenset())
        return Known(False, frozenset(_tries(changes, said)))

    def distance(self, snapshot: SweSnapshot, known: Known | None = None) -> float:
        """L(s), in turns; see the top of this file.

        Returns:
            0 when the task is solved; inf when it can no longer be, or when `known` does not tell how.

        Raises:
            SandboxUnavailable: a tree has to be judged, and nothing can be run here.
        """
        if snapshot.done:
            return 0.0 if snapshot.won else math.inf
        changes = snapshot.assignment.changes
        if changes is not None:
            guilty = changes.guilty if known is None else _found(changes, known)
            return math.inf if guilty is None else 1.0 + len(_taken(snapshot, changes) ^ {guilty})
        if self._solved(snapshot.assignment, snapshot.tree):
            return 1.0
        tells = known is None or known.place
        return 2.0 if tells and self._intact(snapshot.assignment, snapshot.tree) else math.inf

    def next_action(self, snapshot: SweSnapshot, known: Known | None = None) -> str | None:
        """The first command of a shortest way; with `known` facts only, also those that find out what is missing.

        Where the mistake is, when its place has not been shown yet, is taken from the task's record; whoever knows no
        more than was shown runs the tests before the work is handed in.
        """
        if snapshot.done:
            return None
        changes = snapshot.assignment.changes
        if changes is not None:
            return _next_change(snapshot, changes, known)
        if self._solved(snapshot.assignment, snapshot.tree):
            tested = bool(snapshot.said) and snapshot.said[-1].command == _test(snapshot.assignment)
            return SUBMIT if known is None or tested else _test(snapshot.assignment)
        if known is not None and not known.place:
            return _look(snapshot.assignment)
        return _mend(snapshot.assignment) if self._intact(snapshot.assignment, snapshot.tree) else None

    def candidates(self, snapshot: SweSnapshot) -> Sequence[str]:
        """What can be done, where that is little; else some commands that anybody might try. Handing in comes last."""
        if snapshot.observation.admissible is not None:
            return (*(command for command in snapshot.observation.admissible if command != SUBMIT), SUBMIT)
        return ("ls", "git status", "git diff", _look(snapshot.assignment), _test(snapshot.assignment), SUBMIT)


def _next_change(snapshot: SweSnapshot, changes: Changes, known: Known | None) -> str:
    taken = _taken(snapshot, changes)
    guilty = changes.guilty if known is None else _found(changes, known)
    if guilty is None:
        assert known is not None
        guilty = next(n for n in changes.numbers if (frozenset({n}), False) not in known.tried)
    if wrong := sorted(taken - {guilty}):
        return changes.bring_back(wrong[0])
    if guilty not in taken:
        return changes.take_back(guilty)
    return SUBMIT if known is None or (taken, True) in known.tried else TEST


def _found(changes: Changes, known: Known) -> int | None:
    """The guilty change, if the tests passed without it, or fail without any other one."""
    passed = [taken for taken, good in known.tried if good]
    left = [n for n in changes.numbers if (frozenset({n}), False) not in known.tried]
    return next(iter(passed[0])) if passed else left[0] if len(left) == 1 else None


def _tries(changes: Changes, said: Sequence[Said]) -> list[tuple[frozenset[int], bool]]:
    commands = [turn.command for turn in said]
    tested = [i for i, turn in enumerate(said) if turn.command == TEST]
    return [(changes.taken(commands[:i]), PASSED in said[i].shown) for i in tested]


def _taken(snapshot: SweSnapshot, changes: Changes) -> frozenset[int]:
    return changes.taken([turn.command for turn in snapshot.said])


def _solved(assignment: Assignment, tree: Tree) -> bool:
    return grade(assignment.instance, assignment.sandbox, tree).resolved


def _intact(assignment: Assignment, tree: Tree) -> bool:
    """Whether `_mend` can be carried out."""
    ran = assignment.sandbox.run(tree, _mend(assignment))
    return ran.status == 0 and _solved(assignment, ran.tree)


def _mend(assignment: Assignment) -> str:
    """Lays out the repository as it was at the start, and mends it."""
    patch = assignment.instance.patch
    return f"git reset -q --hard && git clean -fdq && git apply - <<'EOF'\n{patch}EOF"


def _look(assignment: Assignment) -> str:
    """Shows the place of the mistake."""
    lines = assignment.instance.patch.splitlines()
    file = next(line.removeprefix("--- a/") for line in lines if line.startswith("--- a/"))
    first = next(int(line.removeprefix("@@ -").partition(",")[0]) for line in lines if line.startswith("@@ -"))
    return f"sed -n '{max(1, first - AROUND)},{first + 2 * AROUND}p' {shlex.quote(file)}"


def _test(assignment: Assignment) -> str:
    return f"python -m pytest -q {' '.join(map(shlex.quote, assignment.instance.test_files))}"


def _wrong_lines(assignment: Assignment) -> list[str]:
    lines = assignment.instance.patch.splitlines()
    return [line[1:] for line in lines if line.startswith("-") and not line.startswith("--- ")]
