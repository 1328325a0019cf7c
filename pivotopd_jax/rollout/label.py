"""Rows of what a teacher would have done at the states that were visited."""

from __future__ import annotations

from collections.abc import Sequence

from pivotopd_jax.methods.method import Labels
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Row, Trajectory
from pivotopd_jax.teachers.protocol import Situation, Teacher
from pivotopd_jax.teachers.resolve import resolved_actions


def label(teacher: Teacher, prompter: Prompter, trajectories: Sequence[Trajectory], labels: Labels | None) -> list[Row]:
    """One row for each visited state that `labels` asks for and the teacher names a possible action at.

    The response is the shortest one that carries the action out.
    """
    if labels is None:
        return []
    places = [
        (index, turn)
        for index, trajectory in enumerate(trajectories)
        for turn, played in enumerate(trajectory.turns)
        if labels.turns == "every" or played.actor == "teacher"
    ]
    situations = [_situation(trajectories[index], turn) for index, turn in places]
    rows = []
    for (index, turn), action in zip(places, resolved_actions(teacher, situations), strict=True):
        if action is None:
            continue
        trajectory = trajectories[index]
        rows.append(
            Row("label", index, trajectory.group, turn, trajectory.turns[turn].context_ids, prompter.said(action))
        )
    return rows


def _situation(trajectory: Trajectory, turn: int) -> Situation:
    played = trajectory.turns[turn]
    return Situation(played.observation, trajectory.turns[:turn], played.snapshot)
