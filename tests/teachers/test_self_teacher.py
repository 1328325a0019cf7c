"""The student as its own teacher: votes, and what follows from them."""

from __future__ import annotations

import pytest
from toy_student import Scripted

from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.teachers.protocol import Situation
from pivotopd_jax.teachers.self_teacher import SelfTeacher


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
