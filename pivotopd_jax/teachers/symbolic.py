"""Teachers that plan: the same planner with three amounts of knowledge.

`oracle` plans on the full state: for labels and upper bounds. `expert` plans on what had been observed up to the
moment: for demonstrations and recovery actions. `hindsight` plans on what was observed anywhere in the trajectory: for
reports. An action that rests on facts nobody has observed teaches guessing; only whether a past action hurt may be
judged on the full state, where what was observed cannot tell.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pivotopd_jax.envs.protocol import Knowledge, Planner, Snapshot
from pivotopd_jax.prompts.actions import is_mismatch
from pivotopd_jax.records import Trajectory
from pivotopd_jax.teachers.protocol import Remark, Report, Situation

KnowledgeName = Literal["oracle", "expert", "hindsight"]

Advise = Callable[[Snapshot], str | None]
"""Puts into words what should be done from a state on; None where there is nothing to say."""


def _no_advice(snapshot: Snapshot) -> str | None:
    del snapshot
    return None


class SymbolicTeacher:
    """Implements `teachers.protocol.Teacher` with a planner.

    Attributes:
        report_knowledge: what reports rest on.
        recovery_knowledge: what recovery actions rest on; "hindsight" is not possible there.
        error_rate: share of named actions that are replaced by a random other candidate.
        advise: puts into words what should be done from a state on; by default nothing.
    """

    def __init__(
        self,
        planner: Planner,
        *,
        report_knowledge: KnowledgeName = "hindsight",
        recovery_knowledge: KnowledgeName = "expert",
        error_rate: float = 0.0,
        seed: int = 0,
        advise: Advise | None = None,
    ):
        if recovery_knowledge == "hindsight":
            raise ValueError(
                "recovery_knowledge='hindsight': a recovery has no later facts; choose 'expert' or 'oracle'"
            )
        self.planner = planner
        self.report_knowledge: KnowledgeName = report_knowledge
        self.recovery_knowledge: KnowledgeName = recovery_knowledge
        self.error_rate, self.seed = error_rate, seed
        self.advise: Advise = advise or _no_advice
        self.outcomes: Mapping[str, int] = {}
        self.concurrency = 1

    def check(self) -> None:
        """A planner is always there."""

    def reports(
        self, trajectories: Sequence[Trajectory], *, max_actions: int, every_turn: bool, lessons: bool = False
    ) -> list[Report]:
        advise = self.advise if lessons else _no_advice
        return [self._report(trajectory, max_actions, every_turn, advise) for trajectory in trajectories]

    def recovery_actions(self, situations: Sequence[Situation]) -> list[str | None]:
        named = []
        for situation in situations:
            known = self._known(self.recovery_knowledge, situation.snapshot, situation.snapshot)
            action = self.planner.next_action(situation.snapshot, known)
            named.append(self._err(action, situation.snapshot))
        return named

    def _known(self, knowledge: KnowledgeName, now: Snapshot, end: Snapshot) -> Knowledge | None:
        if knowledge == "oracle":
            return None
        return self.planner.observed(now if knowledge == "expert" else end)

    def _report(self, trajectory: Trajectory, max_actions: int, every_turn: bool, advise: Advise) -> Report:
        if not trajectory.turns:
            return Report()
        turns = range(len(trajectory.turns))
        chosen = list(turns) if every_turn else sorted(self._mistakes(trajectory)[:max_actions])
        remarks = []
        for turn in chosen:
            snapshot = trajectory.turns[turn].snapshot
            known = self._known(self.report_knowledge, snapshot, trajectory.final_snapshot)
            gold = self._err(self.planner.next_action(snapshot, known), snapshot)
            if gold is not None:
                remarks.append(Remark(turn, gold, advise(snapshot)))
        return Report(tuple(remarks), advise(trajectory.turns[0].snapshot))

    def _mistakes(self, trajectory: Trajectory) -> list[int]:
        """Turns that the teacher would have played differently, the costliest first, then in order of time."""
        costs = {}
        for index, turn in enumerate(trajectory.turns):
            known = self._known(self.report_knowledge, turn.snapshot, trajectory.final_snapshot)
            gold = self.planner.next_action(turn.snapshot, known)
            if gold is None or not is_mismatch(turn.action, gold):
                continue
            cost = self._cost(trajectory, index, known)
            if cost > 0:
                costs[index] = cost
        return sorted(costs, key=lambda index: (-min(costs[index], 2.0), index))

    def _cost(self, trajectory: Trajectory, turn: int, known: Knowledge | None) -> float:
        """Turns lost by the action of `turn`: 0 if it was as good as any, 1 if it was wasted, 2 or more if it hurt.

        Where what is known does not suffice to finish, an action that was carried out may have been a fair search. It
        is a mistake only if it truly hurt, which the full state tells; what to do instead never rests on that.
        """
        lost = self._lost(trajectory, turn, known)
        if not math.isnan(lost):
            return lost
        if not trajectory.turns[turn].accepted:
            return 1.0
        truly = self._lost(trajectory, turn, None)
        return truly if truly >= 2 else 0.0

    def _lost(self, trajectory: Trajectory, turn: int, known: Knowledge | None) -> float:
        """L(after) − L(before) + 1; nan where L(before) is infinite."""
        before = self.planner.distance(trajectory.turns[turn].snapshot, known)
        return (
            math.nan
            if math.isinf(before)
            else self.planner.distance(trajectory.snapshot_after(turn), known) - before + 1
        )

    def _err(self, action: str | None, snapshot: Snapshot) -> str | None:
        """`action`, or with probability `error_rate` another candidate. Depends on seed and arguments only."""
        if action is None or not self.error_rate:
            return action
        candidates = self.planner.candidates(snapshot)
        draw = random.Random(f"{self.seed}|{action}|{'|'.join(candidates)}")
        if draw.random() >= self.error_rate:
            return action
        others = [other for other in candidates if other != action]
        return draw.choice(others) if others else action
