"""What goes wrong in one of two processes is decided alike by both."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_processes import addressed, assert_all_well, run_processes

SCRIPT = str(Path(__file__).with_name("pod_faults.py"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pod")


@pytest.fixture(scope="module")
def disk(place: Path) -> Iterator[str]:
    """A disk of 64 MiB; "" for those who are not root and cannot have one."""
    disk = place / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        yield ""
        return
    yield str(disk)
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.fixture(scope="module")
def seen(place: Path, disk: str) -> list[dict[str, Any]]:
    """What each of the two processes saw."""
    assert_all_well(run_processes([SCRIPT, str(place), disk], addressed(2)))
    return [json.loads((place / f"seen_{index}.json").read_text()) for index in range(2)]


@pytest.mark.slow
def test_if_one_is_told_to_end_all_save_and_end(seen):
    for process in seen:
        assert process["preempted"] == {"told": True, "saved": 1, "state": True, "lines": True}


@pytest.mark.slow
def test_what_is_not_finite_in_one_is_skipped_in_all(seen):
    """The first of two updates a step is sound; the next three, all in a row, end the run."""
    for process in seen:
        assert process["skipped"] == {
            "ended": "the loss or the gradient of the latest 3",
            "skipped": [0.5, 1],
            "kept": True,
        }


@pytest.mark.slow
def test_environments_that_fail_in_one_cost_its_groups_alone(seen):
    """The second process has two of the three groups of a step. In the second step it has none left, and the first
    trains on its own; then all fail in both."""
    for process in seen:
        assert process["environments"] == {
            "ended": "the environments of the latest 3 steps failed in e",
            "dropped": [0, 2, 3, 3, 3],
            "updated": [True, True, False, False, False],
        }


@pytest.mark.slow
def test_a_checkpoint_that_one_cannot_read_is_used_by_none(seen):
    for process in seen:
        assert process["damaged"] == {"state": True, "lines": True, "aside": True}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one_full", "all_full"])
def test_a_checkpoint_that_one_or_all_cannot_write_is_gone_on_without(seen, disk, name):
    if name == "all_full" and not disk:
        pytest.skip("no small disk to be had: only root can mount one")
    for process in seen:
        assert process[name]["state"] is True
        assert process[name]["lines"] == 3
        assert process[name]["found"] == [1, 3]
