"""Tasks made on this machine, of real packages from the package index; skipped where that is not reached."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from pivotopd_jax.envs.swe.archives import ArchiveError, Package, as_archive, repository_files
from pivotopd_jax.envs.swe.bubblewrap import Bubblewrap
from pivotopd_jax.envs.swe.builder import TASKS, build_tasks, open_workshop, possible_mistakes, statement
from pivotopd_jax.envs.swe.finishing import SUBMIT
from pivotopd_jax.envs.swe.instances import Instance, read_instances
from pivotopd_jax.envs.swe.packages import PACKAGES
from pivotopd_jax.envs.swe.sandbox import SandboxUnavailable
from pivotopd_jax.envs.swe.world import Swe


@pytest.fixture(scope="session")
def made(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Instance]]:
    """Three tasks of the two packages with the quickest tests."""
    directory = tmp_path_factory.mktemp("tasks")
    quick = [package for package in PACKAGES if package.name in ("ordered-set", "xmltodict")]
    try:
        return directory, build_tasks(quick, Bubblewrap(packages), directory, count=3)
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def test_tasks_are_rows_beside_their_repositories(made):
    directory, tasks = made
    assert read_instances(directory / TASKS) == tasks
    assert [task.repo for task in tasks] == ["ordered-set", "ordered-set", "xmltodict"]
    assert len({task.id for task in tasks}) == 3
    for task in tasks:
        assert (directory / task.archive).is_file()
        assert task.fail_to_pass
        assert task.pass_to_pass
        assert not set(task.fail_to_pass) & set(task.pass_to_pass)
        assert task.fail_to_pass[0] in task.statement
        assert task.statement.endswith(f"    {SUBMIT}")
        # The statement tells what fails, not where the mistake is.
        right = next(line[1:].strip() for line in task.patch.splitlines() if line.startswith("+") and line[1] != "+")
        assert right not in task.statement


def test_the_oracle_solves_each_task_and_an_empty_patch_does_not(made):
    """In the fewest turns with full knowledge; with what is shown only, it looks and tests besides."""
    directory, tasks = made
    world = Swe(directory)
    found = [task for split in world.splits for task in world.tasks(split)]
    assert sorted(task.id for task in found) == sorted(task.id for task in tasks)
    env, planner = world.make(), world.planner
    for task in found:
        env.reset(task)
        assert planner.distance(env.snapshot()) == 2
        assert planner.distance(env.snapshot(), planner.observed(env.snapshot())) == float("inf")
        verbs, left = [], []
        while not env.snapshot().done:
            action = planner.next_action(env.snapshot(), planner.observed(env.snapshot()))
            assert action is not None
            verbs.append(action.split()[0])
            env.step(action)
            left.append(planner.distance(env.snapshot()))
        assert verbs == ["sed", "git", "python", "echo"]
        assert left == [2, 1, 1, 0]
        assert env.snapshot().won
        env.reset(task)
        result = env.step(SUBMIT)
        assert (result.done, result.won) == (True, False)
        assert planner.distance(env.snapshot()) == float("inf")
        assert planner.next_action(env.snapshot()) is None


def test_damage_is_mended_too(made):
    directory, tasks = made
    world = Swe(directory)
    task = next(task for split in world.splits for task in world.tasks(split) if task.id == tasks[0].id)
    env, planner = world.make(), world.planner
    env.reset(task)
    env.step("rm -rf ordered_set; touch junk; git add -A; echo more >> README.md")
    assert planner.distance(env.snapshot()) == 2
    action = planner.next_action(env.snapshot())
    assert action is not None
    env.step(action)
    assert planner.next_action(env.snapshot()) == SUBMIT
    assert "junk" not in env.step("ls").observation.text
    env.step("rm -rf .git ordered_set")
    assert planner.distance(env.snapshot()) == float("inf")
    assert planner.next_action(env.snapshot()) is None


def test_mistakes_are_tried_in_an_order_that_the_seed_fixes(made, packages):
    del made  # the archives are there
    package = next(package for package in PACKAGES if package.name == "ordered-set")
    workshop = open_workshop(package, Bubblewrap(packages))
    orders = [possible_mistakes(workshop, seed) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0], key=repr) == sorted(orders[2], key=repr)
    functions = [mutation.function for mutation in orders[0]]
    different = len(set(functions))
    assert len(set(functions[:different])) == different


def test_an_archive_with_another_hash_is_refused(tmp_path):
    package = Package("thing", "1.0", hashlib.sha256(b"right").hexdigest(), "MIT", (), ())
    place = tmp_path / "thing-1.0"
    place.mkdir()
    (place / "thing-1.0.tar.gz").write_bytes(b"wrong")
    with pytest.raises(ArchiveError, match=rf"has the sha256 {hashlib.sha256(b'wrong').hexdigest()}, not"):
        repository_files(package, tmp_path)


def test_what_building_left_is_no_part_of_a_repository(tmp_path):
    content = as_archive(
        {
            "thing-1.0/a.py": b"1", "thing-1.0/PKG-INFO": b"x", "thing-1.0/thing.egg-info/x": b"x",
            "thing-1.0/big": bytes(10**6 + 1),
            "thing-1.0/t/__pycache__/a.pyc": b"x", "thing-1.0/tox.ini": b"x", "thing-1.0/../../up.py": b"x",
        }
    )  # fmt: skip
    package = Package("thing", "1.0", hashlib.sha256(content).hexdigest(), "MIT", (), (), left_out=("tox.ini",))
    (tmp_path / "thing-1.0").mkdir()
    (tmp_path / "thing-1.0/thing-1.0.tar").write_bytes(content)
    assert repository_files(package, tmp_path) == {"a.py": b"1"}


def test_packages_are_pinned_and_free():
    assert len({package.name for package in PACKAGES}) == len(PACKAGES)
    for package in PACKAGES:
        assert len(package.sha256) == 64
        assert package.licence in ("MIT", "BSD-3-Clause")


def test_a_statement_names_what_fails():
    package = replace(PACKAGES[0], name="thing", tests=("tests",))
    text = statement(package, ["tests/t.py::a", "tests/t.py::b"], "assert 1 == 2\nAssertionError")
    assert text.startswith(
        "The last change to thing broke something. 2 tests fail, the first of them: tests/t.py::a\n\n"
        "    assert 1 == 2\n    AssertionError\n\n"
    )
