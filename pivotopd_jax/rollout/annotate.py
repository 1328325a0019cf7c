"""Who reads: turns a teacher's reports, skills and successes into notes on turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pivotopd_jax.methods.method import Annotation
from pivotopd_jax.prompts.actions import is_mismatch
from pivotopd_jax.records import Note, Observation, Trajectory
from pivotopd_jax.sampling.policy import request_seed
from pivotopd_jax.teachers.protocol import Remark, Report, Situation, Teacher
from pivotopd_jax.teachers.resolve import resolved

Advise = Callable[[Observation, int], str]
"""(first observation of a task, how many) → so many skills of the bank as one text."""


def annotate(
    teacher: Teacher,
    trajectories: Sequence[Trajectory],
    annotation: Annotation | None,
    *,
    seed: int,
    skills: Advise | None = None,
    first: int = 0,
) -> list[Note]:
    """Notes on the turns of `trajectories`, at most one a turn.

    A turn is pivotal when a gold action is named there and the student's action is not it. `first` is the index of the
    first trajectory, where others come before these: draws go by it.

    Raises:
        ValueError: skills are asked for and `skills` is None.
    """
    if annotation is None:
        return []
    reports = _with_lessons(_reports(teacher, trajectories, annotation, seed, first), trajectories, annotation, skills)
    return [
        note
        for index, (trajectory, report) in enumerate(zip(trajectories, reports, strict=True))
        for note in _notes(index, trajectory, report)
    ]


def _reports(
    teacher: Teacher, trajectories: Sequence[Trajectory], wanted: Annotation, seed: int, first: int
) -> list[Report]:
    if wanted.turns == "final":
        return _final_turns(teacher, trajectories)
    answers = [teacher.reports(trajectories, **question) for question in questions(wanted)]
    if wanted.turns == "random":
        every, named = answers
        return _random_turns(every, named, seed, first)
    return answers[0] if answers else [Report()] * len(trajectories)


def questions(wanted: Annotation) -> list[dict[str, Any]]:
    """What a teacher is asked about each trajectory: arguments of `Teacher.reports`."""
    every_turn = {"none": [], "final": [], "random": [True, False], "every": [True]}.get(wanted.turns, [False])
    lessons = wanted.lessons == "report"
    return [{"max_actions": wanted.max_actions, "every_turn": every, "lessons": lessons} for every in every_turn]


def _final_turns(teacher: Teacher, trajectories: Sequence[Trajectory]) -> list[Report]:
    """The gold action of the last turn of the first trajectory that failed in each group; of others nothing.

    The teacher is asked as for a recovery, from what the student saw: that is the whole trajectory by then.
    """
    chosen: dict[int, int] = {}
    for index, trajectory in enumerate(trajectories):
        if not trajectory.won and trajectory.turns:
            chosen.setdefault(trajectory.group, index)
    ends = [trajectories[index].turns for index in chosen.values()]
    named = teacher.recovery_actions([Situation(t[-1].observation, t[:-1], t[-1].snapshot) for t in ends])
    reports = [Report()] * len(trajectories)
    for index, turns, action in zip(chosen.values(), ends, named, strict=True):
        gold = resolved(action, turns[-1].observation) if action else None
        reports[index] = Report((Remark(len(turns) - 1, gold),)) if gold else Report()
    return reports


def _with_lessons(
    reports: list[Report], trajectories: Sequence[Trajectory], wanted: Annotation, skills: Advise | None
) -> list[Report]:
    """The reports with an episode lesson from elsewhere, if `wanted` says so."""
    if wanted.lessons == "skills":
        if skills is None:
            raise ValueError("the method shows skills, but there is no skill bank")
        texts: list[str | None] = [skills(t.turns[0].observation, wanted.skills) for t in trajectories]
    elif wanted.lessons == "success":
        texts = group_successes(trajectories)
    else:
        return reports
    return [Report(report.remarks, text) for report, text in zip(reports, texts, strict=True)]


def group_successes(trajectories: Sequence[Trajectory]) -> list[str | None]:
    """For each trajectory the actions of the first that won in its group, itself included; None if none did."""
    first: dict[int, str] = {}
    for t in trajectories:
        if t.won:
            first.setdefault(t.group, ", ".join(turn.action for turn in t.turns if turn.action and turn.accepted))
    return [first.get(t.group) for t in trajectories]


def _notes(index: int, trajectory: Trajectory, report: Report) -> list[Note]:
    remarks = {remark.turn: remark for remark in report.remarks if 0 <= remark.turn < len(trajectory.turns)}
    notes = []
    for turn, played in enumerate(trajectory.turns):
        remark = remarks.get(turn)
        gold = remark.gold_action if remark else None
        lesson = remark.lesson if remark and remark.lesson else report.lesson
        if gold is None and lesson is None:
            continue
        notes.append(Note(index, turn, gold, lesson, pivotal=gold is not None and is_mismatch(played.action, gold)))
    return notes


def _random_turns(every: Sequence[Report], named: Sequence[Report], seed: int, first: int) -> list[Report]:
    """For each trajectory as many remarks as its report named, at turns drawn without replacement."""
    drawn = []
    for index, (everywhere, chosen) in enumerate(zip(every, named, strict=True), first):
        random = np.random.default_rng(request_seed(seed, index))
        offered = [remark for remark in everywhere.remarks if remark.gold_action]
        count = min(sum(remark.gold_action is not None for remark in chosen.remarks), len(offered))
        picked = random.choice(len(offered), count, replace=False) if count else []
        drawn.append(Report(tuple(offered[i] for i in sorted(picked)), everywhere.lesson))
    return drawn
