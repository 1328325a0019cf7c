"""Plans for ALFWorld: how many turns a state is from success, and what to do next.

With full knowledge this is the oracle. Knowing only the receptacles observed so far it is the expert, which carries out
a shortest plan over what has been seen, and explores where that does not suffice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pivotopd_jax.envs.alfworld.commands import commands_of, natural_order
from pivotopd_jax.envs.alfworld.engine import AlfWorldSnapshot, won
from pivotopd_jax.envs.alfworld.exploration import SearchOrder, look_for, put_down
from pivotopd_jax.envs.alfworld.games import Game, State
from pivotopd_jax.envs.alfworld.reading import Reading, read
from pivotopd_jax.envs.alfworld.search import Distances, Edge
from pivotopd_jax.envs.alfworld.situation import HAND_PLAIN, LAMP, LIT, OTHER, Aim, Code

_EVERYTHING = -1


class AlfWorldPlanner:
    """A `Planner` of ALFWorld games; its knowledge is a mask of the receptacles whose contents may be used.

    Distances are remembered, so that asking for all turns of a trajectory costs little more than asking for its first.

    Args:
        budget: situations that one search may expand before it gives up.
        search: the order in which receptacles are explored.
    """

    def __init__(self, budget: int = 100_000, search: SearchOrder = "likeliest") -> None:
        if search not in get_args(SearchOrder):
            raise ValueError(f"search {search!r} is not known; choose one of {', '.join(get_args(SearchOrder))}")
        self._search: SearchOrder = search
        self._distances = Distances(budget)

    def observed(self, snapshot: AlfWorldSnapshot) -> int:
        """Mask of the receptacles whose contents the player had been shown."""
        return snapshot.state.observed

    def distance(self, snapshot: AlfWorldSnapshot, known: int | None = None) -> float:
        """L(s): least number of turns to win with what is held and what is in `known` receptacles (None: in all).

        Returns:
            inf if there is no way; 0 once the game is won, whatever is known of it.

        Raises:
            SearchLimit: the budget ran out first.
        """
        if won(snapshot.game, snapshot.state):
            return 0.0
        reading = read(snapshot.game, snapshot.state, _EVERYTHING if known is None else known)
        return self._distances(reading.layout.aim, reading.situation())

    def next_action(self, snapshot: AlfWorldSnapshot, known: int | None = None) -> str | None:
        """The first command of a shortest plan that needs `known` receptacles only (None: all).

        Of several it is always the same one. Where `known` does not suffice for a plan: a command that brings the goal
        nearer, or else one that looks into the first receptacle that is not known, in the order of `search`.

        Returns:
            None when the game is won, or when it cannot be won as far as is known.

        Raises:
            SearchLimit: the budget ran out first.
        """
        game, state = snapshot.game, snapshot.state
        if won(game, state):
            return None
        reading = read(game, state, _EVERYTHING if known is None else known)
        plan = self._plan(game, state, reading, reading.layout.aim)
        return self._explore(game, state, reading, known) if plan is None and known is not None else plan

    def candidates(self, snapshot: AlfWorldSnapshot) -> Sequence[str]:
        """The admissible actions."""
        return snapshot.observation.admissible or ()

    def _plan(self, game: Game, state: State, reading: Reading, aim: Aim) -> str | None:
        """The next command towards `aim`; None where it is reached or out of reach."""
        commands = (
            command
            for edge in self._distances.best_edges(aim, reading.situation())
            for command in commands_of(game, state, reading, edge, self._entrances(aim, edge))
        )
        return min(commands, key=natural_order, default=None)

    def _entrances(self, aim: Aim, edge: Edge) -> set[Code]:
        """Of a place gone to, the receptacles that are used there next, by whose names one goes there."""
        if edge.verb != "go":
            return set()
        used = {code for onward in self._distances.best_edges(aim, edge.after) for code in onward.target}
        return used or {code for code in edge.after.here if code & LIT}

    def _explore(self, game: Game, state: State, reading: Reading, known: int) -> str | None:
        """What to do when what is known does not suffice."""
        aim, objects = reading.layout.aim, game.goal.objects
        if reading.hand == OTHER:
            return put_down(game, state, known, objects, self._search)
        if aim.look and reading.hand >= HAND_PLAIN:
            return look_for(game, state, known, game.goal.lamps, self._search)
        if aim.look:
            # As if a lamp were burning everywhere: the object can be fetched before the lamp is found.
            reading = reading._replace(codes=[code | LAMP | LIT for code in reading.codes])
        # One object can be placed before the other one is found.
        return self._plan(game, state, reading, aim._replace(count=1)) or look_for(
            game, state, known, objects, self._search
        )
