"""Draws ALFWorld games that need no data: rooms, objects and tasks as in the real training games, from a seed.

A generated game is a row as the real ones are packed, with a PDDL problem of the same domain. It can always be solved:
the object asked for lies in a receptacle other than the one it belongs to, and the appliance it needs is in the room.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from pivotopd_jax.envs.alfworld import affordances, problem_text
from pivotopd_jax.envs.alfworld.games import KINDS
from pivotopd_jax.envs.alfworld.problem_text import Item, Receptacle
from pivotopd_jax.envs.alfworld.rooms import GOALS, NOWHERE, ROOMS

SPLITS = ("train", "valid", "test")
"""Splits of generated games. A tenth of all (goal, room) pairs belongs to each held-out split, and to it alone."""

SMALLEST = 3
"""Receptacles a game may need: where the object is, where it is cleaned, heated or cooled, where it goes."""

_LAMP = "DeskLamp"
_ON_TOP = 0.3  # share of games whose goal objects come on top of what the room has anyway, as the real games suggest
_CROWDED = 200  # failed tries to place another object, after which the room counts as full


def generate_game(
    seed: int,
    *,
    kind: str | None = None,
    receptacles: int | None = None,
    distractors: int | None = None,
    split: str = "train",
) -> dict[str, Any]:
    """Draws one game. The same arguments give the same game in every process.

    Args:
        seed: any integer; other seeds give other games.
        kind: one of `games.KINDS`; None draws it as often as it occurs among the real training games.
        receptacles: number of receptacles in the room, at least `SMALLEST`; None: as in real rooms (6 to 54).
        distractors: number of objects that can be picked up, beyond those the goal needs (fewer only where the room
            cannot hold more); None: as in real rooms.
        split: one of `SPLITS`. A combination of goal and receptacles occurs in one split only.

    Returns:
        A row {id, task_desc, walkthrough, pddl_problem} as `games.load_packed` gives; `walkthrough` is empty.

    Raises:
        ValueError: an argument out of range.
    """
    _check(kind, receptacles, distractors, split)
    name = f"alfworld game {split} {seed} {kind} {receptacles} {distractors}"
    random, draft = next(
        (random, draft)
        for random in (Random(f"{name} {attempt}") for attempt in itertools.count())
        if _split_of(draft := _draft(random, kind, receptacles)) == split
    )
    _furnish(random, draft, distractors, whole=receptacles is None and distractors is None)
    return _row(random, draft, f"gen_{split}_{seed}")


def _check(kind: str | None, receptacles: int | None, distractors: int | None, split: str) -> None:
    if kind is not None and kind not in KINDS:
        raise ValueError(f"unknown task type {kind!r}; expected one of {', '.join(KINDS)}")
    if split not in SPLITS:
        raise ValueError(f"generated games have no split {split!r}; expected one of {', '.join(SPLITS)}")
    check_size(receptacles, distractors)


def check_size(receptacles: int | None, distractors: int | None) -> None:
    """Makes sure that a room of that size can hold a game.

    Raises:
        ValueError: too small.
    """
    if receptacles is not None and receptacles < SMALLEST:
        raise ValueError(f"receptacles={receptacles}: a room needs at least {SMALLEST}")
    if distractors is not None and distractors < 0:
        raise ValueError(f"distractors={distractors}: expected 0 or more, or None for as many as in real rooms")


@dataclass
class _Draft:
    """A room being furnished.

    Attributes:
        kind, room, thing, target: task type, kind of room, object type asked for, where it belongs (a receptacle type;
            for Look the lamp's type).
        receptacles: what is in the room.
        free: receptacle type -> indices of those with room for another object.
        items: what lies in it; the ones the goal needs come first.
        needed: indices of the receptacles the goal needs.
        kept: indices of the receptacles the room is reduced to in the end.
    """

    kind: str
    room: str
    thing: str
    target: str
    receptacles: list[Receptacle] = field(default_factory=list)
    free: dict[str, list[int]] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    needed: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)

    @property
    def goal_items(self) -> list[str]:
        """Types of the objects the goal needs."""
        count = 2 if self.kind == "pick_two_obj_and_place" else 1
        return [self.thing] * count + [_LAMP] * (self.target == _LAMP)

    @property
    def required(self) -> list[str]:
        """Receptacle types the goal needs."""
        appliance = affordances.APPLIANCE.get(self.kind)
        return [type for type in (self.target, appliance) if type not in (None, _LAMP)]

    def forbids(self, thing: str, receptacle: str) -> bool:
        """Whether no such object may lie in such a receptacle at the start, as it would be (half) done."""
        return thing == self.thing and receptacle == affordances.APPLIANCE.get(self.kind, self.target)

    def add_receptacle(self, random: Random, type: str) -> int:
        """Adds a receptacle, sometimes reached from the same place as an earlier one; returns its index."""
        index = len(self.receptacles)
        neighbour, share = affordances.NEIGHBOURS.get(type, ("", 0.0))
        beside = self.free.get(neighbour) if random.random() < share else None
        place = self.receptacles[beside[-1]].place if beside else index
        self.receptacles.append(Receptacle(type, place, random.random() < affordances.OPENABLE.get(type, 0.0)))
        self.free.setdefault(type, []).append(index)
        return index

    def add_item(self, random: Random, type: str, index: int | None) -> None:
        """Adds an object in a receptacle, and in those that count as holding it too; None: in none at all."""
        inside = [] if index is None else [index]
        if index is not None:
            self._fill(index)
            inside += self._also_in(random, type, self.receptacles[index].type)
        self.items.append(Item(type, tuple(inside)))

    def _fill(self, index: int) -> None:
        type = self.receptacles[index].type
        if type in affordances.HOLDS_ONE:
            self.free[type].remove(index)

    def _also_in(self, random: Random, thing: str, main: str) -> list[int]:
        left = random.random()
        for type, share in affordances.ALSO_IN.get((thing, main), ()):
            left -= share
            if left < 0:
                fits = self.free.get(type) and not self.forbids(thing, type)
                return [random.choice(self.free[type])] if fits else []
        return []


def _draft(random: Random, kind: str | None, receptacles: int | None) -> _Draft:
    """Goal, receptacles and the place of the objects the goal needs: all that decides which split the game is in."""
    draft = _choose_goal(random, kind)
    _add_receptacles(random, draft, receptacles or 0)
    _place_goal(random, draft)
    rest = [index for index in range(len(draft.receptacles)) if index not in draft.needed]
    wanted = len(draft.receptacles) if receptacles is None else receptacles
    draft.kept = {*draft.needed, *random.sample(rest, wanted - len(draft.needed))}
    return draft


def _split_of(draft: _Draft) -> str:
    """The split a game belongs to: decided by its goal and its receptacles, whatever else is in the room."""
    types = sorted(draft.receptacles[index].type for index in draft.kept)
    text = " ".join([draft.kind, draft.thing, draft.target, *types])
    digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return {0: "valid", 1: "test"}.get(digest % 10, "train")


def _pick(random: Random, weights: dict[Any, int]) -> Any:
    return random.choices(list(weights), list(weights.values()))[0]


def _choose_goal(random: Random, kind: str | None) -> _Draft:
    shares = {pair: goals.share for pair, goals in GOALS.items() if kind in (None, pair[0])}
    chosen, room = _pick(random, shares)
    thing, target = _pick(random, _goal_pairs(chosen, room))
    return _Draft(chosen, room, thing, target)


@cache
def _goal_pairs(kind: str, room: str) -> dict[tuple[str, str], int]:
    """Weights of the pairs (object, target) that make sense."""
    goals = GOALS[kind, room]
    return {
        (thing, target): weight * target_weight
        for thing, weight in goals.objects.items()
        for target, target_weight in goals.targets.items()
        if target == _LAMP or thing in affordances.CAN_CONTAIN[target]
    }


def _add_receptacles(random: Random, draft: _Draft, at_least: int) -> None:
    table = ROOMS[draft.room].receptacles
    counts = {type: _pick(random, numbers) for type, numbers in table.items()}
    for type in draft.required:
        counts[type] = counts[type] or _pick(random, {n: weight for n, weight in table[type].items() if n})
    several = [type for type, numbers in table.items() if max(numbers) > 3]
    for _ in range(at_least - sum(counts.values())):
        counts[random.choice(several)] += 1
    for type, number in counts.items():
        for _ in range(number):
            draft.add_receptacle(random, type)


def _place_goal(random: Random, draft: _Draft) -> None:
    """Places the objects the goal needs and notes the receptacles it needs."""
    for thing in draft.goal_items:
        places = _places(draft, thing)
        places.pop(NOWHERE, None)
        index = random.choice(draft.free[_pick(random, places)]) if places else _build_place(random, draft, thing)
        draft.add_item(random, thing, index)
        draft.needed.add(index)
    draft.needed |= {random.choice(_of_type(draft, type)) for type in draft.required}


def _places(draft: _Draft, thing: str) -> dict[str, int]:
    """Weights of the receptacle types in which one more `thing` can lie in this room, and of `NOWHERE`."""
    return {
        type: weight
        for type, weight in ROOMS[draft.room].objects[thing].places.items()
        if type == NOWHERE or (draft.free.get(type) and not draft.forbids(thing, type))
    }


def _build_place(random: Random, draft: _Draft, thing: str) -> int:
    """Adds a receptacle that may hold `thing`, of the type in which it most often lies."""
    places = ROOMS[draft.room].objects[thing].places
    types = [type for type in places if type != NOWHERE and not draft.forbids(thing, type)]
    return draft.add_receptacle(random, max(types, key=lambda type: places[type]))


def _of_type(draft: _Draft, type: str) -> list[int]:
    return [index for index, receptacle in enumerate(draft.receptacles) if receptacle.type == type]


def _furnish(random: Random, draft: _Draft, distractors: int | None, whole: bool) -> None:
    """Adds everything the goal does not need, then drops what the room is not to have."""
    goal_items = len(draft.items)
    for thing in ROOMS[draft.room].objects:
        for _ in range(_number(random, draft, thing)):
            _add_other(random, draft, thing)
    if whole:
        return
    needed, others = draft.items[:goal_items], _kept_items(draft, draft.items[goal_items:])
    loose = [item for item in others if item.type not in affordances.FIXED]
    if distractors is not None:
        fixed = [item for item in others if item.type in affordances.FIXED]
        others = fixed + random.sample(loose, min(distractors, len(loose)))
    draft.items = _kept_items(draft, needed) + others
    for _ in range(0 if distractors is None else distractors - len(loose)):
        _add_distractor(random, draft)


def _number(random: Random, draft: _Draft, thing: str) -> int:
    """How many more of an object type to put into the room."""
    spread = ROOMS[draft.room].objects[thing]
    if random.random() * 100 >= spread.share:
        return 0
    number = random.choices(range(1, len(spread.counts) + 1), spread.counts)[0]
    if thing in draft.goal_items and random.random() < _ON_TOP:
        return number
    return max(0, number - draft.goal_items.count(thing))


def _add_other(random: Random, draft: _Draft, thing: str) -> bool:
    places = _places(draft, thing)
    if not places:
        return False
    type = _pick(random, places)
    draft.add_item(random, thing, None if type == NOWHERE else random.choice(draft.free[type]))
    return True


def _kept_items(draft: _Draft, items: list[Item]) -> list[Item]:
    kept = [Item(item.type, tuple(index for index in item.inside if index in draft.kept)) for item in items]
    return [item for item in kept if item.inside]


def _add_distractor(random: Random, draft: _Draft) -> None:
    """Adds one object that can be picked up, in a kept receptacle, unless there seems to be no room for any."""
    shares = {
        thing: spread.share for thing, spread in ROOMS[draft.room].objects.items() if thing not in affordances.FIXED
    }
    for _ in range(_CROWDED):
        if _add_other(random, draft, _pick(random, shares)):
            items = _kept_items(draft, [draft.items.pop()])
            if items:
                draft.items += items
                return


def _row(random: Random, draft: _Draft, name: str) -> dict[str, Any]:
    kept = sorted(draft.kept)
    position = {index: number for number, index in enumerate(kept)}
    items = [Item(item.type, tuple(position[index] for index in item.inside)) for item in draft.items]
    receptacles = [draft.receptacles[index] for index in kept]
    return {
        "id": f"{draft.kind}-{draft.thing}-None-{draft.target}-{ROOMS[draft.room].scene}/{name}",
        "task_desc": problem_text.sentence(random, draft.kind, draft.thing, draft.target),
        "walkthrough": [],
        "pddl_problem": problem_text.render(
            random, receptacles, items, name=name, kind=draft.kind, thing=draft.thing, target=draft.target
        ),
    }
