"""A sandbox that runs the same command on the same tree only once.

Right where commands are deterministic, which the tests of tasks made on this machine were seen to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pivotopd_jax.envs.swe.sandbox import NO_FILES, SHOWN, Ran, Sandbox, Tree


class Remembered:
    """Implements `sandbox.Sandbox` with another one."""

    def __init__(self, sandbox: Sandbox, *, most: int = 4096) -> None:
        """`most`: results that are kept."""
        self._sandbox = sandbox
        self._run = lru_cache(maxsize=most)(self._again)
        self._difference = lru_cache(maxsize=most)(sandbox.difference)

    @property
    def start(self) -> Tree:
        return self._sandbox.start

    def run(
        self, tree: Tree, command: str, *, seconds: float | None = None, shown: int = SHOWN,
        files: Mapping[str, bytes] = NO_FILES,
    ) -> Ran:  # fmt: skip
        return self._run(tree, command, seconds, shown, tuple(sorted(files.items())))

    def difference(self, tree: Tree) -> bytes:
        return self._difference(tree)

    def _again(self, tree: Tree, command: str, seconds: float | None, shown: int, files: tuple[Any, ...]) -> Ran:
        return self._sandbox.run(tree, command, seconds=seconds, shown=shown, files=dict(files))
