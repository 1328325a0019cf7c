"""A filter of system calls for sandboxes, as a program for the kernel: some are refused, all others are let through.

Refused are those by which a command could reach keys that whoever started us holds (namespaces do not hide them), and
some with a large surface in the kernel that no program of a repository needs.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from typing import NamedTuple

from pivotopd_jax.envs.swe.sandbox import SandboxUnavailable

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NUMBER, _ARCHITECTURE = 0, 4
"""Where they stand in what the kernel shows the program of a call."""

_OTHER_TABLE = 0x40000000
"""Numbers of x32 begin here; they name the same calls once more."""


class Machine(NamedTuple):
    """A kind of processor.

    Attributes:
        architecture: as the kernel names it.
        refused: numbers of system calls: add_key, request_key, keyctl, perf_event_open, bpf, userfaultfd, and
            io_uring's three.
    """

    architecture: int
    refused: Sequence[int]


MACHINES = {
    "x86_64": Machine(0xC000003E, (248, 249, 250, 298, 321, 323, 425, 426, 427)),
    "aarch64": Machine(0xC00000B7, (217, 218, 219, 241, 280, 282, 425, 426, 427)),
}


def system_call_filter(machine: str) -> bytes:
    """The program, as `bwrap --seccomp` reads it.

    Args:
        machine: as `platform.machine()` says.

    Raises:
        SandboxUnavailable: its numbers of system calls are not known here.
    """
    if machine not in MACHINES:
        raise SandboxUnavailable(
            f"sandboxes need a filter of system calls, and there is none for {machine!r}, only for "
            f"{', '.join(MACHINES)}; use containers"
        )
    architecture, refused = MACHINES[machine]
    tests = [*((_EQUAL, number) for number in refused), (_AT_LEAST, _OTHER_TABLE)]
    # The second and third of each: how many instructions to skip where it is so, and where it is not.
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (
            _EQUAL,
            0,
            len(tests) + 2,
            architecture,
        ),  # the second and third numbers: instructions to skip if it is so, or not
        (_LOAD, 0, 0, _NUMBER),
        *((test, len(tests) - place, 0, number) for place, (test, number) in enumerate(tests)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
