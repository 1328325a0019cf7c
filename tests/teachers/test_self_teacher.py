"""The student as its own teacher: by votes, and in words."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from toy_student import Scripted

from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.run import make_teacher
from pivotopd_jax.teachers.protocol import Remark, Report, Situation, TeacherFailure
from pivotopd_jax.teachers.self_teacher import SelfTeacher, WritingSelfTeacher


def say(*actions: str) -> list[str]:
    return [f"<action>{action}</action>" for action in actions]


@pytest.fixture
def walked(toy):
    """Two turns to the right, in one episode."""
    starts = fresh_starts(toy.world, toy.prompter, toy.world.tasks("train")[3:4], rollouts=1, max_turns=2)
    policy = Scripted(toy.prompter.chat, say("right", "right"))
    return play(policy, starts, temperature=1.0, seed=0, concurrency=1)[0]


def teacher(toy, responses: list[str]) -> SelfTeacher:
    return SelfTeacher(Scripted(toy.prompter.chat, responses), toy.prompter, samples=3, temperature=1.0, seed=0)


# Votes come turn after turn of an episode, since each shares the cache of the one before.
VOTES = say("left", "grab", "left", "right", "right", "grab")


def test_turns_that_the_vote_went_against_are_named(toy, walked):
    (report,) = teacher(toy, list(VOTES)).reports([walked], max_actions=5, every_turn=False)
    assert [(r.turn, r.gold_action) for r in report.remarks] == [(0, "left")]
    (every,) = teacher(toy, list(VOTES)).reports([walked], max_actions=0, every_turn=True)
    assert [(r.turn, r.gold_action) for r in every.remarks] == [(0, "left"), (1, "right")]
    (none,) = teacher(toy, ["left"] * 6).reports([walked], max_actions=5, every_turn=False)
    assert none.remarks == ()


def test_the_clearest_votes_are_kept(toy, walked):
    votes = say("left", "grab", "left", "grab", "grab", "grab")
    (report,) = teacher(toy, votes).reports([walked], max_actions=1, every_turn=False)
    assert [(r.turn, r.gold_action) for r in report.remarks] == [(1, "grab")]


def test_a_recovery_action_is_voted_on_without_a_hint(toy, walked):
    student = teacher(toy, say("left", "right", "left"))
    situation = Situation(walked.final, walked.turns, walked.final_snapshot)
    assert student.recovery_actions([situation]) == ["left"]
    expected = toy.prompter.context(walked.turns, walked.final)
    assert all((request.context_ids == expected).all() for request in student.policy.asked)  # type: ignore[attr-defined]
    assert len({request.seed for request in student.policy.asked}) == 3  # type: ignore[attr-defined]
    assert teacher(toy, ["?", "?", "?"]).recovery_actions([situation]) == [None]


def test_lessons_are_more_than_it_can_write(toy, walked):
    with pytest.raises(ValueError, match=r"writes no lessons; set config\.knobs\.lesson_weight=0"):
        teacher(toy, []).reports([walked], max_actions=1, every_turn=False, lessons=True)


# In words.

REPORT = """```json
{"episode_summary": "It walked past.", "episode_lesson": "Grab it.", "step_lessons": {}}
```
<correct_action step="1">left</correct_action>"""


class Writer(Scripted):
    """A scripted student with room for long words."""

    max_new, params, ended = 64, "old", True

    def sample(self, requests, *, temperature, top_p=1.0):
        return [replace(sample, ended=self.ended) for sample in super().sample(requests, temperature=temperature)]

    def load(self, params):
        self.params = params


def writing(toy, responses: list[str], **changes) -> WritingSelfTeacher:
    options = {"context_tokens": 4000, "failure_share": 0.5, "seed": 0, **changes}
    student: Any = SimpleNamespace(params="new")
    writer: Any = Writer(toy.prompter.chat, responses)
    return WritingSelfTeacher(student, writer, toy.prompter, **options)


def test_a_student_that_can_write_reports_like_any_teacher(toy, walked):
    teacher = writing(toy, [REPORT, "no report"])
    first, second = teacher.reports([walked, walked], max_actions=2, every_turn=False, lessons=True)
    assert first == Report((Remark(1, "left"),), "Grab it.", "It walked past.")
    assert second == Report()
    assert teacher.outcomes == {"report/ok": 1, "report/unreadable": 1}
    writer: Any = teacher.writer
    assert writer.params == "new"  # the student as it is now
    asked = [toy.prompter.chat.decode(request.context_ids) for request in writer.asked]
    assert "The agent saw" in asked[0]
    assert writer.asked[0].seed == writer.asked[1].seed  # equal questions, equal answers


def test_it_names_a_recovery_action_from_what_the_student_is_shown(toy, walked):
    teacher = writing(toy, ["Think. <action>left</action>"])
    assert teacher.recovery_actions([Situation(walked.final, walked.turns, walked.final_snapshot)]) == ["left"]
    writer: Any = teacher.writer
    asked = toy.prompter.chat.decode(writer.asked[0].context_ids)
    assert toy.prompter.words(walked.turns, walked.final) in asked


def test_an_answer_that_is_cut_or_a_question_that_is_too_long_counts_for_nothing(toy, walked):
    teacher = writing(toy, ["?"], context_tokens=70)
    situation = Situation(walked.final, walked.turns, walked.final_snapshot)
    assert teacher.recovery_actions([situation]) == [None]
    assert teacher.outcomes == {"recovery/too_long": 1}
    cut = writing(toy, ["<action>left</action>"])
    writer: Any = cut.writer
    writer.ended = False
    assert cut.recovery_actions([situation]) == [None]
    assert cut.outcomes == {"recovery/unreadable": 1}


def test_a_student_whose_answers_are_mostly_unreadable_stops_the_run(toy, walked):
    teacher = writing(toy, ["?"] * 20)
    situation = Situation(walked.final, walked.turns, walked.final_snapshot)
    with pytest.raises(TeacherFailure, match=r"calls to the student as its own teacher failed .* self_mode='votes'"):
        teacher.recovery_actions([situation] * 20)


def test_words_are_sampled_by_the_model_itself(toy, walked):
    """With a real sampler: what it says is no action, which is counted and costs nothing else."""
    student = toy.sampler()
    writer = student.resized(slots=2, capacity=3000, max_new=16)
    teacher = WritingSelfTeacher(student, writer, toy.prompter, context_tokens=3016, failure_share=1.0, seed=0)
    assert teacher.recovery_actions([Situation(walked.final, walked.turns, walked.final_snapshot)]) == [None]
    assert teacher.outcomes == {"recovery/unreadable": 1}


@pytest.mark.parametrize(
    ("student", "mode", "message"),
    [("mini", "words", "the mini student .* cannot write reports; set"), ("dir", "wrods", "'wrods'; expected 'words'")],
)
def test_what_a_student_cannot_do_is_said_at_the_start(toy, student, mode, message):
    config: Any = SimpleNamespace(student=student, teacher=SimpleNamespace(self_mode=mode))
    unused: Any = None
    with pytest.raises(ValueError, match=message):
        make_teacher(config, unused, toy.prompter, unused, kept=unused, by_student=True)
