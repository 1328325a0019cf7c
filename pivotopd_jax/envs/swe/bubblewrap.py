"""A sandbox of Linux namespaces, by Debian's `bubblewrap`: no daemon, no image, some tens of milliseconds a command.

A command sees the system's programs (/usr, read-only), a Python with pytest, and its working tree; no network, no other
host file, no key of the host's, no process but its own, and an unprivileged user without capabilities. All it can write
to is in memory and bounded. When it ends, or is stopped, every process that it began is gone.

The kernel is shared, and only a few system calls are refused; who fears its holes puts a virtual machine around.
"""

from __future__ import annotations

import base64
import binascii
import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO

from pivotopd_jax.envs.swe.boxed import GRACE, run_boxed
from pivotopd_jax.envs.swe.cgroups import bounded_group
from pivotopd_jax.envs.swe.sandbox import MEBIBYTE, NO_FILES, SHOWN, Limits, Ran, SandboxUnavailable, Tree
from pivotopd_jax.envs.swe.seccomp import system_call_filter

TOP = "/testbed"
USER = 64_999
"""Who starts the sandbox where we are root: a user who owns nothing."""

LONGEST_COMMAND = 100_000
"""Bytes; the kernel takes no longer argument."""

EMPTY: Tree = bytes(10_240)
"""A tar archive without files."""

_DATE = "2000-01-01T00:00:00Z"
"""Of every file: trees with the same contents are the same bytes."""

_RUNNER = """
exec 3>&2 2>/dev/null
ulimit -c 0 -u "$2" -v "$3" -f "$4"
tar -xf - || exit 1
timeout -s KILL "$1" bash -c "$5" </dev/null 2>&1 3>&-
status=$?
kill -KILL -1
chmod -R u+rwX .
echo "$status" >&3
exec tar -c --sort=name --mtime="$6" --owner=0 --group=0 --numeric-owner --format=gnu \\
    --exclude=__pycache__ --exclude=.pytest_cache . >&3
"""
"""Runs the command, ends all that it left running, and packs up. The command has the same user and may kill this
script: then the sandbox ends with it, and is lost."""

_PASSWD = b"agent:x:1000:1000::/tmp:/bin/bash\n"
_PYTEST = b'#!/bin/sh\nexec python -m pytest "$@"\n'

_ENVIRONMENT = {
    "PATH": "/opt/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PAGER": "cat",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONPATH": f"/opt/packages:{TOP}:{TOP}/src",
    "PYTEST_ADDOPTS": "-p no:cacheprovider",
    "GIT_AUTHOR_NAME": "agent",
    "GIT_AUTHOR_EMAIL": "agent@localhost",
    "GIT_COMMITTER_NAME": "agent",
    "GIT_COMMITTER_EMAIL": "agent@localhost",
}

_COMMIT = (
    "rm -rf .git && git init -q . && git add -A -f && "
    f"GIT_AUTHOR_DATE={_DATE} GIT_COMMITTER_DATE={_DATE} git commit -q -m 'The repository' && rm -rf .git/hooks "
    "&& git read-tree HEAD"  # an index that does not say when and where the files were laid out
)

_DIFFERENCE = """
set -e -o pipefail
find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +
tar -xf /inputs/tree --exclude=.git
git add -A -f
git diff --cached --binary --no-color --no-ext-diff --no-textconv HEAD | base64 -w 0
"""


@dataclass(frozen=True)
class Bubblewrap:
    """Runs commands on trees, whatever repository they are of.

    Attributes:
        packages: a directory of Python packages that can be imported, pytest among them; everyone may enter it.
        limits: of each command.
        grace: seconds more after which a sandbox is ended from outside.
    """

    packages: Path
    limits: Limits = field(default_factory=Limits)
    grace: float = GRACE

    @property
    def identity(self) -> str:
        """On what the result of a command depends beside the command and its tree."""
        what = (_RUNNER, _ENVIRONMENT, self.packages.name, self.limits, host_python(), sys.version, platform.platform())
        return repr(what)

    def run(
        self, tree: Tree, command: str, *, seconds: float | None = None, shown: int = SHOWN,
        files: Mapping[str, bytes] = NO_FILES,
    ) -> Ran:  # fmt: skip
        """As `sandbox.Sandbox.run`.

        Raises:
            ValueError: the command is longer than `LONGEST_COMMAND`, or holds a zero byte.
        """
        limits, most = self.limits, seconds or self.limits.seconds
        said = command.encode("utf-8", "replace")
        if len(said) > LONGEST_COMMAND or b"\0" in said:
            raise ValueError(
                f"a command of {len(said)} bytes; expected at most {LONGEST_COMMAND}, none of them a zero byte"
            )
        bounds = (most, limits.processes, limits.memory // 1024, limits.disk // 1024)
        with ExitStack() as stack, bounded_group(limits.memory, limits.processes) as groups:

            def laid(where: str, content: bytes, mode: str = "0444") -> tuple[int, list[str]]:
                number = stack.enter_context(_in_memory(content)).fileno()
                return number, ["--perms", mode, "--ro-bind-data", str(number), where]

            inputs = [
                laid("/etc/passwd", _PASSWD),
                laid("/opt/bin/pytest", _PYTEST, "0555"),
                *(laid(f"/inputs/{name}", content) for name, content in files.items()),
            ]
            built = [*_namespaces(self.packages, limits.disk), *(part for _, parts in inputs for part in parts)]
            refused = stack.enter_context(_in_memory(system_call_filter(platform.machine()))).fileno()
            built += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", TOP, "--seccomp", str(refused)]
            # On the command line they could be read inside, with the paths of this host.
            options = stack.enter_context(_in_memory("\0".join(built).encode())).fileno()
            line = [
                *_joined(groups), "bwrap", "--args", str(options),
                "bash", "-c", _RUNNER, "runner", *map(str, bounds), said.decode(), _DATE,
            ]  # fmt: skip
            return run_boxed(
                line, tree, stack.enter_context(_in_memory(tree)), seconds=most, grace=self.grace, shown=shown,
                largest=2 * limits.disk, pass_fds=[options, refused, *(number for number, _ in inputs)],
            )  # fmt: skip


@dataclass(frozen=True, eq=False)
class BubblewrapSandbox:
    """Implements `sandbox.Sandbox`.

    Attributes:
        machine: runs the commands.
        files: the repository's files, as a tar archive of its top directory.
        prepare: bash command that makes of them what the task starts from.
        inputs: files that `prepare` reads in /inputs, by name.
    """

    machine: Bubblewrap
    files: Tree
    prepare: str = ":"
    inputs: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def start(self) -> Tree:
        """One commit of the files after `prepare`, made once; whatever history came with them is dropped.

        Raises:
            SandboxUnavailable: it cannot be made; with what was printed.
        """
        return self._committed

    @cached_property
    def _committed(self) -> Tree:
        ran = self.machine.run(self.files, f"set -e\n{self.prepare}\n{_COMMIT}", files=self.inputs)
        if ran.status != 0:
            raise SandboxUnavailable(f"a repository cannot be laid out: {ran.why or ran.output.head.strip()}")
        return ran.tree

    def run(
        self, tree: Tree, command: str, *, seconds: float | None = None, shown: int = SHOWN,
        files: Mapping[str, bytes] = NO_FILES,
    ) -> Ran:  # fmt: skip
        return self.machine.run(tree, command, seconds=seconds, shown=shown, files=files)

    def difference(self, tree: Tree) -> bytes:
        if tree == self.start:
            return b""
        ran = self.machine.run(self.start, _DIFFERENCE, shown=8 * MEBIBYTE, files={"tree": tree})
        try:
            whole = ran.status == 0 and not ran.output.missing
            return base64.b64decode(ran.output.head, validate=True) if whole else b""
        except binascii.Error:
            return b""


def _in_memory(content: bytes) -> IO[bytes]:
    """A file that lies in memory only, open at its beginning."""
    file = os.fdopen(os.memfd_create("pivotopd"), "w+b")
    file.write(content)
    file.flush()
    file.seek(0)
    return file


def _joined(groups: Sequence[Path]) -> list[str]:
    """Where we are root: joins the control groups, then gives root up for good. What comes after it is run so."""
    if os.geteuid() != 0:
        return []
    join = 'while [ "$1" != -- ]; do echo $$ >"$1" || exit 1; shift; done; shift; exec "$@"'
    drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs"]
    return ["sh", "-c", join, "sh", *map(str, groups), "--", *drop]


def _namespaces(packages: Path, disk: int) -> list[str]:
    """Options of `bwrap` that make the sandbox; what is laid into it follows."""
    python = host_python()
    line = [
        "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
        "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--clearenv",
        "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin",
        "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
        "--ro-bind-try", "/etc/alternatives", "/etc/alternatives",
        "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache",
        "--proc", "/proc", "--dev", "/dev", "--size", str(16 * MEBIBYTE), "--tmpfs", "/dev/shm",
        "--size", str(disk), "--tmpfs", "/tmp", "--size", str(disk), "--tmpfs", TOP,
        "--ro-bind", str(packages), "/opt/packages", "--dir", "/inputs",
    ]  # fmt: skip
    if not python.is_relative_to("/usr/local"):
        line += ["--tmpfs", "/usr/local", "--remount-ro", "/usr/local"]
    if not python.is_relative_to("/usr"):
        line += ["--ro-bind", str(python.parents[1]), str(python.parents[1])]
    for name in ("python", "python3"):
        line += ["--symlink", str(python), f"/opt/bin/{name}"]
    return line + [part for name, value in _ENVIRONMENT.items() for part in ("--setenv", name, value)]


@lru_cache(maxsize=1)
def host_python() -> Path:
    """The Python that runs in sandboxes: the one below our virtual environment, if everyone may use it; or /usr/bin's.

    Raises:
        SandboxUnavailable: there is neither.
    """
    own = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}").resolve()
    for python in (own, Path("/usr/bin/python3").resolve()):
        if python.is_file() and _everyone_may_enter(python):
            return python
    raise SandboxUnavailable(
        f"no Python for the sandbox: {own} is not everyone's to use, and there is no /usr/bin/python3; "
        "apt-get install python3"
    )


def _everyone_may_enter(path: Path) -> bool:
    return all(place.stat().st_mode & 0o001 for place in (path, *path.parents))


def check_bubblewrap(packages: Path) -> None:
    """Makes sure that sandboxes can be made here.

    Raises:
        SandboxUnavailable: they cannot; says why, and what to do.
    """
    for program in ("bwrap", "tar", "timeout", "git", *(["setpriv"] if os.geteuid() == 0 else [])):
        if shutil.which(program) is None:
            raise SandboxUnavailable(f"{program} is not installed; apt-get install bubblewrap git tar coreutils")
    if not packages.is_dir() or not _everyone_may_enter(packages):
        raise SandboxUnavailable(
            f"{packages} is not a directory that everyone may enter; expected Python packages there"
        )
    ran = Bubblewrap(packages).run(EMPTY, "python -m pytest --version")
    if ran.status != 0:
        raise SandboxUnavailable(
            f"bubblewrap does not run here ({ran.why or ran.output.head.strip()}); it needs user namespaces "
            "for everyone (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)"
        )
