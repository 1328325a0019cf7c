"""What the three symbolic teachers call a mistake, and what they name instead."""

from __future__ import annotations

import pytest
from toy_world import CorridorPlanner, CorridorWording, CorridorWorld

from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Task, Trajectory
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.teachers.symbolic import KnowledgeName, SymbolicTeacher

PROMPTER = Prompter(
    Chat(build_tokenizer(["Grab the prize. You are in cell 0."])), CorridorWording(), "transcript", 4, True, 1000
)


def played(prize: int, *actions: str) -> Trajectory:
    """An episode of `actions` in a corridor of 8 cells."""
    starts = fresh_starts(
        CorridorWorld(), PROMPTER, [Task("t", "near", (prize, 8))], rollouts=1, max_turns=len(actions)
    )
    return play(
        None, starts, temperature=1, seed=0, concurrency=1, actor=lambda index, episode: actions[len(episode.turns)]
    )[0]  # fmt: skip


def named(knowledge: KnowledgeName, trajectory: Trajectory, most: int = 10) -> dict[int, str | None]:
    teacher = SymbolicTeacher(CorridorPlanner(), report_knowledge=knowledge)  # type: ignore[arg-type]
    (report,) = teacher.reports([trajectory], max_actions=most, every_turn=False, lessons=False)
    return {remark.turn: remark.gold_action for remark in report.remarks}


@pytest.mark.parametrize("knowledge", ["oracle", "hindsight", "expert"])
def test_nothing_is_wrong_with_the_best_play(knowledge):
    assert named(knowledge, played(2, "right", "right", "grab")) == {}


def test_hindsight_knows_at_once_what_was_seen_later():
    assert named("hindsight", played(1, "grab", "right", "right", "left", "grab")) == {0: "right", 2: "grab"}


def test_the_expert_knows_only_what_had_been_seen():
    """Walking on past the prize is a mistake once it has been seen; so is grabbing nothing."""
    assert named("expert", played(1, "grab", "right", "right", "left", "grab")) == {0: "right", 2: "grab"}


def test_of_many_mistakes_the_costliest_are_named():
    assert named("oracle", played(3, "grab", "right", "left", "right", "grab"), most=1) == {2: "right"}


def test_where_nothing_was_ever_seen_only_what_truly_hurt_is_a_mistake():
    """Right is the way to the prize, left is not; the prize itself was never seen."""
    assert named("hindsight", played(7, "right", "left", "grab", "right")) == {1: "right", 2: "right"}


def test_a_fair_search_is_no_mistake_even_if_the_prize_lies_elsewhere():
    assert named("hindsight", played(0, "grab")) == {}
    assert "left" not in named("expert", played(6, "right", "right", "right")).values()


def test_the_error_rate_replaces_named_actions_by_others():
    trajectory = played(3, "left", "left", "left", "left")
    teacher = SymbolicTeacher(CorridorPlanner(), error_rate=1.0)  # type: ignore[arg-type]
    (report,) = teacher.reports([trajectory], max_actions=10, every_turn=False, lessons=False)
    assert report.remarks
    assert all(remark.gold_action in ("grab", "left") for remark in report.remarks)


def test_a_recovery_cannot_rest_on_hindsight():
    with pytest.raises(ValueError, match="hindsight"):
        SymbolicTeacher(CorridorPlanner(), recovery_knowledge="hindsight")  # type: ignore[arg-type]
