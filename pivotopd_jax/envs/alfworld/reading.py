"""From a game and its state to a canonical situation: which receptacle plays which role, and who is interchangeable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pivotopd_jax.envs.alfworld.games import Game, State, indices_of
from pivotopd_jax.envs.alfworld.situation import (
    COUNT_LIMIT,
    DONE,
    EMPTY,
    FIXED,
    GOAL,
    HAND_DONE,
    HAND_PLAIN,
    HAND_TAGGED,
    HOLDS,
    HOLDS_OTHER,
    LAMP,
    LIT,
    OPEN,
    OTHER,
    PLAIN,
    STATION,
    Aim,
    Code,
    Situation,
    make_situation,
    tag_bit,
)


class Layout(NamedTuple):
    """What does not change in a game.

    Attributes:
        aim: the goal's form.
        roles: receptacle -> GOAL, HOLDS and STATION; OPEN where it is not made to be opened.
        places: place -> indices of its receptacles.
        fixed: mask of the goal's objects that cannot be picked up.
    """

    aim: Aim
    roles: tuple[Code, ...]
    places: tuple[tuple[int, ...], ...]
    fixed: int


class Reading(NamedTuple):
    """A state in terms of roles, not yet reduced.

    Attributes:
        layout: of its game.
        place: the player's place, -1 for nowhere.
        hand: what is held, as in `Situation`.
        codes: receptacle -> code.
        tags: tag -> index of the object.
        done: mask of the goal's objects that only have to be placed.
    """

    layout: Layout
    place: int
    hand: int
    codes: list[Code]
    tags: list[int]
    done: int

    def situation(self) -> Situation:
        """The canonical form."""
        places = [[self.codes[r] for r in there] for there in self.layout.places]
        here = places.pop(self.place) if self.place >= 0 else ()
        return make_situation(self.hand, here, places)


def layout_of(game: Game) -> Layout:
    """The layout of `game`, made on first use and kept with it.

    Raises:
        ValueError: a goal that is none of the six task types'.
    """
    found = game.cache.get("layout")
    if found is None:
        found = game.cache["layout"] = _make_layout(game)
    return found


def _make_layout(game: Game) -> Layout:
    goal = game.goal
    if goal.lamps & game.pickupable or (goal.count > 1 and goal.property):
        raise ValueError(
            f"game {game.id!r}: the planner expects one of the six task types, in which lamps cannot be picked up and "
            f"two objects need no treatment; got {goal}"
        )
    stations = {"clean": game.sinks, "hot": game.microwaves, "cool": game.fridges, None: 0}[goal.property]
    roles = tuple(
        GOAL * (goal.receptacles >> r & 1)
        | HOLDS * (not goal.lamps and bool(game.accepts[r] & goal.objects))
        | STATION * (stations >> r & 1)
        | OPEN * (not game.openable >> r & 1)
        for r in range(len(game.receptacle_names))
    )
    places = tuple(tuple(indices_of(mask)) for mask in game.at_place)
    return Layout(Aim(bool(goal.lamps), goal.count), roles, places, goal.objects & ~game.pickupable)


def read(game: Game, state: State, known: int = -1) -> Reading:
    """Reads a state, taking only the receptacles in the mask `known` to have contents."""
    layout, goal = layout_of(game), game.goal
    done = goal.objects if goal.property is None else goal.objects & getattr(state, goal.property)
    tags = [] if goal.lamps else _in_two_places(goal.objects & ~layout.fixed, state, known)
    hand = _hand(goal.objects, state.holding, done, tags)
    codes = list(layout.roles)
    for r, mask in enumerate(state.contents):
        if state.opened >> r & 1:
            codes[r] |= OPEN
        if mask & (goal.objects | goal.lamps) and known >> r & 1:
            codes[r] |= _code_of_lamps(mask & goal.lamps, state.toggled)
            codes[r] |= _code_of_objects(mask & goal.objects, done, layout.fixed, tags)
        if hand == OTHER and game.accepts[r] >> state.holding & 1:
            codes[r] |= HOLDS_OTHER
    return Reading(layout, state.place, hand, codes, tags, done)


def _in_two_places(objects: int, state: State, known: int) -> list[int]:
    once = 1 << state.holding & objects if state.holding >= 0 else 0
    twice = 0
    for r, mask in enumerate(state.contents):
        if mask & objects and known >> r & 1:
            twice |= once & mask
            once |= mask & objects
    return indices_of(twice) if twice else []


def _hand(objects: int, holding: int, done: int, tags: Sequence[int]) -> int:
    if holding < 0:
        return EMPTY
    if not objects >> holding & 1:
        return OTHER
    is_done = done >> holding & 1
    if holding in tags:
        return HAND_TAGGED + 2 * tags.index(holding) + is_done
    return HAND_DONE if is_done else HAND_PLAIN


def _code_of_lamps(lamps: int, toggled: int) -> Code:
    return LAMP | LIT * bool(lamps & toggled) if lamps else 0


def _code_of_objects(objects: int, done: int, fixed: int, tags: Sequence[int]) -> Code:
    code = 0
    for tag, o in enumerate(tags):
        if objects >> o & 1:
            code |= tag_bit(tag) * (3 if done >> o & 1 else 1)
            objects ^= 1 << o
    for kind, mask in ((PLAIN, ~done & ~fixed), (DONE, done & ~fixed), (FIXED, done & fixed)):
        code += kind * min((objects & mask).bit_count(), COUNT_LIMIT)
    return code
