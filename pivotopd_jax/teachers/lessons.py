"""Lessons in words, written by a planner: what is left to do, without the particulars of one game."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from pivotopd_jax.envs.protocol import Snapshot, World

MAX_STEPS = 50
"""Longest plan that is put into words, in turns."""


@dataclass(frozen=True)
class PlanLessons:
    """Writes the general part of an optimal plan.

    The plan rests on the full state, but what is written down names neither places nor instances, so that it gives away
    nothing that the student could not know.

    Attributes:
        world: plans and plays.
        gist: what of an action holds in other games too, see `prompts.prompter.Wording.gist`.
    """

    world: World
    gist: Callable[[str], str | None]

    def __call__(self, snapshot: Snapshot) -> str | None:
        """What to do from `snapshot` on, as "take mug, heat mug with microwave, ..."; None where nothing leads on."""
        env, planner = self.world.make(), self.world.planner
        env.restore(snapshot)
        steps = []
        for _ in range(MAX_STEPS):
            action = planner.next_action(env.snapshot())
            if action is None:
                break
            steps.append(self.gist(action))
            if env.step(action).done:
                break
        return ", ".join(step for step, _ in groupby(filter(None, steps))) or None
