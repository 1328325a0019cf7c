"""What servers of teachers send, and what is kept of it, broken in every way; the readers have properties of their own.

See tests/teachers/test_report_reading.py and tests/teachers/test_scoring.py.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from fuzz.documents import TEXTS, broken, damaged, files, fuzz, read_or_refused
from hypothesis import given
from hypothesis import strategies as st
from teachers.fake_server import CHAT, COMPLETIONS, MODELS, TOKENIZE, Answer, FakeServer, chat, prompt_logprobs, serving
from toy_student import make_toy

from pivotopd_jax.records import Observation, Task, Trajectory, Turn
from pivotopd_jax.teachers.protocol import Report, Situation, TeacherFailure
from pivotopd_jax.teachers.reply_cache import ReplyCache
from pivotopd_jax.teachers.report_reading import Wanted, read_report
from pivotopd_jax.teachers.scoring import read_scores
from pivotopd_jax.teachers.served import ServedTeacher
from pivotopd_jax.teachers.server import Server
from pivotopd_jax.teachers.skills import SkillBank

TOY = make_toy()
CONTEXT, RESPONSE = np.asarray([1, 2, 3], np.int32), np.asarray([4, 5], np.int32)
RECORD = {
    "episode_summary": "It failed.", "episode_lesson": "Look first.", "step_lessons": {"0": "Open it."},
    "correct_actions": [{"step": 0, "action": "grab"}],
}  # fmt: skip
MODEL = {"data": [{"id": "teacher", "max_model_len": 32768}]}
SCORED = {"choices": [{"prompt_logprobs": prompt_logprobs([1, 2, 3, 4, 5])}]}


@pytest.fixture(scope="module")
def server():
    with serving(FakeServer()) as running:
        yield running


def play(text: str = "You are in cell 0.", response: str = "<action>left</action>") -> Trajectory:
    turn = Turn(Observation(text, ("grab", "left")), CONTEXT, RESPONSE, np.zeros(2), response, "left", 0.0, True, None)
    return Trajectory(Task("t", "near", None), 0, (turn,), 0.0, False, Observation(text), None)


def bodies() -> st.SearchStrategy[Any]:
    """Bodies of a server's answers: JSON, or bytes that may be none."""
    told = broken(RECORD).map(lambda record: chat(f"```json\n{json.dumps(record)}\n```"))
    return st.one_of(told.flatmap(files), files(chat("<action>grab</action>")), files(MODEL), files(SCORED))


@fuzz(40)
@given(st.data())
def test_a_server_that_sends_anything_costs_items_and_no_more(server, tmp_path_factory, data):
    for path in (CHAT, COMPLETIONS, MODELS, TOKENIZE):
        server.always.pop(path, None)
        if data.draw(st.booleans()):
            server.always[path] = Answer(data.draw(st.sampled_from((200, 200, 200, 404, 500))), data.draw(bodies()))
    teacher = ServedTeacher(
        Server(server.url, "teacher", retries=0), TOY.prompter, ReplyCache(tmp_path_factory.mktemp("kept")),
        context_tokens=4096, failure_share=1.0,
    )  # fmt: skip
    if read_or_refused(lambda: teacher.check() or teacher, TeacherFailure) is None:
        return
    situation = Situation(play().turns[0].observation, play().turns, None)
    reports = read_or_refused(
        lambda: teacher.reports([play()], max_actions=1, every_turn=False, lessons=True), TeacherFailure
    )
    actions = read_or_refused(lambda: teacher.recovery_actions([situation]), TeacherFailure)
    scores = read_or_refused(lambda: teacher.score([(CONTEXT, RESPONSE)]), TeacherFailure)
    assert reports is None or all(isinstance(report, Report) for report in reports)
    assert actions is None or all(action is None or isinstance(action, str) for action in actions)
    assert scores is None or all(score is None or (score <= 0).all() for score in scores)


@fuzz(20)
@given(st.sampled_from(TEXTS), st.sampled_from(TEXTS))
def test_a_teacher_can_be_asked_about_any_text(server, tmp_path_factory, text, response):
    server.always.clear()
    teacher = ServedTeacher(
        Server(server.url, "teacher", retries=0), TOY.prompter, ReplyCache(tmp_path_factory.mktemp("kept")),
        context_tokens=4096, failure_share=1.0,
    )  # fmt: skip
    played = play(text, response)
    assert teacher.reports([played], max_actions=1, every_turn=False) == [Report()]
    assert teacher.recovery_actions([Situation(played.final, played.turns, None)]) == [None]
    assert teacher.outcomes["report/unreadable"] == teacher.outcomes["recovery/unreadable"] == 1


@fuzz(300)
@given(broken(RECORD), st.sampled_from(("", "```json\n", "<think>a</think>```\n")))
def test_reports_with_something_wrong_are_read(record, opening):
    report = read_report(f"{opening}{json.dumps(record)}\n{'```' if opening else ''}", Wanted({0}, 2, True, 100))
    assert report is None or all(remark.turn == 0 for remark in report.remarks)


@fuzz(200)
@given(files(SCORED))
def test_scores_with_something_wrong_are_read(content):
    try:
        reply = json.loads(content)
    except (ValueError, RecursionError):
        return
    scores = read_scores(reply, CONTEXT, RESPONSE)
    assert scores is None or (scores.shape == (2,) and np.isfinite(scores).all() and (scores <= 0).all())


@fuzz(100)
@given(st.data())
def test_a_damaged_reply_is_asked_for_again(tmp_path, data):
    cache = ReplyCache(tmp_path)
    cache.put({"a": 1}, {"words": "b"})
    (path,) = tmp_path.glob("*/*.json")
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    cache.get({"a": 1})
    assert [file.name for file in tmp_path.rglob("*.new")] == []


SKILLS = [{"task": "find a mug", "text": "look in cabinets"}, {"task": "heat an egg", "text": "use the microwave"}]


@fuzz(200)
@given(st.data())
def test_skill_banks_are_read_or_refused(tmp_path, data):
    path = tmp_path / "skills.json"
    path.write_bytes(data.draw(files(SKILLS)))
    bank = read_or_refused(lambda: SkillBank.load(path), ValueError)
    if bank is not None:
        for skill in bank.retrieve("find an egg", 3):
            TOY.prompter.chat.encode(skill.text)
