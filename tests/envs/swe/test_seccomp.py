"""The filter of system calls, carried out as the kernel does."""

from __future__ import annotations

import errno
import struct

import pytest

from pivotopd_jax.envs.swe.sandbox import SandboxUnavailable
from pivotopd_jax.envs.swe.seccomp import system_call_filter

ALLOWED, REFUSED = 0x7FFF0000, 0x00050000 + errno.EPERM
X86_64, I386, AARCH64 = 0xC000003E, 0x40000003, 0xC00000B7  # linux/audit.h


def carried_out(program: bytes, number: int, architecture: int) -> int:
    """What a program answers to a call, which it sees as `struct seccomp_data`."""
    data = struct.pack("=II", number, architecture)
    steps, place, value = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, skip, otherwise, operand = steps[place]
        place += 1
        if code == 0x20:  # BPF_LD | BPF_W | BPF_ABS
            (value,) = struct.unpack_from("=I", data, operand)
        elif code == 0x15:  # BPF_JMP | BPF_JEQ | BPF_K
            place += skip if value == operand else otherwise
        elif code == 0x35:  # BPF_JMP | BPF_JGE | BPF_K
            place += skip if value >= operand else otherwise
        else:
            assert code == 0x06  # BPF_RET | BPF_K
            return operand


@pytest.mark.parametrize(
    ("machine", "architecture", "refused"),
    [  # asm/unistd.h of each: add_key, request_key, keyctl, perf_event_open, bpf, userfaultfd, io_uring_*
        ("x86_64", X86_64, {248, 249, 250, 298, 321, 323, 425, 426, 427}),
        ("aarch64", AARCH64, {217, 218, 219, 241, 280, 282, 425, 426, 427}),
    ],
)
def test_some_calls_are_refused(machine, architecture, refused):
    program = system_call_filter(machine)
    answers = {number: carried_out(program, number, architecture) for number in range(600)}
    assert {number for number, answer in answers.items() if answer == REFUSED} == refused
    assert set(answers.values()) == {ALLOWED, REFUSED}


def test_other_names_of_the_same_calls_are_refused():
    """Those of x32, and all of a program for another processor."""
    program = system_call_filter("x86_64")
    assert carried_out(program, 0x40000000 + 1, X86_64) == REFUSED
    assert carried_out(program, 1, I386) == REFUSED
    assert carried_out(program, 1, AARCH64) == REFUSED


def test_a_machine_that_is_not_known():
    with pytest.raises(SandboxUnavailable, match=r"there is none for 'vax', only for x86_64, aarch64; use containers"):
        system_call_filter("vax")
