"""A sandbox in containers, by Docker or Podman, for repositories that come as images: those of SWE-bench and its kin.

A tree is the change since the start, as a diff, and each command has a container of its own: it takes about a second
where `bubblewrap` takes tens of milliseconds. The isolation is that of the container engine: run it rootless, or with
user namespaces, for students that are not trusted.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pivotopd_jax.envs.swe.archives import as_archive
from pivotopd_jax.envs.swe.boxed import GRACE, run_boxed
from pivotopd_jax.envs.swe.instances import Instance
from pivotopd_jax.envs.swe.sandbox import NO_FILES, SHOWN, Limits, Ran, SandboxUnavailable, Tree

TOP = "/testbed"
PROGRAMS = ("docker", "podman")
SWE_BENCH_IMAGE = "swebench/sweb.eval.x86_64.{id}:latest"

COMMIT = """
set -e
[ -z "$1" ] || git apply --whitespace=nowarn - <<<"$1"
rm -rf .git
git init -q .
git add -A -f
git -c user.name=agent -c user.email=agent@localhost commit -q -m 'The repository'
git tag pivotopd-start
"""
"""Makes of a repository what a task starts from; its argument is the patch that breaks it, if it is not broken yet."""

_RUNNER = """
exec 3>&2 2>/dev/null
tar -xf - -C / && { [ ! -s /inputs/tree ] || git apply --whitespace=nowarn /inputs/tree; } || exit 1
timeout -s KILL "$1" bash -c "$2" </dev/null 2>&1 3>&-
status=$?
kill -KILL -1
git add -A -f && changed="$(git write-tree)" || exit 1
echo "$status" >&3
exec git diff --binary --no-color --no-ext-diff --no-textconv pivotopd-start "$changed" >&3
"""
"""Process 1 of its container: it cannot be killed from inside, and ends what the command left running."""


def image_of(instance: Instance, template: str = "") -> str:
    """The image that holds `instance`: its own, or `template` with {id} filled in as SWE-bench does."""
    name = instance.id.lower().replace("__", "_1776_")
    return instance.image or (template or SWE_BENCH_IMAGE).replace("{id}", name)


def container_program() -> str:
    """`docker` or `podman`, whichever answers.

    Raises:
        SandboxUnavailable: neither does.
    """
    for program in filter(shutil.which, PROGRAMS):
        if subprocess.run([program, "info"], capture_output=True, check=False).returncode == 0:
            return program
    raise SandboxUnavailable(
        "these tasks lie in container images, and neither docker nor podman answers here; start one, or make tasks "
        "that need none: python launch/build_swe_tasks.py --out=DIR"
    )


@dataclass(frozen=True, eq=False)
class ContainerSandbox:
    """Implements `sandbox.Sandbox`.

    Attributes:
        program: docker or podman.
        image: with the repository in `TOP`.
        limits: of each command; the disk of a container is the engine's to bound.
        breaking: patch that has to be applied to the image's repository at first; "" for none.
        start: no change.
    """

    program: str
    image: str
    limits: Limits = field(default_factory=Limits)
    breaking: str = ""
    start: Tree = b""

    @cached_property
    def base(self) -> str:
        """The image with its repository as one fresh commit; made once.

        Raises:
            SandboxUnavailable: the engine failed; with its last line.
        """
        name = f"pivotopd-{secrets.token_hex(6)}"
        try:
            self._engine(
                "run",
                "--name",
                name,
                "--network",
                "none",
                "--workdir",
                TOP,
                self.image,
                "bash",
                "-c",
                COMMIT,
                "commit",
                self.breaking,
            )
            return self._engine("commit", name)
        finally:
            self._remove(name)

    def run(
        self, tree: Tree, command: str, *, seconds: float | None = None, shown: int = SHOWN,
        files: Mapping[str, bytes] = NO_FILES,
    ) -> Ran:  # fmt: skip
        name, most = f"pivotopd-{secrets.token_hex(6)}", seconds or self.limits.seconds
        line = [
            shutil.which(self.program) or self.program, "run", "--rm", "--interactive", "--pull", "never",
            "--name", name, "--network", "none", "--memory", str(self.limits.memory),
            "--pids-limit", str(self.limits.processes),
            "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--env", "BASH_ENV=/root/.bashrc",
            "--workdir", TOP, self.base, "bash", "-c", _RUNNER, "runner", str(most), command,
        ]  # fmt: skip
        laid = as_archive({"inputs/tree": tree, **{f"inputs/{name}": content for name, content in files.items()}})
        with tempfile.TemporaryFile() as source:
            source.write(laid)
            source.seek(0)
            ran = run_boxed(
                line, tree, source, seconds=most, grace=GRACE, shown=shown, largest=2 * self.limits.disk
            )  # fmt: skip
        if ran.ending == "lost":
            self._remove(name)
        return ran

    def difference(self, tree: Tree) -> bytes:
        return tree

    def _engine(self, *arguments: str) -> str:
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise SandboxUnavailable(f"{self.program} {arguments[0]} failed for {self.image}: {last}")
        return done.stdout.strip()

    def _remove(self, name: str) -> None:
        subprocess.run([self.program, "rm", "--force", name], capture_output=True, check=False)
