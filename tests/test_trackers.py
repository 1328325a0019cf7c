"""Trackers: what they are told, that they know no secret, and that a missing library is named."""

from __future__ import annotations

import json
import os
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from tensorboard_events import scalars

from pivotopd_jax.recording import Recorder, read_metrics
from pivotopd_jax.trackers import HIDDEN, check_trackers, make_trackers, without_secrets

CONFIGURATION = {
    "log": {"trackers": "tensorboard,wandb", "project": "here"},
    "teacher": {"base_url": "https://user:pa55word@host:8000/v1?api_key=s3cret&model=m", "api_key_env": "TEACHER_KEY"},
    "seed": 1,
}


def test_secrets_are_hidden_and_the_rest_is_not():
    shown = without_secrets({**CONFIGURATION, "api_key": "s3cret", "nested": [{"auth_token": "s3cret"}], "key": ""})
    assert shown["teacher"] == {
        "base_url": f"https://{HIDDEN}@host:8000/v1?api_key={HIDDEN}&model=m", "api_key_env": "TEACHER_KEY",
    }  # fmt: skip
    assert (shown["api_key"], shown["nested"], shown["key"]) == (HIDDEN, [{"auth_token": HIDDEN}], "")
    assert shown["log"] == CONFIGURATION["log"]
    # Numbers that are about tokens are no secrets.
    kept = {"prompt_tokens": 352, "row_tokens": 384, "path": "/a/b@c", "name": "Qwen/Qwen3-1.7B"}
    assert without_secrets(kept) == kept


class Wandb(SimpleNamespace):
    """Stands in for the library: takes down what it is told."""

    def __init__(self):
        super().__init__(Settings=lambda **settings: settings, logged=[], opened=[], finished=0)

    def init(self, **options: Any) -> Any:
        self.opened.append(options)
        return self

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.logged.append((step, metrics))

    def finish(self) -> None:
        self.finished += 1


def test_a_run_tells_all_its_trackers_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    for step in range(2):
        recorder = Recorder(tmp_path, resume_from=step, configuration=CONFIGURATION)
        recorder.console.quiet = True
        recorder.step(step, {"train/success": 0.5})
        recorder.close()
    lines = read_metrics(tmp_path)
    assert [(line["step"], line["train/success"]) for line in lines] == [(0, 0.5), (1, 0.5)]
    assert [{"step": step, **metrics} for step, metrics in wandb.logged] == lines
    assert wandb.finished == 2
    first, second = wandb.opened
    assert first["id"] == second["id"]
    assert (first["project"], first["resume"]) == ("here", "allow")
    wanted = {(name, line["step"]): value for line in lines for name, value in line.items() if name != "step"}
    assert scalars(tmp_path / "tensorboard") == pytest.approx(wanted)
    written = json.dumps(wandb.opened, default=str) + (tmp_path / "configuration.json").read_text()
    assert "pa55word" not in written
    assert "s3cret" not in written


def test_a_library_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(
        ImportError, match=r"names wandb, which is not installed; pip install -r requirements-wandb\.txt"
    ):
        make_trackers(CONFIGURATION["log"], tmp_path, {}, resume_from=0)


def test_which_trackers_there_are():
    assert check_trackers("") == []
    assert check_trackers(" wandb , tensorboard") == ["wandb", "tensorboard"]
    with pytest.raises(
        ValueError, match=r"config\.log\.trackers is 'mlflow'; expected 'tensorboard', 'wandb', both, or ''"
    ):
        check_trackers("mlflow")


def test_the_real_library_takes_it_offline(tmp_path, monkeypatch, capfd):
    pytest.importorskip("wandb")
    monkeypatch.setitem(os.environ, "WANDB_MODE", "offline")
    monkeypatch.setattr(sys, "argv", ["train.py", "--config.teacher.base_url=http://user:pa55word@host"])
    (tracker,) = make_trackers({"trackers": "wandb", "project": "here"}, tmp_path, CONFIGURATION, resume_from=0)
    tracker.log(0, {"train/success": 0.5})
    tracker.close()
    files = [path.read_bytes() for path in (tmp_path / "wandb").rglob("*") if path.is_file()]
    assert re.search(r"train/success +0\.5", capfd.readouterr().err)
    assert files
    assert not any(b"pa55word" in content or b"s3cret" in content for content in files)
