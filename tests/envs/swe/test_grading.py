"""Verdicts: pytest's report read, and counted as SWE-bench counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from swe_repository import FIX

from pivotopd_jax.envs.swe.grading import (
    STEERING,
    SUMMARY,
    Verdict,
    grade,
    grade_patch,
    is_sound,
    judge,
    kept_files,
    results,
)
from pivotopd_jax.envs.swe.sandbox import NO_FILES, Output, Ran

REPORT = """..F.s [100%]
PASSED tests/test_a.py::faked
=========================== short test summary info ============================
PASSED tests/test_a.py::test_one
PASSED tests/test_a.py::test_many[1-a b]
FAILED tests/test_a.py::test_many[1-a c] - assert 1 == 2
XFAIL tests/test_a.py::test_later - some day
SKIPPED [1] tests/test_a.py:7: not here
ERROR tests/test_b.py - ImportError
FAILED tests/test_a.py::test_two - PASSED tests/test_a.py::test_two
3 passed, 1 failed
"""


def test_a_report_is_read_from_its_summary():
    assert results(REPORT) == {
        "tests/test_a.py::test_one": "PASSED",
        "tests/test_a.py::test_many[1-a": "FAILED",  # of two tests whose names begin alike, the worse
        "tests/test_a.py::test_later": "XFAIL",
        "tests/test_b.py": "ERROR",
        "tests/test_a.py::test_two": "FAILED",
    }
    assert results("PASSED a::b\n") == {"a::b": "PASSED"}
    assert results("") == {}


def test_a_verdict_counts_each_kind(instance):
    double, add = instance.pass_to_pass[0], instance.fail_to_pass[0]
    assert judge(instance, {double: "PASSED", add: "PASSED"}).resolved
    assert judge(instance, {double: "XFAIL", add: "PASSED"}).resolved
    assert judge(instance, {double: "PASSED", add: "FAILED"}) == Verdict((0, 1), (1, 1))
    assert judge(instance, {add: "PASSED"}) == Verdict((1, 1), (0, 1))
    assert not judge(replace(instance, fail_to_pass=()), {double: "PASSED"}).resolved


def test_names_that_rows_cut_within_brackets(instance):
    cut = replace(instance, fail_to_pass=("t.py::a[log(photon",), pass_to_pass=())
    assert judge(cut, {"t.py::a[log(photon,x)]": "PASSED", "t.py::a[other]": "FAILED"}).resolved
    assert not judge(cut, {"t.py::a[log(photon,x)]": "PASSED", "t.py::a[log(photon,y)]": "FAILED"}).resolved
    assert not judge(cut, {"t.py::a[other]": "PASSED"}).resolved


def test_a_failure_without_failures_is_faked(sandbox, instance):
    """The program writes pytest's summary itself and ends the process."""
    summary = "short test summary info\\n" + "".join(
        f"PASSED {t}\\n" for t in (*instance.fail_to_pass, *instance.pass_to_pass)
    )
    tree = sandbox.run(sandbox.start, f"echo 'import os; os.write(1, b\"{summary}\"); os._exit(3)' > adding.py").tree
    assert grade(instance, sandbox, tree) == Verdict((0, 1), (0, 1))


def test_patches_are_graded(sandbox, instance):
    assert grade_patch(instance, sandbox, FIX.encode()).resolved
    assert grade_patch(instance, sandbox, b"") == Verdict((0, 1), (1, 1))
    assert grade_patch(instance, sandbox, b"no patch at all") == Verdict((0, 1), (0, 1))


def test_tests_come_with_the_test_patch(sandbox, instance):
    """What SWE-bench does: a test that the repository does not have yet decides."""
    test_patch = (
        "diff --git a/tests/test_more.py b/tests/test_more.py\nnew file mode 100644\n--- /dev/null\n"
        "+++ b/tests/test_more.py\n@@ -0,0 +1,4 @@\n+from adding import add\n+\n+def test_more():\n"
        "+    assert add(1, 1) == 2\n"
    )
    hidden = replace(instance, test_patch=test_patch, fail_to_pass=("tests/test_more.py::test_more",))
    assert hidden.test_files == ("tests/test_adding.py", "tests/test_more.py")
    assert grade_patch(hidden, sandbox, b"") == Verdict((0, 1), (1, 1))
    assert grade_patch(hidden, sandbox, FIX.encode()).resolved


@pytest.mark.parametrize("name", ["setup.cfg", "pytest.ini", "deep/conftest.py"])
def test_files_that_steer_the_tests_count_only_if_the_right_patch_changes_them(sandbox, instance, name):
    """`-k double` in pytest's settings would hide the test that fails."""
    section = "tool:pytest" if name == "setup.cfg" else "pytest"
    hide = (
        f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,2 @@\n"
        f"+[{section}]\n+addopts = --deselect tests/test_adding.py::test_double\n"
    )
    assert grade_patch(instance, sandbox, (FIX + hide).encode()).resolved
    if not name.endswith(".py"):
        allowed = replace(instance, patch=FIX + hide)
        assert grade_patch(allowed, sandbox, (FIX + hide).encode()) == Verdict((1, 1), (0, 1))


def test_folders_of_tests_are_kept_as_they_are(instance):
    """The one nearest the top; not where the tests lie beside the program, nor where the right patch goes into it."""
    many = replace(
        instance, patch="diff --git a/pkg/test/data.txt b/pkg/test/data.txt\n",
        fail_to_pass=("a/tests/deep/test_b.py::x",),
        pass_to_pass=("pkg/test/test_c.py::x", "test_top.py::x", "src/latest/test_d.py::x"),
    )  # fmt: skip
    files = ["a/tests/deep/test_b.py", "pkg/test/test_c.py", "src/latest/test_d.py", "test_top.py"]
    assert kept_files(many) == [*files, "a/tests/*", *STEERING]


def test_a_helper_of_the_tests_is_not_the_students(sandbox, instance):
    """The tests would fail if their package could not be imported any more."""
    broken = "diff --git a/tests/__init__.py b/tests/__init__.py\nnew file mode 100644\n--- /dev/null\n"
    patch = FIX + broken + "+++ b/tests/__init__.py\n@@ -0,0 +1 @@\n+raise ImportError\n"
    assert grade_patch(instance, sandbox, patch.encode()).resolved


def test_a_sound_task(sandbox, instance):
    assert is_sound(instance, sandbox, 2)
    assert not is_sound(replace(instance, patch=" "), sandbox, 1)
    assert not is_sound(replace(instance, fail_to_pass=instance.pass_to_pass), sandbox, 1)
    with pytest.raises(ValueError, match="task 'adding-1' has only the patch that broke it; expected one that mends"):
        is_sound(replace(instance, breaks=True), sandbox, 1)


def test_a_task_that_is_sound_only_sometimes(instance):
    """The second of three tries goes wrong."""

    class Flaky:
        start, runs = b"", 0

        def run(self, tree, command, *, files=NO_FILES, **options):
            self.runs += 1
            outcome = "PASSED" if files.get("patch") and self.runs != 3 else "FAILED"
            report = f"{SUMMARY}\n{outcome} {instance.fail_to_pass[0]}\nPASSED {instance.pass_to_pass[0]}\n"
            return Ran(Output(report), int(outcome == "FAILED"), b"", "ended", 0.1)

        def difference(self, tree):
            raise AssertionError("nothing is compared")

    assert is_sound(instance, Flaky(), 1)
    flaky = Flaky()
    assert not is_sound(instance, flaky, 3)
    assert flaky.runs == 3
