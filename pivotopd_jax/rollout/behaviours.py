"""Who acts at each turn of a step's episodes, as a method's behaviour says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from pivotopd_jax.methods.method import Behaviour
from pivotopd_jax.rollout.collect import Actor, Start, student
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.sampling.policy import request_seed
from pivotopd_jax.teachers.protocol import Situation, Teacher
from pivotopd_jax.teachers.resolve import resolved_actions


def iteration_of(step: int, steps: int, iterations: int) -> int:
    """The iteration, counted from 1, that `step` of `steps` belongs to."""
    return 1 + step * iterations // steps


def make_actor(
    behaviour: Behaviour,
    teacher: Teacher,
    starts: Sequence[Start],
    *,
    step: int,
    steps: int,
    max_turns: int,
    seed: int,
    first: int = 0,
) -> Actor:
    """The actor of one step.

    Args:
        behaviour: of the method.
        teacher: acts where the student does not; where it names nothing that can be done, the student acts.
        starts: of the step's episodes.
        step, steps: the present step and their number.
        max_turns: turn limit of an episode.
        seed: fixes all draws.
        first: index of the first start, as in `rollout.collect.play`.
    """
    if behaviour.actor == "student":
        return student
    share = behaviour.share(iteration_of(step, steps, behaviour.iterations))

    @cache
    def whole(index: int) -> int:
        return len(teacher_episode(teacher, starts[index - first]()).turns)

    def teacher_acts(index: int, turn: int) -> bool:
        if behaviour.actor == "mixture":
            return np.random.default_rng(request_seed(seed, index, turn)).random() < share
        if behaviour.actor == "episodes":
            return np.random.default_rng(request_seed(seed, index)).random() < share
        if behaviour.actor == "prefix":
            return turn < behaviour.prefix(step, whole(index))
        if behaviour.actor == "switch":
            most = int(share * max_turns + 1e-9)  # 0.2 of 30 may be a little less than 6
            return turn >= int(np.random.default_rng(request_seed(seed, index)).integers(most + 1))
        return True

    def actor(index: int, episode: Episode) -> str | None:
        return teacher_action(teacher, episode) if teacher_acts(index, len(episode.turns)) else None

    return actor


def teacher_episode(teacher: Teacher, episode: Episode) -> Episode:
    """`episode`, played with the teacher's actions until it ends or the teacher names none."""
    while not episode.finished and (action := teacher_action(teacher, episode)) is not None:
        episode.force(action)
    return episode


def teacher_action(teacher: Teacher, episode: Episode) -> str | None:
    """What the teacher would do now, as an admissible action; None if it names none."""
    (action,) = resolved_actions(teacher, [Situation(episode.observation, episode.turns, episode.snapshot)])
    return action
