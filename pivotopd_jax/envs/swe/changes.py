"""Tasks for students too small to write a patch: one of a few recent changes is wrong, and has to be taken back.

The others are right, and taking one of those back breaks the program in another way. Sandbox, tests and interface are
those of all SWE tasks, but only a few commands are carried out: to look at a change, to take it back, to bring it back,
to run a test for each change, and to hand in; all tests judge. So a task is a search that the tests guide.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from pivotopd_jax.envs.swe.bubblewrap import Bubblewrap, BubblewrapSandbox
from pivotopd_jax.envs.swe.finishing import SUBMIT
from pivotopd_jax.envs.swe.instances import Instance
from pivotopd_jax.envs.swe.remembered import KeptBytes, Remembered
from pivotopd_jax.envs.swe.sandbox import Tree

FOLDER = ".changes"
TEST = f"sh {FOLDER}/test"
PASSED = "passed"
ONLY = (
    f"Only these commands are carried out, for a change N: cat {FOLDER}/N shows it, git apply -R {FOLDER}/N takes it "
    f"back, git apply {FOLDER}/N brings it back; {TEST} runs tests; {SUBMIT} hands in."
)
"""The student's commands, as every task of this kind states them."""

APART = 10
"""Lines between two changes; each shows three lines around itself."""

_TEST_SCRIPT = "python -m pytest -qq -x {tests} >/dev/null 2>&1 && echo {passed} || {{ echo failed; exit 1; }}\n"


@dataclass(frozen=True)
class Changes:
    """The changes of a task, numbered from 1.

    Attributes:
        count: how many there are.
        guilty: number of the one that broke the program.
    """

    count: int
    guilty: int

    def look(self, number: int) -> str:
        """Shows a change."""
        return f"cat {FOLDER}/{number}"

    def take_back(self, number: int) -> str:
        """Undoes a change."""
        return f"git apply -R {FOLDER}/{number}"

    def bring_back(self, number: int) -> str:
        """Makes a change that was undone."""
        return f"git apply {FOLDER}/{number}"

    def taken(self, commands: Sequence[str]) -> frozenset[int]:
        """Which changes are undone after `commands`, all of which were possible."""
        now: frozenset[int] = frozenset()
        for command in commands:
            now |= {n for n in self.numbers if command == self.take_back(n)}
            now -= {n for n in self.numbers if command == self.bring_back(n)}
        return now

    def commands(self, taken: frozenset[int]) -> tuple[str, ...]:
        """What can be done where these changes are undone, sorted."""
        turned = [self.bring_back(n) if n in taken else self.take_back(n) for n in self.numbers]
        return tuple(sorted([*map(self.look, self.numbers), *turned, TEST, SUBMIT]))

    @property
    def numbers(self) -> range:
        """Of the changes."""
        return range(1, self.count + 1)


def compose(
    instances: Sequence[Instance], number: int, count: int, machine: Bubblewrap, archive: Tree, kept: KeptBytes, *,
    order: int = 0,
) -> tuple[Instance, Remembered, Changes]:  # fmt: skip
    """The task of finding the mistake of one instance among right changes, which come from others of its repository.

    Args:
        instances: of one repository, made on this machine; their patches touch different places.
        number: the instance that is broken.
        count: changes in all, at most as many as there are instances.
        machine: runs the commands.
        archive: the repository.
        kept: results of commands, shared with other tasks and processes.
        order: decides which other changes there are, and how they are numbered.

    Returns:
        the instance with a statement of its own, its sandbox, and the changes.
    """
    broken, draw = instances[number], Random(f"changes of {instances[number].id} {order}")
    others = draw.sample([other for other in instances if other is not broken], count - 1)
    listed = draw.sample([broken, *others], count)
    guilty = listed.index(broken) + 1
    files = {str(n): (reverse(one.patch) if one is broken else one.patch).encode() for n, one in enumerate(listed, 1)}
    tests = " ".join(shlex.quote(_telling(one)) for one in listed)
    files["test"] = _TEST_SCRIPT.format(tests=tests, passed=PASSED).encode()
    prepare = (
        f"git apply -R /inputs/broken && mkdir {FOLDER} && cp {' '.join(f'/inputs/{name}' for name in files)} {FOLDER}"
    )
    sandbox = BubblewrapSandbox(machine, archive, prepare, {**files, "broken": broken.patch.encode()})
    remembered = Remembered(sandbox, kept, machine=machine.identity)
    return _told(broken, listed, order), remembered, Changes(count, guilty)


def apart(instances: Sequence[Instance]) -> list[Instance]:
    """Those whose patches are far enough from one another to be made in any order; the first of each place stays."""
    kept: list[Instance] = []
    taken: list[tuple[str, int]] = []
    for instance in instances:
        places = _touched(instance.patch)
        if all(file != other or abs(line - there) >= APART for file, line in places for other, there in taken):
            taken += places
            kept.append(instance)
    return kept


def reverse(patch: str) -> str:
    """The patch that undoes `patch`, which `mutations.as_patch` wrote."""
    turned = []
    removed: list[str] = []
    for line in patch.splitlines(True):
        if line.startswith("-") and not line.startswith("--- "):
            removed.append("+" + line[1:])
            continue
        if line.startswith("+") and not line.startswith("+++ "):
            turned.append("-" + line[1:])
            continue
        turned += [*removed, line]
        removed = []
    return "".join(turned + removed)


def _told(broken: Instance, listed: Sequence[Instance], order: int) -> Instance:
    lines = [f"{n} {file}" for n, one in enumerate(listed, 1) for file, _ in _touched(one.patch)[:1]]
    text = "\n".join([f"The tests of {broken.repo} fail: one of its last changes broke it. Changes:", *lines, ONLY])
    return replace(broken, id=f"{broken.id}.{order}", statement=text)


def _telling(instance: Instance) -> str:
    """One test that fails with the mistake; its file, where its name was cut at a blank."""
    whole = [test for test in instance.fail_to_pass if test.count("[") == test.count("]")]
    return whole[0] if whole else instance.fail_to_pass[0].partition("::")[0]


def _touched(patch: str) -> list[tuple[str, int]]:
    """File and first line of each hunk."""
    found, file = [], ""
    for line in patch.splitlines():
        if line.startswith("+++ b/"):
            file = line.removeprefix("+++ b/")
        elif line.startswith("@@ -"):
            found.append((file, int(line.removeprefix("@@ -").partition(",")[0])))
    return found
