"""A lower bound on the number of turns to go from a canonical situation.

The way to the goal is relaxed to layers, walked through in order: put down what is in the way, take an object, treat it
(clean, heat or cool), place it. Each layer has a price at each place, inf where it cannot be done there, and going
elsewhere between two layers costs one turn. Relaxed is that what one layer does to a receptacle does not show in the
next, and that a door is paid for in one layer only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from pivotopd_jax.envs.alfworld.situation import (
    DONE,
    EMPTY,
    GOAL,
    HAND_DONE,
    HAND_PLAIN,
    HAND_TAGGED,
    HOLDS,
    HOLDS_OTHER,
    LAMP,
    LIT,
    OBJECTS,
    OPEN,
    OTHER,
    PLAIN,
    STATION,
    TAGGED,
    Aim,
    Code,
    Place,
    Situation,
    count_of,
    is_tagged,
    is_won,
    placed,
)

Prices = Sequence[float]
"""Turns, place by place; the player's place comes first."""


class Menu(NamedTuple):
    """What each layer costs at one place, in turns once there.

    Attributes:
        drop: put down an object of another type.
        swap: put down an object of the goal type.
        take_plain: take an object that has to be treated.
        take_done: take an object that has not.
        treat: clean, heat or cool.
        finish: place the held object, or have a lamp burn.
    """

    drop: float
    swap: float
    take_plain: float
    take_done: float
    treat: float
    finish: float


def lower_bound(aim: Aim, situation: Situation) -> float:
    """Never above the true distance; 0 exactly where the goal holds; inf only where it cannot be reached."""
    if is_won(aim, situation):
        return 0
    hand, here, elsewhere = situation
    places = (here, *elsewhere)
    if aim.count == 2:
        return _bound_for_two(hand, places)
    menus = [_menu(aim.look, place) for place in places]
    bound = _through_layers(_untagged(hand), menus)
    return min(bound, _bound_in_place(hand, places, menus)) if is_tagged(hand, places) else bound


def _untagged(hand: int) -> int:
    return hand if hand < HAND_TAGGED else HAND_DONE if hand & 1 else HAND_PLAIN


def _bound_in_place(hand: int, places: Sequence[Place], menus: Sequence[Menu]) -> float:
    """The bound if an object that also lies in a goal receptacle is treated while held: nothing is left to place."""
    plain = 0
    for place in places:
        for code in place:
            plain |= _plain_tags(code) if code & GOAL else 0
    if not plain:
        return math.inf
    treated = _reach([menu.treat for menu in menus])
    if hand >= HAND_TAGGED and plain >> (hand - HAND_TAGGED) & 1:
        return treated[0]
    takes = [_cheapest(1 + (not code & OPEN) for code in place if code // TAGGED & plain) for place in places]
    taken = _reach(_add(takes, treated))
    if hand == EMPTY:
        return taken[0]
    return _reach(_add([menu.drop if hand == OTHER else menu.swap for menu in menus], taken))[0]


def _through_layers(hand: int, menus: Sequence[Menu]) -> float:
    drop, swap, take_plain, take_done, treat, finish = zip(*menus, strict=True)
    finished = _reach(finish)
    if hand == HAND_DONE:
        return finished[0]
    treated = _reach(_add(treat, finished))
    from_done = _reach(_add(take_done, finished))
    if hand == HAND_PLAIN:
        return min(treated[0], _reach(_add(swap, from_done))[0])
    taken = _reach(list(map(min, from_done, _add(take_plain, treated))))
    return taken[0] if hand == EMPTY else _reach(_add(drop, taken))[0]


def _add(prices: Prices, onward: Prices) -> list[float]:
    return [price + rest for price, rest in zip(prices, onward, strict=True)]


def _reach(prices: Prices) -> list[float]:
    """What a layer costs from each place: do it there, or first go to where it is cheapest."""
    elsewhere = 1 + min(prices)
    return [min(price, elsewhere) for price in prices]


@lru_cache(maxsize=1 << 16)
def _menu(look: bool, place: Place) -> Menu:
    """Prices when any goal receptacle will do. Doors of goal receptacles are paid for when placing."""
    return _make_menu(place, _lamp_price(place) if look else _placing_price(place), lambda code: not code & GOAL)


@lru_cache(maxsize=1 << 16)
def _menu_with_target(place: Place, target: int) -> Menu:
    """Prices at the place of the goal receptacle chosen; what lies done in it is no source."""
    code = place[target]
    left = code % DONE
    sources = (*place[:target], left, *place[target + 1 :])
    return _make_menu(sources, _placing_price((code,)), lambda other: other != left)


@lru_cache(maxsize=1 << 16)
def _menu_without_target(place: Place) -> Menu:
    """Prices at all other places."""
    return _make_menu(place, math.inf, lambda code: True)


def _make_menu(place: Place, finish: float, pays: Callable[[Code], bool]) -> Menu:
    def door(code: Code) -> int:
        return not code & OPEN and pays(code)

    return Menu(
        drop=_cheapest(1 + (code < OBJECTS and door(code)) for code in place if code & HOLDS_OTHER),
        swap=_cheapest(1 + (code < OBJECTS and door(code)) for code in place if code & HOLDS),
        take_plain=_cheapest(1 + door(code) for code in place if count_of(code, PLAIN) or _plain_tags(code)),
        take_done=_cheapest(1 + door(code) for code in place if count_of(code, DONE) or _done_tags(code)),
        treat=_cheapest(1 for code in place if code & STATION),
        finish=finish,
    )


def _cheapest(prices: Iterable[float]) -> float:
    return min(prices, default=math.inf)


def _lamp_price(place: Place) -> float:
    return _cheapest(not code & LIT for code in place if code & LAMP)


def _placing_price(place: Place) -> float:
    return _cheapest(1 + (not code & OPEN) for code in place if code & GOAL and code & HOLDS)


def _bound_for_two(hand: int, places: Sequence[Place]) -> float:
    """The least bound over the goal receptacles; of equal places elsewhere, one will do."""
    return _cheapest(
        _bound_for_target(hand, places, position, index)
        for position in (0, *{place: position for position, place in enumerate(places) if position}.values())
        for index, code in enumerate(places[position])
        if code & GOAL
    )


def _bound_for_target(hand: int, places: Sequence[Place], position: int, index: int) -> float:
    """The bound if both objects are to be in receptacle `index` of place `position`."""
    code = places[position][index]
    missing = 2 - placed(code)
    if missing > _movable(hand, places) - count_of(code, DONE):
        return math.inf
    menus = [_menu_without_target(place) for place in places]
    menus[position] = _menu_with_target(places[position], index)
    if hand >= HAND_TAGGED and code // TAGGED >> (hand - HAND_TAGGED & ~1) & 1:
        first = 1 + _through_layers(EMPTY, menus)  # the held object counts there already
    else:
        first = _through_layers(_untagged(hand), menus)
    return first if missing == 1 else first + _second_trip(places, position)


def _movable(hand: int, places: Sequence[Place]) -> int:
    """How many objects could be moved; tagged ones count once for each place they are in."""
    return (hand >= HAND_PLAIN) + sum(
        _count(code) + _plain_tags(code).bit_count() + _done_tags(code).bit_count()
        for place in places
        for code in place
        if code >= OBJECTS
    )


def _second_trip(places: Sequence[Place], position: int) -> float:
    """Fetching another object and coming back, once the first one has been placed.

    Were the second object brought nearer before, that would have taken the two turns that it saves.
    """
    return _cheapest(_fetch(place) + 2 * (other != position) for other, place in enumerate(places))


@lru_cache(maxsize=1 << 16)
def _fetch(place: Place) -> float:
    """Taking and placing; a door is paid for where the first trip cannot have opened it."""
    return _cheapest(
        2 + (not code & OPEN and code < TAGGED and _count(code) == 1)
        for code in place
        if _count(code) or code >= TAGGED
    )


def _count(code: Code) -> int:
    return count_of(code, PLAIN) + count_of(code, DONE)


def _plain_tags(code: Code) -> int:
    """Bit 2 t is set for each tagged object t here that has to be treated."""
    tags = code // TAGGED
    return tags & ~(tags >> 1) & _TAG_BITS


def _done_tags(code: Code) -> int:
    tags = code // TAGGED
    return tags & tags >> 1 & _TAG_BITS


_TAG_BITS = (4**64 - 1) // 3
"""Every second bit, for 64 tags."""
