"""What every environment offers: play, exact snapshots, and a planner that may be told how much it is allowed to know.

Full knowledge gives the oracle; what had been observed when a state was reached gives the expert; what was observed by
the end of the episode gives the hindsight teacher. The three differ in that one argument only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pivotopd_jax.records import Observation, StepResult, Task

Snapshot = Any
"""The whole state of an episode: immutable, hashable, cheap to take. Each environment has its own type."""

Knowledge = Any
"""Which hidden facts of a task have been observed so far. Each environment has its own type."""


class SearchLimit(RuntimeError):
    """A planner gave up before it could prove an answer. Never to be read as "impossible"."""


class Env(Protocol):
    """One running episode."""

    def reset(self, task: Task) -> Observation:
        """Starts `task` and returns the first observation."""
        ...

    def step(self, action: str) -> StepResult:
        """Carries `action` out. An inadmissible action changes nothing and still returns an observation.

        Raises:
            RuntimeError: the episode is over or was never started.
        """
        ...

    def accepts(self, action: str) -> bool:
        """Whether `step(action)` would be carried out in the present state."""
        ...

    def snapshot(self) -> Snapshot:
        """The present state, task included."""
        ...

    def restore(self, snapshot: Snapshot) -> Observation:
        """Goes to a state taken from any episode of this environment; returns what was last shown in it."""
        ...


class Planner(Protocol):
    """Plans from any state. Deterministic: the same arguments always give the same answer."""

    def observed(self, snapshot: Snapshot) -> Knowledge:
        """What the player had observed when `snapshot` was taken."""
        ...

    def distance(self, snapshot: Snapshot, known: Knowledge | None = None) -> float:
        """L(s): least number of turns to full success using only `known` facts (None: all facts); inf if impossible.

        Raises:
            SearchLimit: the search budget ran out first.
        """
        ...

    def next_action(self, snapshot: Snapshot, known: Knowledge | None = None) -> str | None:
        """An optimal next action given `known` facts (None: all).

        Where the known facts do not suffice to finish, the action that looks in the likeliest place not yet looked in,
        in a fixed order. None when the task is finished or can no longer be finished.
        """
        ...

    def candidates(self, snapshot: Snapshot) -> Sequence[str]:
        """Actions that a player might think of, in a fixed order.

        The admissible ones; in an open action space those that the texts shown so far suggest.
        """
        ...


class World(Protocol):
    """An environment family: its tasks by split, its episodes and its planner."""

    name: str
    kinds: Sequence[str]
    """Columns of the result table, in order."""

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split, in a fixed order.

        Raises:
            ValueError: no such split, with the ones that exist.
        """
        ...

    def make(self) -> Env:
        """A fresh episode holder; many may be alive at once."""
        ...

    @property
    def planner(self) -> Planner: ...
