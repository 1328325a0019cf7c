"""SWE tasks as a world: what is read from where, and which split it is in."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from swe_repository import archive

from pivotopd_jax.envs.swe import world as swe_world
from pivotopd_jax.envs.swe.containers import ContainerSandbox
from pivotopd_jax.envs.swe.finishing import SUBMIT
from pivotopd_jax.envs.swe.instances import Instance, write_instances
from pivotopd_jax.envs.swe.mutations import as_patch, mutations
from pivotopd_jax.envs.swe.sandbox import Limits
from pivotopd_jax.envs.swe.world import Swe, in_split

ROW = {"repo": "a/b", "patch": "", "FAIL_TO_PASS": "[]", "PASS_TO_PASS": "[]"}


def local(directory, count: int) -> list[Instance]:
    """Rows of as many repositories as the first that lie in an archive."""
    (directory / "repositories").mkdir()
    text = "".join(f"def f{n}(x):\n    return x + {n}\n" + 40 * "\n" for n in range(1, count + 1)) + "LAST = 1\n"
    tests = "from many import *\n" + "".join(f"def test_{n}(): assert f{n}(0) == {n}\n" for n in range(1, count + 1))
    (directory / "repositories/many.tar").write_bytes(archive({"many.py": text, "tests/test_many.py": tests}))
    names = [f"tests/test_many.py::test_{n}" for n in range(1, count + 1)]
    made = []
    for n, name in enumerate(names, 1):
        mutation = next(m for m in mutations("many.py", text) if m.function == f"f{n}" and m.before == f"x + {n}")
        patch = as_patch("many.py", mutation.apply(text), text)
        others = tuple(other for other in names if other != name)
        row = Instance(f"many.{n}", "many", "", f"{name} fails", patch, "", (name,), others)
        made.append(replace(row, archive="repositories/many.tar"))
    write_instances(directory / "tasks.jsonl", made)
    return made


def test_local_tasks(tmp_path, packages):
    del packages
    made = local(tmp_path, 10)
    world = Swe(tmp_path)
    assert [len(world.tasks(split)) for split in world.splits] == [6, 2, 2]
    found = [task for split in world.splits for task in world.tasks(split)]
    assert sorted(task.id for task in found) == sorted(one.id for one in made)
    assert world.name == f"swe ({tmp_path}, bash)"
    env = world.make()
    assert env.reset(found[0]).text.endswith("fails")
    assert not env.step(SUBMIT).won
    with pytest.raises(ValueError, match="split 'dev' is not known; choose one of train, validation, test"):
        world.tasks("dev")


def test_tasks_of_taking_a_change_back(tmp_path, packages):
    """No mistake is in two splits, however it is presented."""
    del packages
    local(tmp_path, 10)
    world = Swe(tmp_path, actions="changes", changes=4, orders=3)
    found = {split: world.tasks(split) for split in world.splits}
    assert [len(tasks) for tasks in found.values()] == [18, 6, 6]
    mistakes = [{task.id.rpartition(".")[0] for task in tasks} for tasks in found.values()]
    assert sum(map(len, mistakes)) == len(set().union(*mistakes)) == 10
    task = found["test"][0]
    env, planner = world.make(), world.planner
    env.reset(task)
    assert planner.distance(env.snapshot()) == 2
    for _ in range(2):
        action = planner.next_action(env.snapshot())
        assert action is not None
        result = env.step(action)
    assert result.won
    assert world.tasks("test")[0] is task


def test_a_file_for_each_split_and_tasks_in_images(tmp_path, monkeypatch):
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps({**ROW, "instance_id": f"a__{split}-1"}) + "\n")
    monkeypatch.setattr(swe_world, "container_program", lambda: "docker")
    monkeypatch.setenv("SWE_DATA", str(tmp_path))
    world = Swe("real", image="my/{id}", limits=Limits(seconds=7))
    assert [[task.id for task in world.tasks(split)] for split in world.splits] == [["a__train-1"], [], ["a__test-1"]]
    sandbox = world.tasks("test")[0].source.sandbox
    assert isinstance(sandbox, ContainerSandbox)
    assert (sandbox.program, sandbox.image, sandbox.limits.seconds) == ("docker", "my/a_1776_test-1", 7)


def test_splits_are_drawn_by_name(instance):
    many = [replace(instance, id=f"x-{n}") for n in range(20)]
    parts = [in_split(many, split) for split in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [12, 3, 5]
    assert sorted(one.id for part in parts for one in part) == sorted(one.id for one in many)
    backwards = in_split(many[::-1], "test")
    assert backwards == parts[2][::-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"actions": "sh"}, "actions 'sh' is not known; choose one of bash, changes"),
        ({"changes": 1}, "changes=1, orders=2, built=50: expected at least 2, 1 and 1"),
        ({"built": 0}, "changes=3, orders=2, built=0: expected at least 2, 1 and 1"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        Swe(**arguments)


def test_missing_data(tmp_path, monkeypatch):
    monkeypatch.delenv("SWE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"SWE_DATA='' is not a directory; set it to the folder with tasks.js"):
        Swe("real")
    with pytest.raises(FileNotFoundError, match=r"holds no SWE tasks: expected one of tasks.jsonl"):
        Swe(tmp_path)
