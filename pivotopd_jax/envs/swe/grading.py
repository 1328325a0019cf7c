"""Is a task solved? Its tests, run on a fresh copy of the repository to which only the change was brought.

As in SWE-bench: the change is a diff; the tests, their folders, and the files that steer pytest, are not the student's
to change. Left out, as there: what code of the repository does to the process in which it is tested. Who rewrites the
program so that it fakes pytest's report is not found out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pivotopd_jax.envs.swe.instances import Instance
from pivotopd_jax.envs.swe.sandbox import MEBIBYTE, Ran, Sandbox, Tree

STEERING = (
    "*conftest.py", "*sitecustomize.py", "*usercustomize.py", "*.pth", "*entry_points.txt", "pytest.ini", ".pytest.ini",
    "tox.ini", "setup.cfg", "pyproject.toml",
)  # fmt: skip
"""Files by which the tests could be led astray; a change to them does not count, unless the right one changes them."""

SUMMARY = "short test summary info"
PASSED, FAILED = frozenset({"PASSED", "XFAIL"}), frozenset({"FAILED", "ERROR"})
TEST_SECONDS = 300.0

_RESULT = re.compile(r"^(PASSED|FAILED|ERROR|XFAIL|XPASS) (\S+)", re.MULTILINE)
_TEST_FOLDER = re.compile(r"(?:[^/]+/)*?tests?(?=/)")
_TOUCHED = re.compile(r"^diff --git a/(\S+) b/", re.MULTILINE)


class Verdict(NamedTuple):
    """How the tests of a task came out.

    Attributes:
        fail_to_pass, pass_to_pass: (passed, all) of each kind.
    """

    fail_to_pass: tuple[int, int]
    pass_to_pass: tuple[int, int]

    @property
    def resolved(self) -> bool:
        """All of them passed, and there were some that had to be made pass."""
        return self.fail_to_pass[0] == self.fail_to_pass[1] > 0 and self.pass_to_pass[0] == self.pass_to_pass[1]


def test_command(tests: Sequence[str]) -> str:
    """Runs test files, or single tests, and lists what came of each."""
    named = " ".join(map(shlex.quote, tests))
    return f"python -m pytest -rA --tb=no -q -p no:cacheprovider {named}"


def results(report: str) -> dict[str, str]:
    """Outcome by test, from the summary that pytest ends with; what tests print comes before it.

    A name ends at its first blank, as in the official parser; of several outcomes under one name a bad one counts.
    """
    found: dict[str, str] = {}
    for outcome, name in _RESULT.findall(report.rpartition(SUMMARY)[2]):
        if found.get(name, "PASSED") in PASSED:
            found[name] = outcome
    return found


def judge(instance: Instance, outcomes: Mapping[str, str]) -> Verdict:
    """Counts the tests of `instance`; one without an outcome has not passed."""

    def passed(tests: Sequence[str]) -> tuple[int, int]:
        return sum(_passed(test, outcomes) for test in tests), len(tests)

    return Verdict(passed(instance.fail_to_pass), passed(instance.pass_to_pass))


def _passed(test: str, outcomes: Mapping[str, str]) -> bool:
    """SWE-bench's rows cut some names within their brackets: then all tests whose names begin so must agree."""
    if test in outcomes or test.count("[") <= test.count("]"):
        return outcomes.get(test) in PASSED
    return {outcomes[name] in PASSED for name in outcomes if name.startswith(test)} == {True}


def kept_files(instance: Instance) -> list[str]:
    """What a student's change cannot touch, as patterns of `git apply`: the tests, what steers pytest, and folders of
    tests with the helpers that lie there, unless the right patch changes something in them.
    """
    may_touch = _TOUCHED.findall(instance.patch)
    folders = sorted({f"{found[0]}/" for file in instance.test_files if (found := _TEST_FOLDER.match(file))})
    closed = [f"{folder}*" for folder in folders if not any(file.startswith(folder) for file in may_touch)]
    return [*instance.test_files, *closed, *(name for name in STEERING if name not in may_touch)]


def run_tests(instance: Instance, sandbox: Sandbox, patch: bytes) -> Ran:
    """Runs the tests of `instance` after `patch`, in a fresh copy of the repository."""
    steps = ["set -e"]
    if patch.strip():
        left_out = " ".join(f"--exclude={shlex.quote(name)}" for name in kept_files(instance))
        steps.append(f"git apply --whitespace=nowarn {left_out} /inputs/patch")
    if instance.test_patch.strip():
        steps.append("git apply --whitespace=nowarn /inputs/test_patch")
    steps.append(test_command(instance.test_files))
    files = {"patch": patch, "test_patch": instance.test_patch.encode()}
    return sandbox.run(sandbox.start, "\n".join(steps), seconds=TEST_SECONDS, shown=4 * MEBIBYTE, files=files)


def verdict(instance: Instance, ran: Ran) -> Verdict:
    """What came of `run_tests`.

    No test has passed where they did not come to their end, or where pytest failed and yet reports no failure: then its
    report is faked.
    """
    outcomes = results(ran.output.head)
    honest = ran.status == 0 or not FAILED.isdisjoint(outcomes.values())
    return judge(instance, outcomes if honest and ran.ending == "ended" and not ran.output.missing else {})


def grade_patch(instance: Instance, sandbox: Sandbox, patch: bytes) -> Verdict:
    """What `patch` makes of the tests; one that cannot be applied passes none."""
    return verdict(instance, run_tests(instance, sandbox, patch))


def grade(instance: Instance, sandbox: Sandbox, tree: Tree) -> Verdict:
    """What the change from the start to `tree` makes of the tests."""
    return grade_patch(instance, sandbox, sandbox.difference(tree))


def is_sound(instance: Instance, sandbox: Sandbox, times: int) -> bool:
    """Whether the right patch of a task solves it and an empty one does not, every one of so many times.

    Raises:
        ValueError: `instance.patch` is the one that breaks the repository.
    """
    if instance.breaks:
        raise ValueError(f"task {instance.id!r} has only the patch that broke it; expected one that mends")
    right = instance.patch.encode()
    return all(
        grade_patch(instance, sandbox, right).resolved and not grade_patch(instance, sandbox, b"").resolved
        for _ in range(times)
    )
