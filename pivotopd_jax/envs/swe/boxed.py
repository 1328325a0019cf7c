"""Runs the program that makes a sandbox, and takes from it what comes out: output, exit status and working tree."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from typing import IO

from pivotopd_jax.envs.swe.sandbox import Output, Ran, Tree

GRACE = 20.0
"""Seconds for making a sandbox, laying the tree out and packing it up again, beside the command's own."""

TIMED_OUT = (124, 137)
"""What `timeout` answers; a command may answer so, too."""


def run_boxed(
    line: Sequence[str], tree: Tree, stdin: IO[bytes], *, seconds: float, grace: float, shown: int, largest: int,
    pass_fds: Sequence[int] = (),
) -> Ran:  # fmt: skip
    """Runs a sandbox to its end.

    Args:
        line: program and arguments. It writes the command's output, both streams together, to its standard output, and
            to its standard error, when the command is over, the exit status, a new line, and the new tree.
        tree: before the command.
        stdin: what the program reads, open at its beginning.
        seconds: the command's time limit, which the program keeps.
        grace: seconds more after which the program itself is ended.
        shown: characters kept of the output.
        largest: bytes that a tree may take.
        pass_fds: further descriptors that it inherits.

    Returns:
        "lost" where the program did not end as it should: it is all untrusted.
    """
    reader, packed, why = OutputReader(shown), bytearray(), ""
    started = time.monotonic()
    process = subprocess.Popen(
        line, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env={"PATH": os.defpath},
        pass_fds=pass_fds, start_new_session=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stderr
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, reader.add)
            selector.register(process.stderr, selectors.EVENT_READ, packed.extend)
            while selector.get_map() and not why:
                left = started + seconds + grace - time.monotonic()
                for key, _ in selector.select(max(0.0, left)):
                    if data := os.read(key.fd, 2**16):
                        key.data(data)
                    else:
                        selector.unregister(key.fileobj)
                if left <= 0:
                    why = "it did not come back in time"
                if len(packed) > largest:
                    why = f"the working tree takes more than {largest // 2**20} MiB"
    finally:
        if why:
            process.kill()
        status = process.wait()
        process.stdout.close()
        process.stderr.close()
    return _ran(tree, reader.output(), bytes(packed), status, why, time.monotonic() - started, seconds)


def _ran(before: Tree, output: Output, packed: bytes, status: int, why: str, took: float, most: float) -> Ran:
    first, _, after = packed.partition(b"\n")
    if why or status or not first.isdigit() or len(first) > 3:
        return Ran(output, -1, before, "lost", took, why or _reason(status, first))
    stopped = int(first) in TIMED_OUT and took >= most
    return Ran(output, int(first), before if after == before else after, "timeout" if stopped else "ended", took)


def _reason(status: int, line: bytes) -> str:
    if line and not line.isdigit():
        return line[:400].decode("utf-8", "replace")
    return "its processes were killed" if status in (137, -9) else "its working tree could not be kept"


class OutputReader:
    """Keeps the beginning and the end of a stream of bytes, and never more than that."""

    def __init__(self, most: int) -> None:
        """`most`: characters shown; twice the bytes that so many can take are kept."""
        self._most = most
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Takes the next bytes."""
        self._total += len(data)
        room = 4 * self._most - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 8 * self._most:
            del self._tail[: -4 * self._most]

    def skip(self, count: int) -> None:
        """Leaves out as many bytes, which nobody has kept."""
        self._total += count

    def output(self) -> Output:
        """What is shown of them: all, or half of the characters from each end."""
        if self._total == len(self._head) + len(self._tail):
            text = bytes(self._head + self._tail).decode("utf-8", "replace")
            if len(text) <= self._most:
                return Output(text)
        half = self._most // 2
        head = self._head.decode("utf-8", "replace")[:half]
        tail = bytes(self._tail or self._head).decode("utf-8", "replace")[-half:]
        return Output(head, tail, max(0, self._total - len(head.encode()) - len(tail.encode())))
