"""What goes wrong in one of two processes is decided by both alike."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from local_processes import addressed, assert_all_well, run_processes
from test_survival import small_disk  # noqa: F401

SCRIPT = str(Path(__file__).with_name("pod_faults.py"))


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A small disk, if there can be one."""
    try:
        return str(request.getfixturevalue("small_disk"))
    except pytest.skip.Exception:
        return ""
