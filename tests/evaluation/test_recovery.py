"""Mistakes are continued within the turn limit."""

from __future__ import annotations

from scripted_play import said
from toy_student import Scripted

from pivotopd_jax.evaluation.mistakes import find_mistakes
from pivotopd_jax.evaluation.recovery import continued, succeeded


def test_continuations_use_up_what_was_left_of_the_turns(toy):
    failed = said(toy, ["right", "right", "right"])
    (mistake,) = find_mistakes(toy.world.planner, [failed], max_turns=4, limit=9, seed=0)

    def won(max_turns: int, said: list[str]) -> list[list[bool]]:
        policy = Scripted(toy.prompter.chat, [f"<action>{a}</action>" for a in said])
        played = continued(
            policy, toy.world, toy.prompter, [mistake], continuations=2, temperature=1.0, seed=0,
            max_turns=max_turns, concurrency=1,
        )  # fmt: skip
        return succeeded(played, 2).tolist()

    assert won(4, ["left", "grab", "left", "left"]) == [[True, False]]
    assert won(3, ["left", "left"]) == [[False, False]]
