"""Bounds on what a group of processes uses together, where the kernel's control groups can be written to."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


@contextmanager
def bounded_group(memory: int, processes: int) -> Iterator[Sequence[Path]]:
    """A new control group; a process joins it by writing its id to each of the files that are given.

    It vanishes at the end of the block, when no process must be left in it. Where control groups cannot be written to
    no file is given: then only the limits of single processes hold.

    Args:
        memory: bytes, files in memory included.
        processes: threads included.
    """
    name = f"pivotopd-{os.getpid()}-{secrets.token_hex(6)}"
    groups = [parent / name for parent in group_parents()]
    try:
        for group in groups:
            group.mkdir()
            _bound(group, memory, processes)
        yield [group / "cgroup.procs" for group in groups]
    finally:
        for group in groups:
            _remove(group)


@lru_cache(maxsize=1)
def group_parents() -> tuple[Path, ...]:
    """Where a group that bounds memory and processes can be made (version 2 of control groups, or 1); () if nowhere."""
    if (ROOT / "cgroup.controllers").is_file():
        candidates = (ROOT,) if {"memory", "pids"} <= set((ROOT / "cgroup.subtree_control").read_text().split()) else ()
    else:
        candidates = (ROOT / "memory", ROOT / "pids")
    return candidates if all(os.access(path, os.W_OK) and path.is_dir() for path in candidates) else ()


def _bound(group: Path, memory: int, processes: int) -> None:
    wanted = {
        "memory.max": memory,  # version 2
        "memory.swap.max": 0,
        "memory.limit_in_bytes": memory,  # version 1
        "pids.max": processes,  # both
    }
    for name, value in wanted.items():
        if (group / name).exists():
            (group / name).write_text(str(value))


def _remove(group: Path) -> None:
    """The kernel needs a moment until the last process has left a group."""
    for _ in range(100):
        with contextlib.suppress(FileNotFoundError):
            try:
                group.rmdir()
            except OSError:
                time.sleep(0.02)
                continue
        return
