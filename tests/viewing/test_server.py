"""The server: what it answers, whom it refuses, and that nothing outside the log can be asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
from background_server import running
from viewing.run_on_disk import NASTY, mistaken, trajectory, turn, write_lines, write_run

from pivotopd_jax.viewing.log import TrajectoryLog
from pivotopd_jax.viewing.server import is_loopback, is_own_name, make_server


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = write_run(tmp_path_factory.mktemp("viewing") / "run")
    (directory / "secret.txt").write_text("secret")
    write_lines(directory, "step_000020", trajectory("a", turn()), b"broken\n")
    server = make_server(TrajectoryLog(directory))
    with running(server):
        yield server.server_address[1]


def ask(port: int, address: str, host: str | None = "localhost", method: str = "GET") -> tuple[int, Any, dict]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.putrequest(method, address, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    content = json.loads(text) if "json" in (answer.getheader("Content-Type") or "") else text
    return answer.status, content, {name.lower(): value for name, value in answer.getheaders()}


def test_the_index_and_single_trajectories(port):
    status, index, _ = ask(port, "/api/index")
    assert status == 200
    assert index["run"] == "run"
    assert {"name": "validation_000010", "occasion": "validation", "step": 10} in index["files"]
    assert index["tasks"][index["rows"][0][2]] == "lamp/1"
    assert index["problems"] == ["step_000020.jsonl, line 2: expected JSON: Expecting value at character 1"]
    assert ask(port, "/api/trajectory?file=step_000000&line=1")[1] == mistaken()
    status, answer, _ = ask(port, "/api/trajectory?file=step_000020&line=2")
    assert (status, answer["error"]) == (404, index["problems"][0])
    assert ask(port, "/api/search?text=wait")[1]["complete"] is True


def test_numbers_that_are_no_json_are_an_answer_of_their_own(tmp_path):
    write_lines(tmp_path, "step_000000", b'{"turns": [], "score": 1e999}\n')
    server = make_server(TrajectoryLog(tmp_path))
    with running(server):
        port = int(server.server_address[1])
        assert ask(port, "/api/index")[0] == 200
        assert ask(port, "/api/trajectory?file=step_000000&line=1")[0] == 400


def test_what_a_model_wrote_travels_as_json_only(port):
    """Whatever looks like markup, or would be no JSON, is escaped; and a browser will not guess another type."""
    status, record, headers = ask(port, "/api/trajectory?file=step_000010&line=1")
    assert (status, record["task"]) == (200, NASTY)
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("address", ["/", "/viewer.js", "/style.css", "/api/index", "/nothing"])
def test_every_answer_forbids_foreign_and_inline_scripts(port, address):
    _, _, headers = ask(port, address)
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", "", None]
)
def test_a_request_that_names_another_host_is_refused(port, host):
    status, answer, _ = ask(port, "/api/index", host)
    assert (status, set(answer)) == (421, {"error"})


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8765", "[::1]:8765", "10.0.0.3:80"]
)
def test_addresses_and_localhost_are_answered(port, host):
    assert ask(port, "/api/index", host)[0] == 200


@pytest.mark.parametrize(
    "address",
    [
        "/../secret.txt", "/%2e%2e/secret.txt", "/static/../log.py", "/log.py", "/viewer.js/../index.html",
        "/api/trajectory?file=../secret.txt&line=1", "/api/trajectory?file=%2e%2e%2fsecret&line=1",
        "/api/trajectory?file=/etc/passwd&line=1", "/api/trajectory?file=step_000000.jsonl&line=1",
        "/api/trajectory?file=step_000000&line=99",
    ],
)  # fmt: skip
def test_nothing_outside_the_log_is_served(port, address):
    status, answer, _ = ask(port, address)
    assert status == 404
    assert "secret\n" not in str(answer)
    assert set(answer) == {"error"}


@pytest.mark.parametrize(
    "address",
    [
        "/api/trajectory?file=step_000000", "/api/trajectory?file=step_000000&line=-1", "/api/search",
        "/api/search?text=", "/api/search?text=" + "a" * 201, "/api/search?" + "&".join(f"a{i}=1" for i in range(20)),
    ],
)  # fmt: skip
def test_what_is_asked_wrongly_is_said(port, address):
    assert ask(port, address)[0] == 400


def test_there_is_nothing_to_write_to(port):
    for method in ("POST", "PUT", "DELETE"):
        assert ask(port, "/api/index", method=method)[0] == 501


def test_own_names_and_loopback():
    assert is_own_name("lab.example:8765", "lab.example")
    assert not is_own_name("other.example", "lab.example")
    assert not is_own_name("[::1", "127.0.0.1")
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "192.168.0.2", "lab")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


def test_a_port_that_is_taken_is_named(port, tmp_path):
    log = TrajectoryLog(write_run(tmp_path))
    with pytest.raises(ValueError, match=rf"cannot listen on 127\.0\.0\.1, port {port}: .*choose another --port"):
        make_server(log, port=port)
