"""What the loop asks of a teacher, whoever answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from pivotopd_jax.envs.protocol import Snapshot
from pivotopd_jax.records import Observation, Trajectory, Turn


@dataclass(frozen=True)
class Remark:
    """What a report says of one turn.

    Attributes:
        turn: 0-based.
        gold_action: the action that should have been taken; None if none is named.
        lesson: advice in words; None if there is none.
    """

    turn: int
    gold_action: str | None = None
    lesson: str | None = None


@dataclass(frozen=True)
class Report:
    """A teacher's reading of one trajectory; empty where its reply could not be read.

    Attributes:
        remarks: at most one a turn.
        lesson: advice for the whole episode.
        summary: what happened in the episode; for readers, nothing is trained on it.
    """

    remarks: tuple[Remark, ...] = ()
    lesson: str | None = None
    summary: str | None = None


@dataclass(frozen=True)
class Situation:
    """A moment at which a recovery action is wanted.

    Attributes:
        observation: exactly what the student is shown.
        history: the turns so far.
        snapshot: the environment's state; for symbolic teachers only, a served one never reads it.
    """

    observation: Observation
    history: Sequence[Turn] = field(repr=False)
    snapshot: Snapshot = field(repr=False)


class TeacherFailure(RuntimeError):
    """A teacher cannot be used, or fails too often to go on; says which one, why, and what to do."""


@runtime_checkable
class TokenScorer(Protocol):
    """Scores given tokens, one response at a time; what a teacher may be able to do besides."""

    def score(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray | None]:
        """Log-probabilities of responses.

        Args:
            pairs: (context `[context_length]`, response `[response_length]`) int32 token ids.

        Returns:
            `[response_length]` float32 in nats for each pair; None where they could not be had.
        """
        ...


class Teacher(Protocol):
    """Names actions. What it returns is untrusted and is resolved onto the admissible set by the caller."""

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How often each outcome of a call occurred since the start; empty where calls cannot fail."""
        ...

    @property
    def concurrency(self) -> int:
        """Threads that may ask at once while episodes are being played; 1: it is asked when they are over."""
        ...

    def check(self) -> None:
        """Makes sure that the teacher can answer; called before the first rollout.

        Raises:
            TeacherFailure: it cannot.
        """
        ...

    def reports(
        self, trajectories: Sequence[Trajectory], *, max_actions: int, every_turn: bool, lessons: bool = False
    ) -> list[Report]:
        """Reads finished trajectories with their outcome.

        Args:
            trajectories: whole episodes, successes too.
            max_actions: most gold actions in one report.
            every_turn: name a gold action at every turn, right or wrong, instead of choosing turns.
            lessons: put advice in words, too; a teacher may give some unasked.
        """
        ...

    def recovery_actions(self, situations: Sequence[Situation]) -> list[str | None]:
        """One action for each situation; None where the teacher has none."""
        ...
