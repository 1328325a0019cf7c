"""Trajectories in the corridor whose every action is given."""

from __future__ import annotations

from toy_student import Scripted, Toy

from pivotopd_jax.records import Trajectory
from pivotopd_jax.rollout.collect import fresh_starts, play


def said(toy: Toy, actions: list[str], prize: int = 1) -> Trajectory:
    """What a student did who said `actions`; an episode has as many turns."""
    task = toy.world.tasks("test")[prize]
    starts = fresh_starts(toy.world, toy.prompter, [task], rollouts=1, max_turns=len(actions))
    policy = Scripted(toy.prompter.chat, [a if a.startswith("!") else f"<action>{a}</action>" for a in actions])
    return play(policy, starts, temperature=1.0, seed=0, concurrency=1)[0]
