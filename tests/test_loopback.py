"""Servers listen on this machine alone, unless they are told otherwise."""

from __future__ import annotations

import ipaddress
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from teachers.fake_server import FakeServer, serving
from test_train import PROJECT, tiny_config
from viewing.run_on_disk import write_run

from pivotopd_jax.envs.search_qa.serving import RetrievalServer
from pivotopd_jax.train import train
from pivotopd_jax.viewing.log import TrajectoryLog
from pivotopd_jax.viewing.server import make_server


def listening(process: psutil.Process) -> list[str]:
    """Addresses on which a process and its children take connections."""
    every = [process, *process.children(recursive=True)]
    return [c.laddr.ip for one in every for c in one.net_connections("inet") if c.status == psutil.CONN_LISTEN]


def is_own(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def test_the_servers_of_the_package_bind_to_loopback(tmp_path):
    nothing: Any = None
    with make_server(TrajectoryLog(write_run(tmp_path))) as viewer, RetrievalServer(nothing) as retriever:
        for server in (viewer, retriever):
            assert is_own(server.socket.getsockname()[0])
        assert len(listening(psutil.Process())) >= 2
        assert all(map(is_own, listening(psutil.Process())))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "1", "contents": "\\"Red River\\"\\nA film."}\n')
    return path


@pytest.mark.parametrize("script", ["view.py", "retriever.py"])
def test_the_scripts_that_serve_listen_on_loopback_only(tmp_path, corpus, script):
    own = {"view.py": [str(write_run(tmp_path / "run"))], "retriever.py": [f"--corpus={corpus}", f"--cache={tmp_path}"]}
    command = [sys.executable, f"launch/{script}", "--port=0", *own[script]]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            said = next(line for line in server.stdout if "http://" in line)
            assert "http://127.0.0.1:" in said
            found = listening(psutil.Process(server.pid))
            assert found
            assert all(map(is_own, found))
        finally:
            server.send_signal(signal.SIGKILL)


def test_scripted_servers_of_the_tests_do_too():
    with serving(FakeServer()):
        assert all(map(is_own, listening(psutil.Process())))


def test_training_listens_to_nobody(tmp_path):
    before = len(listening(psutil.Process()))
    train(tiny_config("grpo", steps=1), tmp_path / "run")
    assert len(listening(psutil.Process())) == before
