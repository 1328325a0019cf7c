"""What a sandbox offers: a repository's working tree is a value, and a command leads from one value to another.

Nothing lives between two commands, no process and no file, so that a snapshot costs nothing and any state can be gone
on from any number of times. The price is that the tree is laid out anew for each command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

SHOWN = 10_000
"""Characters that are kept of what a command writes, if nothing else is said."""

Tree = bytes
"""The files of a working tree. What is in it is the sandbox's own business, and untrusted: only a sandbox opens it."""

MEBIBYTE = 2**20


@dataclass(frozen=True)
class Limits:
    """What a command may use up.

    Attributes:
        seconds: of wall time.
        memory: bytes of all its processes, files in memory included.
        processes: threads included.
        disk: bytes of the working tree, and again of /tmp.
    """

    seconds: float = 60.0
    memory: int = 2048 * MEBIBYTE
    processes: int = 128
    disk: int = 64 * MEBIBYTE


Ending = Literal["ended", "timeout", "lost"]
"""A command came to its end; it was stopped at its time limit; or its sandbox was lost, and with it what it did."""


class Output(NamedTuple):
    """The beginning and the end of what a command wrote.

    Attributes:
        head, tail: decoded as UTF-8, other bytes replaced; `head` is all that was written if nothing is missing.
        missing: bytes between the two, about.
    """

    head: str
    tail: str = ""
    missing: int = 0


class Ran(NamedTuple):
    """What came of a command.

    Attributes:
        output: what it wrote, as far as it is kept, both streams together.
        status: exit status; −1 if the sandbox was lost.
        tree: the working tree afterwards; the one before if the sandbox was lost.
        ending: how it ended.
        seconds: that it took.
        why: in words, how the sandbox was lost; else empty.
    """

    output: Output
    status: int
    tree: Tree
    ending: Ending
    seconds: float
    why: str = ""


NO_FILES: Mapping[str, bytes] = {}


class SandboxUnavailable(RuntimeError):
    """This machine cannot run the sandbox; says why, and what to do."""


class Sandbox(Protocol):
    """The machine on which one repository lies."""

    @property
    def start(self) -> Tree:
        """The tree that the task starts from: one fresh commit, without history."""
        ...

    def run(
        self, tree: Tree, command: str, *, seconds: float | None = None, shown: int = SHOWN,
        files: Mapping[str, bytes] = NO_FILES,
    ) -> Ran:  # fmt: skip
        """Runs a bash command in the top directory of `tree`.

        Args:
            tree: as `start` or an earlier command left it.
            command: untrusted.
            seconds: time limit, if it is not that of the sandbox.
            shown: characters that are kept of its output.
            files: laid into /inputs by name, to be read only.

        Raises:
            SandboxUnavailable: nothing can be run here.
        """
        ...

    def difference(self, tree: Tree) -> bytes:
        """What leads from `start` to `tree`, as `git diff --binary` writes it; empty if that cannot be told."""
        ...
