"""Shortest plans between canonical situations: the actions that can matter, a lower bound, and A*."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pivotopd_jax.envs.alfworld.bound import lower_bound
from pivotopd_jax.envs.alfworld.situation import (
    COUNT_LIMIT,
    DONE,
    EMPTY,
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
    Aim,
    Code,
    Place,
    Situation,
    changed_here,
    count_of,
    is_won,
    make_situation,
    moved,
    tag_bit,
)
from pivotopd_jax.envs.protocol import SearchLimit

VERBS = ("put", "treat", "take", "open", "go", "use")
"""Preference among shortest plans: hands first, stay before leaving, switch the lamp on last."""


class Edge(NamedTuple):
    """One action of a situation.

    Attributes:
        verb: "go", "open", "take", "put", "treat" (clean, heat or cool) or "use" (switch a lamp on).
        target: the place gone to, or else (code,) of the receptacle acted on.
        item: what the hand holds after a "take", 0 for other verbs.
        after: the situation it leads to.
    """

    verb: str
    target: Place
    item: int
    after: Situation


def edges(situation: Situation) -> Iterator[Edge]:
    """The actions that can be part of a shortest plan, interchangeable ones once."""
    _, here, elsewhere = situation
    for index, place in enumerate(elsewhere):
        if index == 0 or place != elsewhere[index - 1]:
            yield Edge("go", place, 0, moved(situation, index))
    for index, code in enumerate(here):
        if index == 0 or code != here[index - 1]:
            yield from _local_edges(situation, index, code)


def _local_edges(situation: Situation, index: int, code: Code) -> Iterator[Edge]:
    hand, here, _ = situation

    def edge(verb: str, hand: int, after: Code, item: int = 0) -> Edge:
        return Edge(verb, (code,), item, changed_here(situation, hand, (*here[:index], after, *here[index + 1 :])))

    if not code & OPEN:
        if code & (HOLDS | HOLDS_OTHER) or code >= OBJECTS:
            yield edge("open", hand, code | OPEN)
    elif hand == EMPTY:
        for item, rest in _takeable(code):
            yield edge("take", item, rest, item)
    elif hand == OTHER:
        if code & HOLDS_OTHER:
            yield Edge("put", (code,), 0, _without_other(situation))
    elif code & HOLDS:
        yield edge("put", EMPTY, _with_held(code, hand))
    if code & STATION and hand >= HAND_PLAIN and not hand & 1:
        yield Edge("treat", (code,), 0, _treated(situation))
    if code & LAMP and not code & LIT:
        yield edge("use", hand, code | LIT)


def _takeable(code: Code) -> Iterator[tuple[int, Code]]:
    """What can be taken out, and the code that is left."""
    if count_of(code, PLAIN):
        yield HAND_PLAIN, code - PLAIN
    if count_of(code, DONE):
        yield HAND_DONE, code - DONE
    tag = 0
    while code >= tag_bit(tag):
        bit = tag_bit(tag)
        if code & bit:
            yield HAND_TAGGED + 2 * tag + bool(code & 2 * bit), code & ~(3 * bit)
        tag += 1


def _with_held(code: Code, hand: int) -> Code:
    if hand >= HAND_TAGGED:
        bit = tag_bit((hand - HAND_TAGGED) // 2)
        return code | (3 * bit if hand & 1 else bit)
    kind = DONE if hand == HAND_DONE else PLAIN
    return code + kind if count_of(code, kind) < COUNT_LIMIT else code


def _without_other(situation: Situation) -> Situation:
    here, *elsewhere = ([code & ~HOLDS_OTHER for code in place] for place in (situation.here, *situation.elsewhere))
    return make_situation(EMPTY, here, elsewhere)


def _treated(situation: Situation) -> Situation:
    """The held object is done, wherever it counts."""
    if situation.hand < HAND_TAGGED:
        return situation._replace(hand=HAND_DONE)
    bit = tag_bit((situation.hand - HAND_TAGGED) // 2)
    here, *elsewhere = (
        [code | 2 * bit if code & bit else code for code in place] for place in (situation.here, *situation.elsewhere)
    )
    return make_situation(situation.hand + 1, here, elsewhere)


class Distances:
    """Turns to go and best actions, remembered per situation.

    Args:
        budget: situations that one search may expand.
        capacity: situations to remember; beyond it all are forgotten.
    """

    def __init__(self, budget: int = 100_000, capacity: int = 200_000) -> None:
        self._budget = budget
        self._capacity = capacity
        self._known: dict[Aim, dict[Situation, float]] = {}
        self._best: dict[tuple[Aim, Situation], Sequence[Edge]] = {}

    def __call__(self, aim: Aim, situation: Situation) -> float:
        """Least number of turns from `situation` to the goal, inf if it cannot be reached.

        Raises:
            SearchLimit: the budget ran out first.
        """
        known = self._known.setdefault(aim, {})
        if situation not in known:
            if len(known) >= self._capacity:
                known.clear()
            _remember(known, *_search(aim, situation, known, self._budget))
        return known[situation]

    def best_edges(self, aim: Aim, situation: Situation) -> Sequence[Edge]:
        """The first actions of shortest plans, all of one verb: the first of `VERBS` that any such plan starts with.

        Empty where the goal holds or cannot be reached.

        Raises:
            SearchLimit: the budget ran out first.
        """
        if (aim, situation) not in self._best:
            if len(self._best) >= self._capacity:
                self._best.clear()
            self._best[aim, situation] = self._find_best(aim, situation)
        return self._best[aim, situation]

    def _find_best(self, aim: Aim, situation: Situation) -> Sequence[Edge]:
        rest = self(aim, situation) - 1
        if rest < 0 or rest == math.inf:
            return ()
        ways = list(edges(situation))
        for verb in VERBS:
            best = [edge for edge in ways if edge.verb == verb and self._is(aim, edge.after, rest)]
            if best:
                return best
        raise AssertionError(f"no action leads on from {situation}")

    def _is(self, aim: Aim, situation: Situation, distance: float) -> bool:
        return lower_bound(aim, situation) <= distance and self(aim, situation) == distance


def _remember(known: dict[Situation, float], length: float, situations: Iterable[Situation]) -> None:
    for turn, situation in enumerate(situations):
        known[situation] = length - turn


def _search(
    aim: Aim, start: Situation, known: Mapping[Situation, float], budget: int
) -> tuple[float, Iterable[Situation]]:
    """A*: the distance and the situations on one shortest path, or inf and all situations that were reached.

    A situation in `known` has a perfect bound, so that the search ends where it takes one from the queue.
    """
    queue = _Queue(aim, known)
    queue.push(start, 0)
    turns = {start: 0}
    parents: dict[Situation, Situation] = {}
    expanded = 0
    while (found := queue.pop()) is not None:
        situation, so_far = found
        if so_far > turns[situation]:
            continue
        rest = 0.0 if is_won(aim, situation) else known.get(situation)
        if rest is not None:
            return so_far + rest, _path(parents, situation)
        if expanded == budget:
            raise SearchLimit(f"no shortest plan among {budget} situations; give the planner a larger budget")
        expanded += 1
        for edge in edges(situation):
            if so_far + 1 < turns.get(edge.after, math.inf):
                turns[edge.after] = so_far + 1
                parents[edge.after] = situation
                queue.push(edge.after, so_far + 1)
    return math.inf, turns


def _path(parents: Mapping[Situation, Situation], last: Situation) -> list[Situation]:
    path = [last]
    while path[-1] in parents:
        path.append(parents[path[-1]])
    return path[::-1]


class _Queue:
    """Situations by estimated total length; of equal ones, the last that came in goes out first."""

    def __init__(self, aim: Aim, known: Mapping[Situation, float]) -> None:
        self._aim = aim
        self._known = known
        self._buckets: dict[float, list[tuple[Situation, int]]] = {}

    def push(self, situation: Situation, turns: int) -> None:
        rest = self._known.get(situation)
        if rest is None:
            rest = lower_bound(self._aim, situation)
        if rest < math.inf:
            self._buckets.setdefault(turns + rest, []).append((situation, turns))

    def pop(self) -> tuple[Situation, int] | None:
        while self._buckets:
            estimate = min(self._buckets)
            bucket = self._buckets[estimate]
            if bucket:
                return bucket.pop()
            del self._buckets[estimate]
        return None
