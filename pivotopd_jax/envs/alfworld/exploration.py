"""What the expert does while it does not know enough to finish: put wrong things down, and look into likely places.

The order is fixed, so that a student can learn it. "likeliest": receptacle types by how often they hold what is looked
for, those of one type by their number. "listed": as the first text lists them, which takes no knowledge of the world.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pivotopd_jax.envs.alfworld.commands import natural_order, place_command
from pivotopd_jax.envs.alfworld.games import Game, State, indices_of
from pivotopd_jax.envs.alfworld.likely_places import LIKELY_PLACES

SearchOrder = Literal["likeliest", "listed"]


def look_for(game: Game, state: State, known: int, objects: int, search: SearchOrder) -> str | None:
    """Goes to, opens or examines the first receptacle not in `known`; None when there is none.

    Args:
        game, state: where the player is.
        known: mask of receptacles.
        objects: mask of the objects looked for; only their types are used.
        search: in which order.
    """
    unknown = [r for r in range(len(game.receptacle_names)) if not known >> r & 1]
    return _approach(game, state, min(unknown, key=_order(game, objects, search))) if unknown else None


def put_down(game: Game, state: State, known: int, objects: int, search: SearchOrder) -> str | None:
    """Frees the hand: here if possible, else where `objects` would be looked for first.

    None when nothing takes what is held.
    """
    takers = [r for r, accepted in enumerate(game.accepts) if accepted >> state.holding & 1]
    order = _order(game, objects, search)
    here = [r for r in takers if game.place[r] == state.place]
    for r in sorted(here, key=lambda r: (_is_shut(game, state, r), order(r))):
        return _approach(game, state, r) if _is_shut(game, state, r) else place_command(game, state.holding, r)
    ranked = sorted(takers, key=lambda r: (known >> r & 1, order(r)))
    return _approach(game, state, ranked[0]) if ranked else None


def _order(game: Game, objects: int, search: SearchOrder) -> Callable[[int], tuple[bool, int, list[tuple[int, str]]]]:
    """Sort key of receptacles, those to be looked into first."""
    likely = [place for o in indices_of(objects) for place in LIKELY_PLACES.get(game.object_types[o], ())]
    rank = {kind: position for position, kind in reversed(list(enumerate(likely)))}
    empty = _certainly_empty(game)

    def key(r: int) -> tuple[bool, int, list[tuple[int, str]]]:
        name, kind = game.receptacle_names[r], game.receptacle_types[r]
        if search == "listed":
            return bool(empty >> r & 1), r, []
        return bool(empty >> r & 1), rank.get(kind, len(likely)), natural_order(name)

    return key


def _certainly_empty(game: Game) -> int:
    """Mask of receptacles that cannot hold what is looked for, since the game would have been won from the start."""
    goal = game.goal
    return goal.receptacles if goal.count == 1 and goal.property is None else 0


def _approach(game: Game, state: State, r: int) -> str:
    """The next step towards seeing what is in receptacle `r`."""
    name = game.receptacle_names[r]
    if game.place[r] != state.place:
        return f"go to {name}"
    return f"open {name}" if _is_shut(game, state, r) else f"examine {name}"


def _is_shut(game: Game, state: State, r: int) -> bool:
    return bool(game.openable & ~state.opened & 1 << r)
