"""launch/teacher.sh, with a stand-in for vLLM that notes what it was started with and says that it is healthy."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "launch" / "teacher.sh"
STAND_IN = """
import http.server, pathlib, sys

class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass

arguments = sys.argv[1:]
pathlib.Path(__file__).with_name("started").write_text(" ".join(arguments))
if "broken" in arguments:
    sys.exit("no such model")
address = (arguments[arguments.index("--host") + 1], int(arguments[arguments.index("--port") + 1]))
http.server.HTTPServer(address, Healthy).serve_forever()
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    package = tmp_path / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    (tmp_path / "vllm" / "__init__.py").write_text("")
    (package / "api_server.py").write_text(STAND_IN)
    return package


def start(stand_in: Path | None, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    own = {"PYTHON": sys.executable, "PYTHONPATH": str(stand_in.parents[2]) if stand_in else ""}
    inherited = {key: value for key, value in os.environ.items() if key not in ("HOST", "PORT", "VLLM_API_KEY")}
    return subprocess.Popen(
        ["bash", str(SCRIPT), *arguments], env={**inherited, **own, **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_it_says_when_the_teacher_answers_and_takes_the_server_along(stand_in):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = start(stand_in, "qwen3-30b-a3b", "--seed", "1", PORT=str(port))
    assert script.stdout
    line = script.stdout.readline()
    assert line.startswith("teacher: Qwen/Qwen3-30B-A3B answers")
    assert f"--config.teacher.base_url=http://127.0.0.1:{port}/v1" in line
    script.send_signal(signal.SIGTERM)
    script.communicate(timeout=60)
    with socket.socket() as again, pytest.raises(ConnectionRefusedError):
        again.connect(("127.0.0.1", port))
    started = (stand_in / "started").read_text()
    assert "--model Qwen/Qwen3-30B-A3B --served-model-name teacher --host 127.0.0.1" in started
    assert started.endswith("--max-model-len 32768 --tensor-parallel-size 2 --seed 1")


def test_a_server_that_ends_while_loading_is_reported(stand_in):
    output = start(stand_in, "broken").communicate(timeout=60)
    assert "no such model" in output[1]
    assert "teacher: the server ended while loading broken" in output[1]


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        ([], {}, "no model given; expected qwen3-30b-a3b"),
        (["qwen3.5-122b-a10b"], {"HOST": "0.0.0.0"}, "can be reached from outside; set VLLM_API_KEY"),
        (["qwen3-30b-a3b"], {"PYTHON": "/no/such/python"}, "/no/such/python has no vLLM"),
    ],
)
def test_what_cannot_be_served_is_named(arguments, environment, message):
    script = start(None, *arguments, **environment)
    assert message in script.communicate(timeout=60)[1]
    assert script.returncode == 1
