"""Containers: how the engine is called, and what comes of it. None is needed: a fake stands in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from swe_repository import FILES, FIX

from pivotopd_jax.envs.swe.containers import ContainerSandbox, container_program, image_of
from pivotopd_jax.envs.swe.sandbox import Limits, SandboxUnavailable


@pytest.fixture
def box(tmp_path: Path, packages: Path) -> ContainerSandbox:
    """An image with a repository that has a history."""
    del packages  # skips where there is no bubblewrap
    program = tmp_path / "docker"
    shutil.copy(Path(__file__).parent / "fake_docker.py", tmp_path / "fake_docker.py")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/fake_docker.py "$@"\n')
    program.chmod(0o755)
    files = tmp_path / "images" / "adding"
    (tmp_path / "containers").mkdir()
    for name, text in FILES.items():
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text(text)
    git = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -q -m 'the secret fix'"
    subprocess.run(git, shell=True, cwd=files, check=True)
    return ContainerSandbox(str(program), "adding", Limits(seconds=20))


def test_commands_lead_from_one_change_to_another(box):
    assert box.start == b""
    first = box.run(box.start, "sed -i 's/a - b/a + b/' adding.py; printf 'caf\\xe9' > new.txt; echo done; exit 3")
    assert (first.output.head, first.status, first.ending) == ("done\n", 3, "ended")
    assert b"+    return a + b" in first.tree
    second = box.run(first.tree, "grep return adding.py; cat new.txt; git log --all --format=%s; git diff --stat")
    assert second.output.head.startswith("    return a + b\n    return 2 * a\ncaf�The repository\n")
    assert second.tree == first.tree == box.difference(first.tree)
    assert "a - b" in box.run(box.start, "cat adding.py").output.head


def test_a_repository_that_has_to_be_broken_first(box):
    """As in SWE-smith, whose images hold the repository before the mistake; no commit shows it."""
    fresh = replace(box, breaking=FIX)
    assert "a + b" in fresh.run(fresh.start, "cat adding.py").output.head
    assert fresh.run(fresh.start, "git log --oneline --all | wc -l; git status -s").output.head == "1\n"


def test_other_files_are_laid_in(box):
    ran = box.run(box.start, "git apply /inputs/patch && cat adding.py", files={"patch": FIX.encode()})
    assert "a + b" in ran.output.head


def test_how_the_engine_is_called(box, tmp_path):
    box.run(box.start, "true")
    last = (tmp_path / "log").read_text().splitlines()[-1]
    for option in ("--network", "--memory", "--pids-limit", "--cap-drop", "--security-opt", "--rm"):
        assert option in last
    assert last.endswith(f"| {box.base}")
    assert box.base != "adding"


def test_what_a_command_breaks_ends_with_its_container(box, tmp_path):
    ran = box.run(box.start, "rm adding.py; rm -rf .git")
    assert (ran.ending, ran.tree) == ("lost", b"")
    ran = box.run(box.start, "setsid sleep 98761 & kill -KILL -1", seconds=5)
    assert ran.ending in ("ended", "lost")
    ran = box.run(box.start, "echo x > kept; sleep 60", seconds=1)
    assert (ran.status, ran.ending) == (137, "timeout")
    assert box.run(ran.tree, "cat kept").output.head == "x\n"
    assert list((tmp_path / "containers").iterdir()) == []


def test_an_image_that_is_not_there(box):
    with pytest.raises(SandboxUnavailable, match=r"run failed for nothing: Unable to find image 'nothing' locally"):
        ContainerSandbox(box.program, "nothing").run(b"", "ls")


def test_images_are_named_as_swe_bench_names_them(instance):
    row = replace(instance, id="Astropy__astropy-12907")
    assert image_of(row) == "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest"
    assert image_of(row, "my/{id}") == "my/astropy_1776_astropy-12907"
    assert image_of(replace(row, image="its.own"), "my/{id}") == "its.own"


def test_no_engine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="neither docker nor podman answers here"):
        container_program()


@pytest.mark.skipif(not os.environ.get("SWE_IMAGE"), reason="SWE_IMAGE names no image with a repository in /testbed")
def test_a_real_engine():
    box = ContainerSandbox(container_program(), os.environ["SWE_IMAGE"])
    ran = box.run(box.start, "echo x > kept; git log --oneline | wc -l")
    assert ran.output.head == "1\n"
    assert box.run(ran.tree, "cat kept").output.head == "x\n"
