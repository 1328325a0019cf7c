"""A sandbox that runs the same command on the same tree only once, in this process or in an earlier one.

Right where commands are deterministic, which the tests of tasks made on this machine were seen to be. What was stopped
or lost tells of the machine's load, and is run again. All results are kept: meant for few commands on few trees.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pivotopd_jax.envs.swe.sandbox import NO_FILES, SHOWN, Output, Ran, Sandbox, Tree
from pivotopd_jax.files import write_bytes


@dataclass(frozen=True)
class KeptBytes:
    """Bytes by name in files of a directory, which processes may share; it can be deleted at any time."""

    directory: Path

    def get(self, name: str) -> bytes | None:
        """None if they are not there, or damaged."""
        try:
            return zlib.decompress(self._path(name).read_bytes())
        except (FileNotFoundError, zlib.error):
            return None

    def put(self, name: str, content: bytes) -> None:
        """Keeps `content`, which is the same whenever it has that name."""
        write_bytes(self._path(name), zlib.compress(content, 1))

    def _path(self, name: str) -> Path:
        return self.directory / name[:2] / name


class Remembered:
    """Implements `sandbox.Sandbox` with another one."""

    def __init__(self, sandbox: Sandbox, kept: KeptBytes, *, machine: str) -> None:
        """Runs nothing.

        Args:
            sandbox: runs what was not run yet.
            kept: what is known of earlier processes.
            machine: says on what results depend beside tree and command.
        """
        self._sandbox, self._kept, self._machine = sandbox, kept, machine
        self._known: dict[str, Ran] = {}
        self._differences: dict[str, bytes] = {}
        self._trees: dict[Tree, Tree] = {}

    @property
    def start(self) -> Tree:
        return self._sandbox.start

    def run(
        self, tree: Tree, command: str, *, seconds: float | None = None, shown: int = SHOWN,
        files: Mapping[str, bytes] = NO_FILES,
    ) -> Ran:  # fmt: skip
        name = _digest(
            self._machine.encode(), tree, command.encode("utf-8", "surrogatepass"), f"{seconds} {shown}".encode(),
            *(part for pair in sorted(files.items()) for part in (pair[0].encode(), pair[1])),
        )  # fmt: skip
        known = self._known.get(name) or self._recalled(name)
        if known is None:
            known = self._sandbox.run(tree, command, seconds=seconds, shown=shown, files=files)
            if known.ending != "ended":
                return known
            self._keep(name, known)
        self._known[name] = known._replace(tree=self._trees.setdefault(known.tree, known.tree))
        return self._known[name]

    def difference(self, tree: Tree) -> bytes:
        name = _digest(b"difference", self._machine.encode(), self.start, tree)
        found = self._differences.get(name) or self._kept.get(name)
        if not found:
            found = self._sandbox.difference(tree)
            if found:  # none may mean that it could not be told
                self._kept.put(name, found)
        self._differences[name] = found
        return found

    def _recalled(self, name: str) -> Ran | None:
        written = self._kept.get(name)
        if written is None:
            return None
        row = json.loads(written)
        tree = self._kept.get(row["tree"])
        return None if tree is None else Ran(Output(*row["output"]), row["status"], tree, "ended", row["seconds"])

    def _keep(self, name: str, ran: Ran) -> None:
        tree = _digest(b"tree", ran.tree)
        if ran.tree not in self._trees:
            self._kept.put(tree, ran.tree)
        row = {"output": ran.output, "status": ran.status, "tree": tree, "seconds": ran.seconds}
        self._kept.put(name, json.dumps(row).encode())


def _digest(*parts: bytes) -> str:
    """Of `parts`, each with its length, so that no two lists of parts run into one another."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
