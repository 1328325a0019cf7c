"""A world small enough to reason about: a corridor with a prize at a cell that shows itself when one is near."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pivotopd_jax.envs.protocol import Env, Planner
from pivotopd_jax.prompts.actions import format_action, parse_action
from pivotopd_jax.records import Observation, StepResult, Task, Turn

ACTIONS = ("grab", "left", "right")


class State(NamedTuple):
    cell: int
    prize: int
    cells: int
    seen: bool
    won: bool
    text: str


def _text(cell: int, prize: int) -> str:
    return f"You are in cell {cell}." + (" The prize is here." if cell == prize else "")


class Corridor:
    """Grab the prize. Grabbing elsewhere, or walking into a wall, does nothing."""

    def __init__(self):
        self.state: State | None = None

    def reset(self, task: Task) -> Observation:
        prize, cells = task.source
        self.state = State(0, prize, cells, prize == 0, False, _text(0, prize))
        return self._observation()

    def _observation(self) -> Observation:
        assert self.state
        return Observation(self.state.text, ACTIONS)

    def accepts(self, action: str) -> bool:
        s = self.state
        assert s
        return {"grab": s.cell == s.prize, "left": s.cell > 0, "right": s.cell + 1 < s.cells}.get(action, False)

    def step(self, action: str) -> StepResult:
        s = self.state
        assert s
        assert not s.won
        text, cell, won = "Nothing happens.", s.cell, False
        if self.accepts(action):
            cell += {"left": -1, "right": 1}.get(action, 0)
            won = action == "grab"
            text = "You have the prize." if won else _text(cell, s.prize)
        self.state = State(cell, s.prize, s.cells, s.seen or cell == s.prize, won, text)
        return StepResult(self._observation(), float(won), won, won)

    def snapshot(self) -> State:
        assert self.state
        return self.state

    def restore(self, snapshot: State) -> Observation:
        self.state = snapshot
        return self._observation()


class CorridorPlanner:
    """Knows the prize's cell if told; otherwise walks right."""

    def observed(self, snapshot: State) -> bool:
        return snapshot.seen

    def distance(self, snapshot: State, known: bool | None = None) -> float:
        if snapshot.won:
            return 0
        return math.inf if known is False else abs(snapshot.cell - snapshot.prize) + 1

    def next_action(self, snapshot: State, known: bool | None = None) -> str | None:
        if snapshot.won:
            return None
        if known is False:
            return "right"
        if snapshot.cell == snapshot.prize:
            return "grab"
        return "right" if snapshot.cell < snapshot.prize else "left"

    def candidates(self, snapshot: State) -> Sequence[str]:
        return ("grab", "left", "right")


class CorridorWorld:
    name = "corridor"
    kinds: Sequence[str] = ("near", "far")
    planner: Planner = CorridorPlanner()  # type: ignore[assignment]

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task(f"{split}-{prize}", "near" if prize < 2 else "far", (prize, 4)) for prize in range(4)]

    def make(self) -> Env:
        return Corridor()  # type: ignore[return-value]


class CorridorWording:
    phrases: Sequence[str] = ()
    parse = staticmethod(parse_action)
    format = staticmethod(format_action)

    def opening(self, observation: Observation) -> str:
        return "Grab the prize. " + observation.text

    def following(self, observation: Observation) -> str:
        return observation.text

    def admissible(self, actions: Sequence[str]) -> str:
        return "\nChoose: " + ", ".join(actions)

    def task(self, first: Observation) -> str:
        return "Grab the prize near " + first.text

    def gist(self, action: str) -> str | None:
        return action if action == "grab" else None

    def windowed(self, first: Observation, history: Sequence[tuple[int, Turn]], observation: Observation) -> str:
        return " ".join([*(f"{turn.observation.text} {turn.action}." for _, turn in history), observation.text])
