"""A sandbox with a small repository in it, for the tests of SWE tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from swe_repository import FILES, FIX, archive

from pivotopd_jax.envs.swe.bubblewrap import Bubblewrap, BubblewrapSandbox, check_bubblewrap
from pivotopd_jax.envs.swe.instances import Instance
from pivotopd_jax.envs.swe.provision import sandbox_packages
from pivotopd_jax.envs.swe.sandbox import MEBIBYTE, Limits, SandboxUnavailable


@pytest.fixture(scope="session")
def packages() -> Path:
    """What sandboxes can import; skips where there are none, or no sandboxes."""
    try:
        directory = sandbox_packages()
        check_bubblewrap(directory)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return directory


@pytest.fixture(scope="session")
def machine(packages: Path) -> Bubblewrap:
    """Small limits, so that going beyond them takes no time."""
    limits = Limits(seconds=20, memory=512 * MEBIBYTE, processes=64, disk=16 * MEBIBYTE)
    return Bubblewrap(packages, limits, grace=5.0)


@pytest.fixture(scope="session")
def sandbox(machine: Bubblewrap) -> BubblewrapSandbox:
    """A repository whose `add` subtracts."""
    return BubblewrapSandbox(machine, archive(FILES))


@pytest.fixture(scope="session")
def instance() -> Instance:
    """What is to be done in it."""
    return Instance(
        "adding-1", "adding", "", "`add` does not add.", FIX, "", ("tests/test_adding.py::test_add",),
        ("tests/test_adding.py::test_double",),
    )  # fmt: skip
