"""The whole loop with a served teacher: it learns from what is named, and loses only that when the server fails."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from teachers.fake_server import CHAT, COMPLETIONS, Answer, FakeServer, serving
from test_train import same, tiny_config

from pivotopd_jax.files import LOCK_FILE
from pivotopd_jax.recording import read_metrics
from pivotopd_jax.records import Row
from pivotopd_jax.rollout.rows import batch_rows
from pivotopd_jax.scoring import teacher_log_probs
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


def test_a_served_teacher_scores_what_the_student_said(place):
    """One score of twenty is lost: that response is trained as if the teacher agreed with it."""
    with serving(FakeServer()) as server:
        config = served_config(server.url, "opd")
        config.teacher.model = ""
        run, state = train(served_config(server.url, "grpo"), place / "own")  # makes the student
        server.tokens = lambda text: run.prompter.chat.encode(text).tolist()
        server.once[COMPLETIONS].append(Answer(400))
        run, state = train(config, place / "scored")
    assert run.teacher_model is None
    assert {k: v for k, v in run.teacher.outcomes.items() if v} == {"score/ok": 19, "score/refused": 1}
    assert read_metrics(place / "scored")[-1]["teacher/score/ok"] == 19
    assert not same(state.params, run.reference)


def test_scores_are_laid_out_like_the_batch():
    rows = [
        Row("rollout", i, 0, 0, np.arange(1, 4 + i, dtype=np.int32), np.asarray([5 + i, 6], np.int32)) for i in (0, 1)
    ]
    batch, packed = batch_rows(rows, length=16)
    plain = packed.scatter([-1.0, -2.0])

    class Half:
        def score(self, pairs):
            assert [pair[1].tolist() for pair in pairs] == [[5, 6], [6, 6]]
            return [np.asarray([-0.25, -0.5], np.float32), None]

    run: Any = SimpleNamespace(teacher_model=None, teacher=Half())
    first, second = packed.gather(teacher_log_probs(run, rows, packed, plain))
    assert first.tolist() == [-0.25, -0.5]
    assert second.tolist() == [-2.0, -2.0]
    assert batch.mask.sum() == 4
    run.teacher = object()
    with pytest.raises(ValueError, match="there is no external teacher"):
        teacher_log_probs(run, rows, packed, plain)


def test_whole_distributions_need_a_model(place):
    config = served_config("http://127.0.0.1:9/v1", "gkd")
    config.teacher.model = ""
    with pytest.raises(ValueError, match="gives no whole distributions"):
        train(config, place / "gkd")


def test_a_server_that_is_down_ends_the_run_before_the_first_rollout(place):
    with serving(FakeServer()) as gone:
        pass
    with pytest.raises(TeacherFailure, match=f"no teacher answers at {gone.url}"):
        train(served_config(gone.url), place / "down")
    assert [path.name for path in (place / "down").iterdir()] == [LOCK_FILE]
