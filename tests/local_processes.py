"""A few processes on this machine that find one another as those of a pod do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pivotopd_jax.processes import COORDINATOR, COUNT, INDEX

PROJECT = Path(__file__).resolve().parents[1]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def environment(devices: int) -> dict[str, str]:
    """That of a process with so many CPU devices, which finds the project and its tests, and compiles quickly."""
    return {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0",
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
        "JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(PROJECT / ".cache" / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "tests")]),
    }


def addressed(count: int) -> list[dict[str, str]]:
    """The variables that tell each of `count` processes where the others are."""
    address = f"127.0.0.1:{free_port()}"
    return [{COORDINATOR: address, COUNT: str(count), INDEX: str(index)} for index in range(count)]


def assert_all_well(results: Sequence[tuple[int, str, str]]) -> None:
    """All processes have ended well; otherwise shows what each said before JAX ended it."""
    said = [
        f"process {index} ended with {status}:\n{errors.partition('coordination_service')[0][-3000:]}"
        for index, (status, _, errors) in enumerate(results)
    ]
    assert not any(status for status, _, _ in results), "\n".join(said)


def run_processes(
    command: Sequence[str], variables: Sequence[Mapping[str, str]], *, devices: int = 1, seconds: float = 900
) -> list[tuple[int, str, str]]:
    """Runs `command` (arguments of Python) once with each of `variables`, all at the same time.

    Returns:
        The exit status, stdout and stderr of each. Those that have not ended after `seconds` are killed (status −9).
    """
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for index, own in enumerate(variables):
            out, errors = (Path(folder, f"{index}.{name}") for name in ("out", "errors"))
            with out.open("w") as stdout, errors.open("w") as stderr:
                process = subprocess.Popen(
                    [sys.executable, *command], env={**environment(devices), **own}, cwd=PROJECT,
                    stdout=stdout, stderr=stderr,
                )  # fmt: skip
            running.append((process, out, errors))
        try:
            for process, _, _ in running:
                process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            for process, _, _ in running:
                process.kill()
        return [(process.wait(), out.read_text(), errors.read_text()) for process, out, errors in running]
