"""Keys in the environment stay there: no file of a run, no line that it prints, and no other server sees one."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from teachers.fake_server import CHAT, Answer, FakeServer, serving
from teachers.test_served_run import answer
from test_train import PROJECT, tiny_config

from pivotopd_jax.envs.swe.swerex import RemoteSandbox
from pivotopd_jax.run import configuration_differences, configuration_record
from pivotopd_jax.teachers.served import served_teacher

CANARY = "cAnArY-7f3a9+/secret=="
KEYS = ("TEACHER_KEY", "OPENAI_API_KEY", "SWEREX_TOKEN", "WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
CONFIGURATION = """
from test_train import tiny_config

def get_config():
    config = tiny_config("pivotopd", steps=1)
    config.log.trajectories_every = 1
    return config
"""


def forms(secret: str) -> set[bytes]:
    """How a secret may be written."""
    encoded = {base64.b64encode(f"{before}{secret}".encode()).decode().rstrip("=") for before in ("", ":", "user:")}
    return {form.encode() for form in {secret, quote(secret, safe=""), repr(secret)[1:-1], secret[:12], *encoded}}


def holding(directory: Path, secret: str) -> list[str]:
    """Files below `directory` that hold `secret` in any form, in their name or in what they hold."""
    found = []
    for path in directory.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if any(form in content or form in str(path).encode() for form in forms(secret)):
            found.append(str(path))
    return found


def run_train(place: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    (place / "config").mkdir(exist_ok=True)
    (place / "config" / "tiny.py").write_text(CONFIGURATION)
    environment = {**os.environ, **dict.fromkeys(KEYS, CANARY), "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(PROJECT), str(PROJECT / "tests")])
    return subprocess.run(
        [
            sys.executable, "launch/train.py", f"--config={place / 'config' / 'tiny.py'}", "--config.teacher=served",
            f"--workdir={place / 'runs' / 'one'}", "--config.teacher.api_key_env=TEACHER_KEY",
            "--config.teacher.retries=0", *arguments,
        ],
        cwd=PROJECT, env=environment, capture_output=True, check=False,
    )  # fmt: skip


def test_a_run_leaves_no_key_anywhere(tmp_path):
    """A server that repeats the key in its errors and in its answers is part of it."""
    server = FakeServer(words=lambda body: answer(body).replace("Look around", f"Look around {CANARY}"))
    with serving(server):
        server.once[CHAT].append(Answer(body={"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}))
        server.once[CHAT].append(Answer(401, {"error": {"message": f"Bearer {CANARY} is not welcome"}}))
        done = run_train(tmp_path, f"--config.teacher.base_url={server.url}")
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {CANARY}"}
    written = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    names = {path.name for path in written}
    assert {"configuration.json", "metrics.jsonl", "summary.json", "report.html"} <= names
    assert any("checkpoints" in path.parts for path in written)
    assert any("teacher_replies" in path.parts for path in written)
    assert holding(tmp_path / "runs", CANARY) == []
    for form in forms(CANARY):
        assert form not in done.stdout + done.stderr


def test_a_key_of_another_server_is_not_sent(tmp_path):
    with serving(FakeServer()) as server:
        server.always[CHAT] = Answer(500, {})
        done = run_train(tmp_path, f"--config.teacher.base_url={server.url}", "--config.teacher.api_key_env=")
        assert server.headers
        for headers in server.headers:
            assert not any(form.decode() in str(headers) for form in forms(CANARY))
    assert CANARY.encode() not in done.stdout + done.stderr


@pytest.mark.parametrize("given", [CANARY, "sk-proj-1234abcd", "0123456789abcdef0123456789abcdef"])
def test_a_key_in_the_place_of_its_variable_is_not_repeated(given):
    options = tiny_config().teacher
    options.update({"kind": "served", "api_key_env": given})
    with pytest.raises(ValueError, match="is not set or holds no key") as error:
        served_teacher(options, None, Path("/nowhere"), 0)  # type: ignore[arg-type]
    assert given not in str(error.value)


def test_an_unset_variable_is_named():
    options = tiny_config().teacher
    options.update({"kind": "served", "api_key_env": "NO_SUCH_KEY"})
    with pytest.raises(ValueError, match="'NO_SUCH_KEY', which is not set"):
        served_teacher(options, None, Path("/nowhere"), 0)  # type: ignore[arg-type]


def test_a_configuration_is_kept_without_what_looks_like_a_secret():
    config = tiny_config()
    config.teacher.base_url = f"http://user:{CANARY}@127.0.0.1/v1"
    config.world.source = f"https://example.org/games?token={CANARY}&split=train"
    record = configuration_record(config)
    assert not any(form.decode() in str(record) for form in forms(CANARY))
    assert "split=train" in record["world"]["source"]
    other = tiny_config()
    shown = configuration_differences(record, configuration_record(other))
    assert "teacher.base_url" in shown
    assert CANARY not in shown


def test_a_sandbox_server_is_told_its_password_by_the_environment_alone():
    with pytest.raises(ValueError, match="SWEREX_TOKEN") as error:
        RemoteSandbox(f"http://user:{CANARY}@127.0.0.1:1")
    assert CANARY not in str(error.value)
    with pytest.raises(ValueError, match=r"expected something like 'http://127\.0\.0\.1:8000'"):
        RemoteSandbox("127.0.0.1:1")
