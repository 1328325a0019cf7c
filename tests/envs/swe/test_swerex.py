"""A server of swe-rex, played by a small one whose commands run in bubblewrap; no real one is needed."""

from __future__ import annotations

import json
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from background_server import running
from swe_repository import FILES, FIX

from pivotopd_jax.envs.swe.grading import grade, grade_patch
from pivotopd_jax.envs.swe.sandbox import Limits, Output, SandboxUnavailable
from pivotopd_jax.envs.swe.swerex import RemoteSandbox


class Container(ThreadingHTTPServer):
    """One container: a working tree and a /tmp, and what was asked of it."""

    def __init__(self, place: Path):
        super().__init__(("127.0.0.1", 0), Handler)
        self.place, self.asked = place, []
        self.spoiled: str | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        line = [
            "bwrap", "--unshare-all", "--die-with-parent", "--uid", "0", "--gid", "0", "--ro-bind", "/usr", "/usr",
            "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
            "--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--proc", "/proc", "--dev", "/dev",
            "--bind", str(self.place / "tmp"), "/tmp", "--bind", str(self.place / "testbed"), request["cwd"],
            "--chdir", request["cwd"], "--symlink", "/usr/bin/python3", "/opt/bin/python", "--ro-bind",
            str(self.place / "packages"), "/opt/packages", "--setenv", "PYTHONPATH", "/opt/packages:/testbed",
            "--setenv", "PYTHONDONTWRITEBYTECODE", "1", "--setenv", "PATH", "/opt/bin:/usr/bin:/bin",
        ]  # fmt: skip
        done = subprocess.run(
            [*line, *request["command"]], capture_output=True, timeout=request["timeout"], check=False
        )
        return {"stdout": self.spoiled or done.stdout.decode(), "stderr": "", "exit_code": done.returncode}

    def write_file(self, request: dict[str, Any]) -> dict[str, Any]:
        path = self.place / request["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(request["content"])
        return {}


class Handler(BaseHTTPRequestHandler):
    """swe-rex answers JSON to JSON, and wants its key."""

    server: Container

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = self.headers.get("X-API-Key") == "secret"
        self.server.asked.append(self.path)
        answer = json.dumps(getattr(self.server, self.path[1:])(request) if known else {"detail": "no key"}).encode()
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments: Any) -> None:
        """Quiet."""


@pytest.fixture
def container(tmp_path: Path, packages: Path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "packages").symlink_to(packages)
    for name, text in FILES.items():
        (tmp_path / "testbed" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "testbed" / name).write_text(text)
    with running(server := Container(tmp_path)):
        yield server


@pytest.fixture
def box(container: Container) -> RemoteSandbox:
    return RemoteSandbox(container.address, token="secret", limits=Limits(seconds=20), grace=10.0)


def test_commands_lead_from_one_change_to_another(box):
    first = box.run(box.start, "sed -i 's/a - b/a + b/' adding.py; printf 'caf\\xe9' > new.txt; echo done; exit 3")
    assert (first.output.head, first.status, first.ending) == ("done\n", 3, "ended")
    assert "a - b" in box.run(box.start, "cat adding.py; ls").output.head
    again = box.run(first.tree, "grep -c 'a + b' adding.py; cat new.txt; git log --oneline | wc -l")
    assert again.output.head == "1\ncaf\ufffd1\n"
    assert again.tree == first.tree == box.difference(first.tree)


def test_a_repository_that_has_to_be_broken_first(container):
    box = RemoteSandbox(container.address, token="secret", breaking=FIX)
    assert "a + b" in box.run(box.start, "cat adding.py").output.head


def test_tests_judge_there_too(box, instance):
    assert grade_patch(instance, box, FIX.encode()).resolved
    assert not grade(instance, box, box.start).resolved


def test_long_output_and_time(box):
    ran = box.run(box.start, "echo first; head -c 100000 /dev/zero | tr '\\0' x; echo last", shown=100)
    assert (ran.output.head, ran.output.tail) == ("first\n" + 44 * "x", 45 * "x" + "last\n")
    assert ran.output.missing == 100_000 + 6 + 5 - 100
    assert box.run(box.start, "seq 30", shown=81).output == Output("".join(f"{n}\n" for n in range(1, 31)))
    assert box.run(box.start, "seq 30", shown=16).output == Output("1\n2\n3\n4\n", "8\n29\n30\n", 81 - 16)
    ran = box.run(box.start, "echo kept > a; sleep 60", seconds=1)
    assert (ran.status, ran.ending) == (137, "timeout")
    assert box.run(ran.tree, "cat a").output.head == "kept\n"


@pytest.mark.parametrize("spoiled", ["", "nonsense", "0 1\n*\n\n", "0\n\n\n", "0 x\n\n\n", "0 1\n\n"])
def test_what_a_spoiled_container_sends_changes_nothing(container, box, spoiled):
    box.run(box.start, "true")
    container.spoiled = spoiled or "\n"
    ran = box.run(b"", "echo x > a")
    assert (ran.status, ran.ending, ran.tree) == (-1, "lost", b"")


def test_no_server_and_no_key(container):
    with pytest.raises(SandboxUnavailable, match=r"failed \(HTTPStatusError: .*401"):
        RemoteSandbox(container.address).run(b"", "ls")
    with pytest.raises(SandboxUnavailable, match=r"the swe-rex server at http://127.0.0.1:9 failed \(ConnectError"):
        RemoteSandbox("http://127.0.0.1:9").run(b"", "ls")
