"""Who reads: turns a teacher's reports into notes on turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pivotopd_jax.methods.method import Annotation
from pivotopd_jax.prompts.actions import is_mismatch
from pivotopd_jax.records import Note, Trajectory
from pivotopd_jax.teachers.protocol import Report, Teacher


def annotate(
    teacher: Teacher, trajectories: Sequence[Trajectory], annotation: Annotation | None, *, seed: int
) -> list[Note]:
    """Notes on the turns of `trajectories`, at most one a turn.

    A turn is pivotal when a gold action is named there and the student's action is not it.
    """
    if annotation is None:
        return []
    wanted = {"max_actions": annotation.max_actions, "lessons": True}
    reports = teacher.reports(trajectories, every_turn=annotation.turns != "named", **wanted)
    if annotation.turns == "random":
        named = teacher.reports(trajectories, every_turn=False, **wanted)
        reports = _random_turns(reports, named, seed)
    return [
        note
        for index, (trajectory, report) in enumerate(zip(trajectories, reports, strict=True))
        for note in _notes(index, trajectory, report)
    ]


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


def _random_turns(every: Sequence[Report], named: Sequence[Report], seed: int) -> list[Report]:
    """For each trajectory as many remarks as its report named, at turns drawn without replacement."""
    random = np.random.default_rng(seed)
    drawn = []
    for everywhere, chosen in zip(every, named, strict=True):
        count = min(len(chosen.remarks), len(everywhere.remarks))
        picked = random.choice(len(everywhere.remarks), count, replace=False) if count else []
        drawn.append(Report(tuple(everywhere.remarks[i] for i in sorted(picked)), everywhere.lesson))
    return drawn
