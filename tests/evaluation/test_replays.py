"""Replays in a corridor: the prize lies in cell 1, and the second turn (index 1) walks past it."""

from __future__ import annotations

import pytest
from scripted_play import said
from toy_student import Scripted

from pivotopd_jax.evaluation.replays import REPLAYS, Replay, replayed

KEPT, ANEW, LATER, AT_IT, TWO, THREE = REPLAYS.values()


def won(toy, policy, replay: Replay, *, failed: int = 4, max_turns: int = 4, continuations: int = 1) -> list[bool]:
    (result,) = replayed(
        policy, toy.world, toy.prompter, [(said(toy, ["right"] * failed), 1)], replay, continuations=continuations,
        temperature=1.0, seed=0, max_turns=max_turns, concurrency=1,
    )  # fmt: skip
    return result.tolist()


def speaking(toy, *actions: str) -> Scripted:
    return Scripted(toy.prompter.chat, [f"<action>{action}</action>" for action in actions])


def test_the_student_alone(toy):
    assert won(toy, speaking(toy, "right", "right"), KEPT) == [False]
    assert won(toy, speaking(toy, "left", "grab"), KEPT) == [True]
    assert won(toy, speaking(toy, "grab"), ANEW) == [True]
    assert won(toy, speaking(toy, "right", "left", "right"), ANEW) == [False]


def test_the_oracle_wins_where_it_acts_long_enough(toy):
    """One turn at the pivotal one, or two after it: the student never speaks."""
    assert won(toy, None, AT_IT) == [True]
    assert won(toy, None, TWO) == [True]
    assert won(toy, None, THREE) == [True]
    assert won(toy, speaking(toy, "right"), Replay(1, 1)) == [False]
    assert won(toy, speaking(toy, "grab"), Replay(1, 1)) == [True]


def test_the_oracle_at_a_later_turn_leaves_what_was_played_before(toy):
    """At turn 2 it comes back to the prize, which the student grabs; at turn 3 it comes too late."""
    policy = speaking(toy, *["grab"] * 20)
    results = won(toy, policy, LATER, continuations=20)
    assert 0 < sum(results) == len(policy.asked) < 20


def test_after_the_last_turn_nothing_is_played(toy):
    short = {"failed": 2, "max_turns": 2}
    for replay in (KEPT, LATER, TWO):
        assert won(toy, None, replay, **short) == [False]
    assert won(toy, None, AT_IT, **short) == [True]


@pytest.mark.parametrize("replay", REPLAYS.values())
def test_every_replay_is_counted(toy, replay):
    policy = speaking(toy, *["right"] * 99)
    assert len(won(toy, policy, replay, continuations=3)) == 3
