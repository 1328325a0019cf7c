"""What is left of an ALFWorld state once everything that cannot change the number of turns to go is dropped.

Names, doors nobody needs, objects of other types: none of them matter to the distance. What does is reduced to one
integer per receptacle (its *code*), a sorted tuple of codes per place and a sorted tuple of places. Objects and places
that are interchangeable thereby become equal, and states of different games can share one distance.

A place without objects is dropped altogether when another one *covers* it, that is, can do all that it can: a plan that
uses the dropped place works through the covering one as well and is no longer, because the domain's preconditions
that a shortest plan meets ask for facts to be there, never to be absent (an empty hand aside). The one exception is an
object that counts in two places at once, since taking it from one leaves it in the other; where there is such an
object (it then carries a *tag*), nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

Code = int
Place = tuple[Code, ...]

# Roles of a receptacle: low bits of its code. A code with a superset of another's roles can do all that the other can.
GOAL = 1
"""Of the type that the goal names."""
HOLDS = 2
"""Takes objects of the goal type."""
STATION = 4
"""Cleans, heats or cools, whichever the goal asks for."""
HOLDS_OTHER = 8
"""Takes the object of another type that is in the hand."""
LAMP = 16
"""A lamp that the goal asks for stands in it."""
LIT = 32
"""That lamp has been switched on. Always together with LAMP."""
OPEN = 64
"""Within reach: opened, or not made to be opened."""

# Above the roles: three four-bit counters of interchangeable objects of the goal type, then two bits per tag.
OBJECTS = 1 << 8
"""Codes below have no objects."""
PLAIN = 1 << 8
"""Counts objects that still have to be cleaned, heated or cooled."""
DONE = 1 << 12
"""Counts objects that only have to be placed."""
FIXED = 1 << 16
"""Counts objects that only have to be placed but cannot be picked up: they count where they are."""
TAGGED = 1 << 20
"""First tag's bit; the next higher bit says that the object is done."""
COUNT_LIMIT = 15

EMPTY, OTHER, HAND_PLAIN, HAND_DONE, HAND_TAGGED = 0, 1, 2, 3, 4
"""What the hand holds: nothing, an object of another type, or an object of the goal type: plain, done, or tagged (tag t
is HAND_TAGGED + 2 t, plus 1 when done)."""


class Aim(NamedTuple):
    """The part of a goal that the codes do not contain.

    Attributes:
        look: an object of the goal type must be held in front of a burning lamp; otherwise objects must be placed.
        count: how many objects must lie in one and the same goal receptacle.
    """

    look: bool
    count: int


class Situation(NamedTuple):
    """A canonical state.

    Attributes:
        hand: what is held.
        here: the player's place; () where nothing of interest is.
        elsewhere: the other places of interest, sorted.
    """

    hand: int
    here: Place
    elsewhere: tuple[Place, ...]


def tag_bit(tag: int) -> Code:
    """The bit that says that tagged object `tag` is there; the next higher one says that it is done."""
    return TAGGED << (2 * tag)


def count_of(code: Code, kind: Code) -> int:
    """How many objects of `kind` (PLAIN, DONE or FIXED) are in a receptacle, at most 15."""
    return (code // kind) & COUNT_LIMIT


def placed(code: Code) -> int:
    """How many objects in a receptacle need nothing but to be in a goal receptacle."""
    total = count_of(code, DONE) + count_of(code, FIXED)
    tags = code // TAGGED
    while tags:
        total += (tags & 3) == 3
        tags >>= 2
    return total


def is_won(aim: Aim, situation: Situation) -> bool:
    """Whether the goal holds."""
    if aim.look:
        return situation.hand >= HAND_PLAIN and any(code & LIT for code in situation.here)
    return any(
        code >= DONE and code & GOAL and placed(code) >= aim.count
        for place in (situation.here, *situation.elsewhere)
        for code in place
    )


def is_tagged(hand: int, places: Iterable[Place]) -> bool:
    """Whether some object counts in two places at once. Places are sorted downwards."""
    return hand >= HAND_TAGGED or any(place and place[0] >= TAGGED for place in places)


def reduced_code(code: Code) -> Code:
    """The code without what cannot matter; 0 where nothing does."""
    if code < OBJECTS:
        if not code & HOLDS:
            code &= ~GOAL
        if not code & (HOLDS | HOLDS_OTHER):
            code &= ~OPEN
    return code


@lru_cache(maxsize=1 << 16)
def _reduced(codes: Place) -> Place:
    return tuple(sorted(filter(None, map(reduced_code, codes)), reverse=True))


def make_situation(hand: int, here: Sequence[Code], elsewhere: Iterable[Sequence[Code]]) -> Situation:
    """The canonical form of a state, given the codes of the receptacles place by place."""
    places = [_reduced(tuple(here)), *(_reduced(tuple(codes)) for codes in elsewhere)]
    if is_tagged(hand, places):
        hand, places = _without_single_tags(hand, places)
    if is_tagged(hand, places):
        return Situation(hand, places[0], tuple(sorted(filter(None, places[1:]))))
    here, *others = map(_uncovered, places)
    return Situation(hand, here, _uncovered_places(here, others))


def make_place(codes: Iterable[Code], tagged: bool) -> Place:
    """How `make_situation` writes one place. `tagged`: some object of the situation carries a tag."""
    place = _reduced(tuple(codes))
    return place if tagged else _uncovered(place)


def changed_here(situation: Situation, hand: int, here: Sequence[Code]) -> Situation:
    """`make_situation` after a change to the hand and the receptacles here."""
    _, before, elsewhere = situation
    if is_tagged(situation.hand, (before, *elsewhere)):
        return make_situation(hand, here, elsewhere)
    place = _uncovered(_reduced(tuple(here)))
    return Situation(hand, place, tuple(other for other in elsewhere if not covers(place, other)))


def moved(situation: Situation, index: int) -> Situation:
    """`make_situation` after going to `elsewhere[index]`."""
    hand, before, elsewhere = situation
    place = elsewhere[index]
    rest = (*elsewhere[:index], *elsewhere[index + 1 :])
    if not before:
        return Situation(hand, place, rest)
    if not is_tagged(hand, (before, *elsewhere)) and any(covers(other, before) for other in (place, *rest)):
        return Situation(hand, place, rest)
    return Situation(hand, place, tuple(sorted((before, *rest))))


@lru_cache(maxsize=1 << 16)
def _uncovered(place: Place) -> Place:
    """Keeps the receptacles that can do something which no other at this place can."""
    kept: list[Code] = []
    for code in place:  # sorted downwards, so that a superset comes before its subsets
        if code >= OBJECTS or all(code & ~other for other in kept):
            kept.append(code)
    return tuple(kept)


def covers(place: Place, other: Place) -> bool:
    """Whether `other` has no objects and `place` can do all that `other` can."""
    if other and other[0] >= OBJECTS:
        return False
    return all(any(not code & ~mine for mine in place) for code in other)


def _uncovered_places(here: Place, places: Sequence[Place]) -> tuple[Place, ...]:
    kept = [place for place in places if place and place[0] >= OBJECTS]
    bare = {place for place in places if place and place[0] < OBJECTS}
    for place in bare:
        if not any(covers(other, place) for other in (here, *kept)):
            kept = [other for other in kept if not covers(place, other)]
            kept.append(place)
    return tuple(sorted(kept))


def _without_single_tags(hand: int, places: list[Place]) -> tuple[int, list[Place]]:
    """Turns tagged objects that are in one place only into ordinary ones."""
    tag = 0
    while any(code >= tag_bit(tag) for place in places for code in place) or hand >= HAND_TAGGED + 2 * tag:
        held = (hand - HAND_TAGGED) // 2 == tag and hand >= HAND_TAGGED
        spots = sum(bool(code & tag_bit(tag)) for place in places for code in place)
        if held and spots == 0:
            hand = HAND_DONE if hand & 1 else HAND_PLAIN
        elif spots == 1 and not held:
            places = [_reduced(tuple(_counted(code, tag_bit(tag)) for code in place)) for place in places]
        tag += 1
    return hand, places


def _counted(code: Code, bit: Code) -> Code:
    """Replaces a tagged object, if it is here, by one more in the counter."""
    if not code & bit:
        return code
    kind = DONE if code & 2 * bit else PLAIN
    code &= ~(3 * bit)
    return code + kind if count_of(code, kind) < COUNT_LIMIT else code
