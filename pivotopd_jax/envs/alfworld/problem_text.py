"""Writes a furnished room and a goal as an ALFRED planning problem, in the form of the released ALFWorld games."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from pivotopd_jax.envs.alfworld import affordances


@dataclass(frozen=True)
class Receptacle:
    """A receptacle: its type, the place it is reached from (receptacles with equal numbers share one), if it opens."""

    type: str
    place: int
    openable: bool


@dataclass(frozen=True)
class Item:
    """An object: its type and the indices of the receptacles that hold it (mostly one; none: it is never seen)."""

    type: str
    inside: tuple[int, ...]


_SENTENCES = {
    "pick_and_place_simple": ("put a {thing} in {target}.", "put some {thing} on {target}."),
    "look_at_obj_in_light": ("look at {thing} under the {target}.", "examine the {thing} with the {target}."),
    "pick_clean_then_place_in_recep": (
        "put a clean {thing} in {target}.",
        "clean some {thing} and put it in {target}.",
    ),
    "pick_heat_then_place_in_recep": ("put a hot {thing} in {target}.", "heat some {thing} and put it in {target}."),
    "pick_cool_then_place_in_recep": ("put a cool {thing} in {target}.", "cool some {thing} and put it in {target}."),
    "pick_two_obj_and_place": ("put two {thing} in {target}.", "find two {thing} and put them in {target}."),
}


def sentence(random: Random, kind: str, thing: str, target: str) -> str:
    """The task in words: each task type has two templates, equally frequent in the released games."""
    return random.choice(_SENTENCES[kind]).format(thing=thing.lower(), target=target.lower())


_PLACED = """(and
    (exists (?r - receptacle)
        (exists (?o - object)
            (and
                ({ability} ?o)
                (objectType ?o {thing}Type)
                (receptacleType ?r {target}Type)
                ({property} ?o)
                (inReceptacle ?o ?r)))))"""
_GOALS = {
    "pick_and_place_simple": """(and
    (exists (?r - receptacle)
        (exists (?o - object)
            (and
                (inReceptacle ?o ?r)
                (objectType ?o {thing}Type)
                (receptacleType ?r {target}Type)))))""",
    "look_at_obj_in_light": """(and
    (exists (?ot - object ?r - receptacle ?a - agent ?l - location)
        (and
            (objectType ?ot {target}Type)
            (toggleable ?ot)
            (isToggled ?ot)
            (receptacleAtLocation ?r ?l)
            (atLocation ?a ?l)
            (inReceptacle ?ot ?r)))
    (exists (?o - object ?a - agent)
        (and
            (objectType ?o {thing}Type)
            (holds ?a ?o))))""",
    "pick_clean_then_place_in_recep": _PLACED.replace("{ability}", "cleanable").replace("{property}", "isClean"),
    "pick_heat_then_place_in_recep": _PLACED.replace("{ability}", "heatable").replace("{property}", "isHot"),
    "pick_cool_then_place_in_recep": _PLACED.replace("{ability}", "coolable").replace("{property}", "isCool"),
    "pick_two_obj_and_place": """(and
    (exists (?r - receptacle)
        (exists (?o1 - object)
            (and
                (objectType ?o1 {thing}Type)
                (receptacleType ?r {target}Type)
                (inReceptacle ?o1 ?r)
                (exists (?o2 - object)
                    (and
                        (not (= ?o1 ?o2))
                        (objectType ?o2 {thing}Type)
                        (receptacleType ?r {target}Type)
                        (inReceptacle ?o2 ?r)))))))""",
}

_PROBLEM = """
(define (problem plan_{name})
(:domain alfred)
(:objects
agent1 - agent
        {declarations}
        )

(:init
        {facts}
        )

(:goal
{goal}
)
)
"""


def render(
    random: Random,
    receptacles: Sequence[Receptacle],
    items: Sequence[Item],
    *,
    name: str,
    kind: str,
    thing: str,
    target: str,
) -> str:
    """The PDDL problem of a room.

    Args:
        random: draws the coordinates that ids are made of, and so the numbers that things get.
        receptacles: what is in the room, everything closed.
        items: what lies in it; objects of type `thing` in the fridge are cold, as in the released games.
        name: name of the problem.
        kind, thing, target: the goal; see `generator.generate_game`.
    """
    ids = _Ids(random)
    receptacle_ids = [ids.receptacle(receptacle.type) for receptacle in receptacles]
    item_ids = [ids.item(item.type, item.inside) for item in items]
    places = ids.places({receptacle.place for receptacle in receptacles})
    start = ids.place()
    facts = [
        *_receptacle_facts(receptacles, receptacle_ids, places),
        *_rules(receptacles, items),
        *_item_facts(receptacles, receptacle_ids, items, item_ids, places),
        *(f"(isCool {id})" for item, id in zip(items, item_ids, strict=True) if _is_cool(item, receptacles, thing)),
        f"(atLocation agent1 {start})",
    ]
    declarations = [
        *_types(receptacles, items, thing, target),
        *(f"{id} - object" for id in item_ids),
        *(f"{id} - receptacle" for id in receptacle_ids),
        *(f"{id} - location" for id in [*places.values(), start]),
    ]
    goal = _GOALS[kind].replace("{thing}", thing).replace("{target}", target)
    return _PROBLEM.format(name=name, declarations=_lines(declarations), facts=_lines(facts), goal=goal)


def _lines(entries: Iterable[str]) -> str:
    return "\n        ".join(entries)


def _is_cool(item: Item, receptacles: Sequence[Receptacle], thing: str) -> bool:
    return item.type == thing and any(receptacles[index].type == affordances.FRIDGE for index in item.inside)


def _types(receptacles: Sequence[Receptacle], items: Sequence[Item], thing: str, target: str) -> Iterable[str]:
    objects = {item.type for item in items} | {thing}
    kinds = {receptacle.type for receptacle in receptacles} | {"SinkBasin", "Sink", "Microwave", "Fridge"}
    # Actions of the domain name these types as constants, whether or not such things are in the room.
    yield from (f"{type}Type - otype" for type in sorted(objects | {"Knife", "ButterKnife"}))
    yield from (f"{type}Type - rtype" for type in sorted(kinds))


def _receptacle_facts(receptacles: Sequence[Receptacle], ids: Sequence[str], places: dict[int, str]) -> Iterable[str]:
    for receptacle, id in zip(receptacles, ids, strict=True):
        yield f"(receptacleType {id} {receptacle.type}Type)"
        yield f"(receptacleAtLocation {id} {places[receptacle.place]})"
        if receptacle.openable:
            yield f"(openable {id})"


def _rules(receptacles: Sequence[Receptacle], items: Sequence[Item]) -> Iterable[str]:
    """What goes into what, for the types in this room."""
    things = sorted({item.type for item in items})
    for type in sorted({receptacle.type for receptacle in receptacles}):
        takes = affordances.CAN_CONTAIN.get(type, frozenset())
        yield from (f"(canContain {type}Type {thing}Type)" for thing in things if thing in takes)


def _item_facts(
    receptacles: Sequence[Receptacle],
    receptacle_ids: Sequence[str],
    items: Sequence[Item],
    item_ids: Sequence[str],
    places: dict[int, str],
) -> Iterable[str]:
    for item, id in zip(items, item_ids, strict=True):
        yield f"(objectType {id} {item.type}Type)"
        if item.type not in affordances.FIXED:
            yield f"(pickupable {id})"
        yield from (f"({name} {id})" for name, types in affordances.PROPERTIES.items() if item.type in types)
        yield from (f"(inReceptacle {id} {receptacle_ids[index]})" for index in item.inside)
        if item.inside:
            yield f"(objectAtLocation {id} {places[receptacles[item.inside[0]].place]})"


class _Ids:
    """Draws ids made of a type and coordinates in metres, such as Mug_bar__plus_01_dot_25_bar_..., each once."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._used: set[tuple[str, ...]] = set()
        self._positions: list[tuple[int, int, int]] = []

    def receptacle(self, type: str) -> str:
        """The id of a receptacle somewhere in the room; basins are named as parts of the thing they belong to."""
        position = self._draw(type, (0, 100, 0), (400, 100, 400))
        self._positions.append(position)
        if type.endswith("Basin"):
            return f"{type.removesuffix('Basin')}{_coordinates(position)}_bar_{type}"
        return type + _coordinates(position)

    def item(self, type: str, inside: Sequence[int]) -> str:
        """The id of an object near the receptacle that holds it."""
        centre = self._positions[inside[0]] if inside else (0, 100, 0)
        return type + _coordinates(self._draw(type, centre, (30, 20, 30)))

    def places(self, numbers: Iterable[int]) -> dict[int, str]:
        """Ids of places to stand at, by number."""
        return {number: self.place() for number in sorted(numbers)}

    def place(self) -> str:
        """The id of another place to stand at."""
        x, y, z = self._draw("loc", (0, 0, 0), (20, 0, 20))
        turn = self._random.randrange(4)
        return f"loc_bar_{_signed_integer(x)}_bar_{_signed_integer(z)}_bar_{turn}_bar_{30 + y}"

    def _draw(self, type: str, centre: tuple[int, int, int], spread: tuple[int, int, int]) -> tuple[int, int, int]:
        while True:
            x, y, z = (
                middle + self._random.randint(-width, width) for middle, width in zip(centre, spread, strict=True)
            )
            key = (type, f"{x} {y} {z}")
            if key not in self._used:
                self._used.add(key)
                return x, y, z


def _coordinates(position: tuple[int, int, int]) -> str:
    return "".join(f"_bar_{_signed(hundredths)}" for hundredths in position)


def _signed(hundredths: int) -> str:
    sign = "minus" if hundredths < 0 else "plus"
    return f"_{sign}_{abs(hundredths) // 100:02d}_dot_{abs(hundredths) % 100:02d}"


def _signed_integer(value: int) -> str:
    return f"_minus_{-value}" if value < 0 else str(value)
