"""Reads the text of an ALFRED problem: its facts, the names the engine gives things, and its goal.

The problems are machine-written and flat, so regular expressions read them exactly and in milliseconds; whatever does
not fit raises.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, NamedTuple


class GameError(ValueError):
    """A broken or unknown game file: says which, what was expected and what to do."""


class GoalText(NamedTuple):
    """A goal as written: the form it has (a task type) and the types it names.

    Attributes:
        kind: task type the form belongs to.
        object_type, receptacle_type, lamp_type: types named, lower case, without "Type"; "" where the form has none.
        count: how many objects are wanted.
        property: what must have been done to the object.
        ability: predicate the object must satisfy for it.
    """

    kind: str
    object_type: str
    receptacle_type: str = ""
    lamp_type: str = ""
    count: int = 1
    property: Literal["clean", "hot", "cool"] | None = None
    ability: str | None = None


_PLACED = (
    "(and (exists (?r - receptacle) (exists (?o - object) "
    "(and {}(objecttype ?o OBJECT) (receptacletype ?r RECEPTACLE) {}))))"
)
_IN = "(inreceptacle ?o ?r)"
_FORMS: dict[str, tuple[str, Literal["clean", "hot", "cool"] | None, str | None]] = {
    "pick_and_place_simple": (
        "(and (exists (?r - receptacle) (exists (?o - object) (and (inreceptacle ?o ?r) "
        "(objecttype ?o OBJECT) (receptacletype ?r RECEPTACLE)))))",
        None,
        None,
    ),
    "pick_clean_then_place_in_recep": (_PLACED.format("(cleanable ?o) ", "(isclean ?o) " + _IN), "clean", "cleanable"),
    "pick_heat_then_place_in_recep": (_PLACED.format("(heatable ?o) ", "(ishot ?o) " + _IN), "hot", "heatable"),
    "pick_cool_then_place_in_recep": (_PLACED.format("(coolable ?o) ", "(iscool ?o) " + _IN), "cool", "coolable"),
    "pick_two_obj_and_place": (
        "(and (exists (?r - receptacle) (exists (?o1 - object) (and (objecttype ?o1 OBJECT) "
        "(receptacletype ?r RECEPTACLE) (inreceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2)) "
        "(objecttype ?o2 OBJECT) (receptacletype ?r RECEPTACLE) (inreceptacle ?o2 ?r)))))))",
        None,
        None,
    ),
    "look_at_obj_in_light": (
        "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objecttype ?ot LAMP) "
        "(toggleable ?ot) (istoggled ?ot) (receptacleatlocation ?r ?l) (atlocation ?a ?l) (inreceptacle ?ot ?r))) "
        "(exists (?o - object ?a - agent) (and (objecttype ?o OBJECT) (holds ?a ?o))))",
        None,
        None,
    ),
}


def _tokens(text: str) -> str:
    return " ".join(re.findall(r"[()]|[^\s()]+", text))


def _pattern(form: str) -> re.Pattern[str]:
    """The form as a pattern over its tokens; a type named twice must be the same type."""
    pattern = re.escape(_tokens(form))
    for name in ("object", "receptacle", "lamp"):
        pattern = pattern.replace(name.upper(), rf"(?P<{name}>\w+?)type", 1).replace(name.upper(), rf"(?P={name})type")
    return re.compile(pattern)


_PATTERNS = {kind: _pattern(form) for kind, (form, _, _) in _FORMS.items()}


def read_goal(text: str, id: str) -> GoalText:
    """Reads a goal condition.

    Args:
        text: the condition inside `(:goal ...)`, lower case.
        id: name of the game, for messages.

    Raises:
        GameError: the condition has none of the six forms of ALFRED's task types.
    """
    tokens = _tokens(text)
    for kind, pattern in _PATTERNS.items():
        match = pattern.fullmatch(tokens)
        if match is not None:
            types = {f"{name}_type": value for name, value in match.groupdict().items()}
            _, goal_property, ability = _FORMS[kind]
            count = 2 if kind == "pick_two_obj_and_place" else 1
            return GoalText(kind, **types, count=count, property=goal_property, ability=ability)
    raise GameError(
        f"game {id!r}: the goal has none of the forms of the six ALFWorld task types: {tokens[:400]}; "
        "games with movable receptacles or sliced objects are not part of ALFWorld and must be left out"
    )


# How many arguments the facts have that actions, goals or sentences read; then the facts that nothing reads.
_ARITY = {
    **dict.fromkeys(("openable", "opened", "isreceptacleobject", "pickupable", "cleanable", "heatable", "coolable"), 1),
    **dict.fromkeys(("toggleable", "sliceable", "isclean", "ishot", "iscool", "istoggled", "issliced"), 1),
    **dict.fromkeys(("atlocation", "receptacleatlocation", "objectatlocation", "inreceptacle"), 2),
    **dict.fromkeys(("inreceptacleobject", "receptacletype", "objecttype", "cancontain"), 2),
}
_FACT = re.compile(r"\(\s*([^()\s]+)\s+([^()\s]+)(?:\s+([^()\s]+))?\s*\)")
_IGNORED = {"full", "moveable", "isreceptacleobjectfull", "ison", "wasinreceptacle", "checked", "examined"}


class Problem:
    """The facts of a problem over numbered objects, receptacles and places.

    Attributes:
        id: name of the game, for messages.
        goal: the goal condition's text, lower case.
        objects, receptacles, places: id -> index, in the order of the ids.
        names: id -> the name commands and sentences use.
        location: receptacle id -> location id.
        object_types, receptacle_types: types by index, lower case, without "Type".
        can_contain: the pairs (receptacle type, object type), sorted.
        located: pairs (object, place), for places that have a receptacle.
        start: the player's place; -1 when no receptacle is there.
    """

    def __init__(self, id: str, declared: Mapping[str, str], init: str, goal: str) -> None:
        self.id = id
        self.goal = goal
        self._facts = self._read(init)
        used = sorted({word for rows in self._facts.values() for word in chain.from_iterable(rows) if "_bar_" in word})
        self.names = _names(used)
        self.objects = _numbered(word for word in used if declared.get(word) == "object")
        self.receptacles = _numbered(word for word in used if declared.get(word) == "receptacle")
        self.location = {a: b for a, b in self._rows("receptacleatlocation")}
        self.places = _numbered(sorted(set(self.location.values())))
        self.object_types = self._types("objecttype", self.objects)
        self.receptacle_types = self._types("receptacletype", self.receptacles)
        self.can_contain = [(_bare(a), _bare(b)) for a, b in sorted(set(self._rows("cancontain")))]
        self.located = self._located()
        self.start = self._start()
        self._check_locations()

    def object_mask(self, predicate: str) -> int:
        """Mask of the objects with a unary fact."""
        return self._mask(predicate, self.objects)

    def receptacle_mask(self, predicate: str) -> int:
        """Mask of the receptacles with a unary fact."""
        return self._mask(predicate, self.receptacles)

    def pairs(self, predicate: str, first: Mapping[str, int], second: Mapping[str, int]) -> Iterator[tuple[int, int]]:
        """Index pairs of a binary fact over `first` x `second`."""
        for a, b in self._rows(predicate):
            yield self._index(a, first, predicate), self._index(b, second, predicate)

    def _read(self, init: str) -> dict[str, list[tuple[str, str]]]:
        """Facts by predicate; the second argument of a unary one is ""."""
        if "(=" in init:
            init = re.sub(r"\(=\s*\([^()]*\)[^()]*\)", "", init)  # costs and distances, which no turn depends on
        facts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        found = _FACT.findall(init)
        if len(found) != init.count("("):
            raise GameError(
                f"game {self.id!r}: :init is not a list of facts of one or two arguments; the file is broken"
            )
        for predicate, first, second in found:
            facts[predicate].append((first, second))
        self._check_facts(facts)
        return facts

    def _check_facts(self, facts: Mapping[str, list[tuple[str, str]]]) -> None:
        unknown = facts.keys() - _ARITY.keys() - _IGNORED
        if unknown:
            raise GameError(
                f"game {self.id!r}: :init has facts this engine does not play by: {', '.join(sorted(unknown))}; "
                "use the official engine for this game"
            )
        for predicate in facts.keys() - _IGNORED:
            wrong = [row for row in facts[predicate] if bool(row[1]) != (_ARITY[predicate] == 2)]
            if wrong:
                fact = f"({predicate} {' '.join(wrong[0]).strip()})"
                raise GameError(f"game {self.id!r}: expected {_ARITY[predicate]} argument(s) in the fact {fact}")

    def _rows(self, predicate: str) -> list[tuple[str, str]]:
        return self._facts.get(predicate, [])

    def _index(self, word: str, index: Mapping[str, int], predicate: str) -> int:
        if word not in index:
            raise GameError(
                f"game {self.id!r}: {word!r} in a fact ({predicate} ...) is not declared under :objects with the type "
                "the domain wants, or its id has no '_bar_'"
            )
        return index[word]

    def _mask(self, predicate: str, index: Mapping[str, int]) -> int:
        mask = 0
        for word, _ in self._rows(predicate):
            mask |= 1 << self._index(word, index, predicate)
        return mask

    def _types(self, predicate: str, index: Mapping[str, int]) -> tuple[str, ...]:
        types = [""] * len(index)
        for word, kind in self._rows(predicate):
            types[self._index(word, index, predicate)] = _bare(kind)
        return tuple(types)

    def _located(self) -> list[tuple[int, int]]:
        return [
            (self._index(thing, self.objects, "objectatlocation"), self.places[location])
            for thing, location in self._rows("objectatlocation")
            if location in self.places
        ]

    def _start(self) -> int:
        locations = self._rows("atlocation")
        if len(locations) != 1:
            raise GameError(f"game {self.id!r}: expected one fact (atLocation agent location), got {len(locations)}")
        return self.places.get(locations[0][1], -1)

    def _check_locations(self) -> None:
        if not self.receptacles:
            raise GameError(f"game {self.id!r}: no receptacles in :init; is this an ALFRED problem?")
        wrong = self.receptacles.keys() ^ self.location.keys()
        if wrong or len(self._rows("receptacleatlocation")) != len(self.location):
            raise GameError(
                f"game {self.id!r}: every receptacle needs exactly one receptacleAtLocation fact; "
                f"look at {', '.join(sorted(wrong)) or 'the repeated ones'}"
            )
        nameless = self.places.keys() - self.names.keys()
        if nameless:
            raise GameError(
                f"game {self.id!r}: the place {min(nameless)!r} has no '_bar_' in its id; the file is broken"
            )


def read_problem(text: str, id: str) -> Problem:
    """Reads a problem file.

    Args:
        text: PDDL.
        id: name of the game, for messages.

    Raises:
        GameError: not a problem of the domain `alfred`, or with facts that this engine does not play by.
    """
    text = text.lower()
    if ";" in text:
        text = re.sub(r";.*", "", text)
    objects, init, goal = _sections(text, id)
    return Problem(id, _declared(objects), init, goal)


def _sections(text: str, id: str) -> tuple[str, str, str]:
    """What stands inside :objects, :init and :goal. Found by plain search: a pattern over 40 kB costs a millisecond."""
    starts = [text.find(mark) for mark in ("(:objects", "(:init", "(:goal")]
    if -1 in starts or starts != sorted(starts) or not re.search(r"\(:domain\s+alfred\s*\)", text[: starts[0]]):
        raise GameError(
            f"game {id!r}: expected a PDDL problem of domain alfred with :objects, :init and :goal in this order"
        )
    objects, init, goal = text[starts[0] : starts[1]], text[starts[1] : starts[2]], text[starts[2] :]
    # The rest of the file closes :goal and the problem itself.
    goal = re.sub(r"\)\s*\)\s*$", "", goal.rstrip())
    return objects.rpartition(")")[0][len("(:objects") :], init[len("(:init") :], goal[len("(:goal") :]


def _declared(text: str) -> dict[str, str]:
    """Id -> type; a declaration is "id ... id - type"."""
    words = text.split()
    if set(words[1::3]) == {"-"} and len(words) % 3 == 0:
        return dict(zip(words[::3], words[2::3], strict=True))
    declared: dict[str, str] = {}
    pending: list[str] = []
    tokens = iter(words)
    for token in tokens:
        if token == "-":
            declared.update(dict.fromkeys(pending, next(tokens, "")))
            pending.clear()
        else:
            pending.append(token)
    return declared


def _numbered(words: Iterable[str]) -> dict[str, int]:
    return {word: number for number, word in enumerate(words)}


def _bare(kind: str) -> str:
    return kind.removesuffix("type")


def _names(ids: list[str]) -> dict[str, str]:
    """Names such as "mug 3". Numbers of a type count down: the first id in sorted order gets the highest."""
    types = {id: id.split("_bar_", 1)[0] + ("basin" if "basin" in id else "") for id in ids}
    left = Counter(types.values())
    names = {}
    for id in ids:
        names[id] = f"{types[id]} {left[types[id]]}"
        left[types[id]] -= 1
    return names
