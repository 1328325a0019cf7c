"""The student as its own teacher: it names the action that most of its own samples agree on.

A vote needs no instructions, so that even a student which can only play can do it. Left out: reports in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pivotopd_jax.prompts.actions import is_mismatch, parse_action
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Trajectory
from pivotopd_jax.sampling.policy import Policy, Request, request_seed, waves
from pivotopd_jax.teachers.protocol import Remark, Report, Situation


@dataclass(frozen=True, eq=False)
class SelfTeacher:
    """Implements `teachers.protocol.Teacher` with votes of the policy, as it is loaded at the time.

    Attributes:
        policy: samples.
        prompter: of the student.
        samples: votes a decision.
        temperature: of sampling.
        seed: fixes all votes.
    """

    policy: Policy
    prompter: Prompter
    samples: int
    temperature: float
    seed: int

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Nothing can fail."""
        return {}

    def check(self) -> None:
        """The student is always there."""

    def reports(
        self, trajectories: Sequence[Trajectory], *, max_actions: int, every_turn: bool, lessons: bool = False
    ) -> list[Report]:
        """Names the turns where the vote went against what was done, the clearest first; writes no lessons.

        Raises:
            ValueError: lessons are asked for.
        """
        if lessons:
            raise ValueError(
                "the student as its own teacher votes on actions and writes no lessons; set "
                "config.knobs.lesson_weight=0 or choose another teacher"
            )
        places = [(i, t) for i, trajectory in enumerate(trajectories) for t in range(len(trajectory.turns))]
        votes = self._votes([(i, t, trajectories[i].turns[t].context_ids) for i, t in places])
        found: list[list[tuple[float, Remark]]] = [[] for _ in trajectories]
        for (index, turn), (action, share) in zip(places, votes, strict=True):
            if action and (every_turn or is_mismatch(trajectories[index].turns[turn].action, action)):
                found[index].append((share, Remark(turn, action)))
        return [_report(remarks, None if every_turn else max_actions) for remarks in found]

    def recovery_actions(self, situations: Sequence[Situation]) -> list[str | None]:
        contexts = [
            (i, len(s.history), self.prompter.context(s.history, s.observation)) for i, s in enumerate(situations)
        ]
        return [action for action, _ in self._votes(contexts)]

    def _votes(self, contexts: Sequence[tuple[int, int, np.ndarray]]) -> list[tuple[str | None, float]]:
        """For each (session, turn, context) the action most often said, and its share of the votes."""
        counts: list[Counter[str]] = [Counter() for _ in contexts]
        requests = [
            (place, Request(session, ids, request_seed(self.seed, session, turn, vote)))
            for place, (session, turn, ids) in enumerate(contexts)
            for vote in range(self.samples)
        ]
        for wave in waves(requests, lambda item: item[1].session):
            said = self.policy.sample([request for _, request in wave], temperature=self.temperature)
            for (place, _), sample in zip(wave, said, strict=True):
                action = parse_action(self.prompter.chat.decode(sample.response_ids)) if sample.ended else None
                if action:
                    counts[place][action] += 1
        return [_winner(count, self.samples) for count in counts]


def _winner(count: Counter[str], samples: int) -> tuple[str | None, float]:
    if not count:
        return None, 0.0
    action, votes = min(count.items(), key=lambda item: (-item[1], item[0]))
    return action, votes / samples


def _report(remarks: list[tuple[float, Remark]], most: int | None) -> Report:
    ranked = sorted(remarks, key=lambda item: (-item[0], item[1].turn))
    return Report(tuple(sorted((remark for _, remark in ranked[:most]), key=lambda remark: remark.turn)))
