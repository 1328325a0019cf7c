"""The whole loop with a served teacher: it learns from what is named, and loses only that when the server fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from teachers.fake_server import CHAT, Answer, FakeServer, serving
from test_train import same, tiny_config

from pivotopd_jax.recording import read_metrics
from pivotopd_jax.teachers.protocol import TeacherFailure
from pivotopd_jax.train import train

REPORT = """```json
{"episode_summary": "", "episode_lesson": "Look around first.", "step_lessons": {}}
```
<correct_action step="0">look</correct_action><correct_action step="2">inventory</correct_action>"""


def answer(body: dict[str, Any]) -> str:
    return REPORT if "episode_summary" in body["messages"][-1]["content"] else "<action>look</action>"


def served_config(url: str, method: str = "pivotopd") -> Any:
    config = tiny_config(method, steps=1)
    config.teacher.update({"kind": "served", "base_url": url, "retries": 0})
    return config


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs share a student; each keeps its replies apart."""
    return tmp_path_factory.mktemp("runs")


def test_a_run_learns_from_what_a_served_teacher_names(place):
    with serving(FakeServer(words=answer)) as server:
        run, _ = train(served_config(server.url), place / "good")
    metrics = read_metrics(place / "good")[-1]
    assert run.teacher.outcomes["report/ok"] + run.teacher.outcomes.get("report/cached", 0) == 4
    assert metrics["train/pivotal_turns"] == 8
    # The tiny student cannot follow a hint, but each of its recoveries was named one.
    assert metrics["recovery/no_action_said"] == run.teacher.outcomes["recovery/ok"] == 8


def test_where_every_call_fails_the_step_is_that_of_grpo(place):
    with serving(FakeServer()) as server:
        config = served_config(server.url)
        config.teacher.cache = str(place / "apart")
        server.once[CHAT].append(Answer(400))  # vLLM's fields are refused, the plain question is answered
        server.once[CHAT].append(Answer(body={"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}))
        server.always[CHAT] = Answer(500, {"error": {"message": "out of memory"}})
        run, state = train(config, place / "bad")
    assert run.teacher.outcomes == {"report/server_error": 4, "retries": 0}
    assert read_metrics(place / "bad")[-1]["train/pivotal_turns"] == 0
    _, grpo = train(tiny_config("grpo", steps=1), place / "grpo")
    assert same(state.params, grpo.params)


def test_a_server_that_is_down_ends_the_run_before_the_first_rollout(place):
    with serving(FakeServer()) as gone:
        pass
    with pytest.raises(TeacherFailure, match=f"no teacher answers at {gone.url}"):
        train(served_config(gone.url), place / "down")
    assert not (place / "down").exists()
