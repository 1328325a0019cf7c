"""Reports that are under way while other episodes are still being played."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pivotopd_jax.methods.method import Annotation
from pivotopd_jax.rollout.annotate import annotate
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.rollout.read_ahead import ReadAhead
from pivotopd_jax.teachers.protocol import Remark, Report, TeacherFailure


class Slow:
    """Says "grab" at turn 0 of every trajectory, once `may_answer` is set."""

    def __init__(self, concurrency: int):
        self.outcomes: dict[str, int] = {}
        self.concurrency, self.may_answer, self.asked = concurrency, threading.Event(), []

    def reports(self, trajectories: Any, **question: Any) -> list[Report]:
        self.asked.append((len(trajectories), question["every_turn"]))
        assert self.may_answer.wait(20)
        return [Report((Remark(0, f"grab {len(t.turns)}"),)) for t in trajectories]


@pytest.fixture
def starts(toy):
    return fresh_starts(toy.world, toy.prompter, toy.world.tasks("train")[3:4], rollouts=4, max_turns=5)


def walk(starts, on_finish=lambda _: None):
    """Episodes of 2, 3, 4 and 5 turns."""

    def actor(index, episode):
        if len(episode.turns) > index:
            episode.done = True
        return "right"

    return play(None, starts, temperature=1.0, seed=0, concurrency=4, actor=actor, on_finish=on_finish)


def test_a_finished_trajectory_is_read_while_others_are_played(starts):
    teacher: Any = Slow(concurrency=2)
    seen = []
    with ReadAhead(teacher, Annotation()) as reader:

        def finished(trajectory):
            reader.begin(trajectory)
            while len(teacher.asked) <= len(seen):  # the call is under way before the next episode ends
                threading.Event().wait(0.005)
            seen.append(len(trajectory.turns))

        trajectories = walk(starts, finished)
        assert len(seen) == 4
        teacher.may_answer.set()
        notes = annotate(reader, trajectories, Annotation(), seed=0)
    assert teacher.asked == [(1, False)] * 4
    assert [(n.trajectory, n.gold_action) for n in notes] == [
        (i, f"grab {len(t.turns)}") for i, t in enumerate(trajectories)
    ]


def test_it_changes_nothing_but_when_the_teacher_is_asked(starts):
    for wanted in (Annotation(), Annotation(turns="every"), Annotation(turns="random"), Annotation(turns="none")):
        teachers: list[Any] = [Slow(concurrency=1), Slow(concurrency=3)]
        notes = []
        for teacher in teachers:
            teacher.may_answer.set()
            with ReadAhead(teacher, wanted) as reader:
                trajectories = walk(starts, reader.begin)
                notes.append(annotate(reader, trajectories, wanted, seed=0))
        assert notes[0] == notes[1]
        asked = {"none": [], "every": [True], "random": [True, False]}.get(wanted.turns, [False])
        assert teachers[0].asked == [(4, every) for every in asked]
        assert sorted(teachers[1].asked) == sorted([(1, every) for every in asked] * 4)


def test_what_was_not_begun_is_asked_when_it_is_wanted(starts):
    teacher: Any = Slow(concurrency=2)
    teacher.may_answer.set()
    with ReadAhead(teacher, Annotation()) as reader:
        trajectories = walk(starts)
        reader.begin(trajectories[1])
        question = {"max_actions": Annotation().max_actions, "every_turn": False, "lessons": False}
        assert reader.reports(trajectories, **question) == teacher.reports(trajectories, **question)
    assert sorted(count for count, _ in teacher.asked) == [1, 3, 4]


def test_a_teacher_that_fails_too_often_stops_the_step(starts):
    def fail(trajectories, **question):
        raise TeacherFailure("it is down")

    teacher: Any = SimpleNamespace(concurrency=2, outcomes={}, reports=fail)
    with ReadAhead(teacher, Annotation()) as reader, pytest.raises(TeacherFailure, match="it is down"):
        annotate(reader, walk(starts, reader.begin), Annotation(), seed=0)
