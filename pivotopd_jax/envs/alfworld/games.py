"""ALFWorld games: what a PDDL problem file says, as bit masks, and the state it starts in.

Receptacles and objects are numbered in the order of their lower-cased ids, and every set of them is a Python int with
one bit per index. Facts that no action of the domain reads (`full`, `moveable`, ...) are dropped.
"""

from __future__ import annotations

import gzip
import lzma
import weakref
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pivotopd_jax.envs.alfworld.pddl import GameError, GoalText, Problem, read_goal, read_problem
from pivotopd_jax.envs.alfworld.releases import Wording, check_domain, read_grammar
from pivotopd_jax.files import parse_json

KINDS = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The six task types, in the order of the papers' columns Pick, Look, Clean, Heat, Cool, Pick2."""


class State(NamedTuple):
    """Everything that can change in a game, immutable.

    Attributes:
        place: index of the player's place; -1 before the first move.
        holding: index of the held object; -1 with empty hands.
        opened: mask of opened receptacles.
        contents: receptacle -> mask of the objects in it. One object can be in two receptacles.
        clean, hot, cool, toggled, sliced: masks of objects.
        observed: mask of the receptacles whose contents the player has been shown so far.
        located: place -> mask of the objects said to be at that place. Not derivable from `contents`: the problem
            files disagree about some objects. Decides what can be sliced and what lies "next to" a receptacle.
        removed: receptacle -> mask of the objects taken out of it and not put back since.
    """

    place: int
    holding: int
    opened: int
    contents: tuple[int, ...]
    clean: int
    hot: int
    cool: int
    toggled: int
    sliced: int
    observed: int
    located: tuple[int, ...]
    removed: tuple[int, ...]


@dataclass(frozen=True)
class Goal:
    """When a game is won.

    Pick, Clean, Heat, Cool, Pick2: some receptacle of `receptacles` holds at least `count` of `objects`, each with
    `property`. Look: one of `objects` is held and a toggled lamp of `lamps` is in a receptacle at the player's place.

    Attributes:
        objects: mask of the objects of the goal type (that can have `property`, where there is one).
        receptacles: mask of the receptacles of the goal type; 0 for Look.
        count: how many objects are needed, 1 or 2.
        property: what must have been done to the object.
        lamps: mask of toggleable objects of the lamp type; 0 but for Look.
    """

    objects: int
    receptacles: int
    count: int = 1
    property: Literal["clean", "hot", "cool"] | None = None
    lamps: int = 0


@dataclass(frozen=True, eq=False)
class Game:
    """One game, without anything that changes during play. Compared by identity.

    `parse_game` returns the same object for the same content as long as it is alive, and so does unpickling.

    Attributes:
        id: unique name, "task/trial" for the released games.
        kind: one of `KINDS`.
        description: the task in words.
        object_names, receptacle_names, place_names: what commands and sentences call them ("mug 3", "loc 4").
        object_types, receptacle_types: PDDL types, lower case, without the suffix "Type" ("mug", "countertop").
        place: receptacle -> index of its place.
        at_place: place -> mask of the receptacles there.
        openable, sinks, microwaves, fridges: masks of receptacles. Not every receptacle that opens in life is openable.
        pickupable, cleanable, heatable, coolable, toggleable, sliceable, knives, receptacle_objects: masks of objects.
        accepts: receptacle -> mask of the objects that may be put there.
        inside: object -> mask of the objects inside it (a spoon in a mug); no action changes it.
        goal: when the game is won.
        initial: the state it starts in.
        wording: which release's sentences and commands it uses.
        cache: tables that engine and planner derive from the game; not pickled, not compared.
    """

    id: str
    kind: str
    description: str
    object_names: tuple[str, ...]
    receptacle_names: tuple[str, ...]
    place_names: tuple[str, ...]
    object_types: tuple[str, ...]
    receptacle_types: tuple[str, ...]
    place: tuple[int, ...]
    at_place: tuple[int, ...]
    openable: int
    sinks: int
    microwaves: int
    fridges: int
    pickupable: int
    cleanable: int
    heatable: int
    coolable: int
    toggleable: int
    sliceable: int
    knives: int
    receptacle_objects: int
    accepts: tuple[int, ...]
    inside: tuple[int, ...]
    goal: Goal
    initial: State
    wording: Wording
    cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        _unique(self)
        return _unpickle, (_content(self),)


def parse_game(problem: str, *, id: str, kind: str, description: str, wording: Wording = "move") -> Game:
    """Reads one PDDL problem of the ALFRED domain.

    Args:
        problem: text of the problem file.
        id: name used in messages and as `Game.id`.
        kind: one of `KINDS`; must agree with the goal's form.
        description: the task sentence shown to the player.
        wording: which release's sentences to use.

    Raises:
        GameError: the text is not a problem of the ALFRED domain, or its goal has none of the six known forms.
    """
    if kind not in KINDS:
        raise GameError(f"game {id!r}: unknown task type {kind!r}; expected one of {', '.join(KINDS)}")
    if wording not in ("move", "put"):
        raise GameError(f"game {id!r}: unknown wording {wording!r}; expected 'move' or 'put'")
    facts = read_problem(problem, id)
    goal = read_goal(facts.goal, id)
    if goal.kind != kind:
        raise GameError(f"game {id!r}: task type {kind!r}, but its goal is one of {goal.kind!r}; rename the task")
    return _unique(_build(facts, goal, id=id, kind=kind, description=description, wording=wording))


def as_game(source: Game | Mapping[str, Any]) -> Game:
    """The game behind a task's `source`: a `Game`, or a row of `load_packed` (parsed once while it stays in use).

    Raises:
        GameError: neither of the two, or a broken row.
    """
    if isinstance(source, Game):
        return source
    if not isinstance(source, Mapping):
        raise GameError(f"expected a Game or a packed row (a mapping), got {type(source).__name__}")
    _check_row(source, f"packed game {source.get('id', '?')!r:.80}")
    return _parse_row(source["id"], source["task_desc"], source["pddl_problem"], source.get("wording", "move"))


def load_packed(path: str | Path) -> list[dict[str, Any]]:
    """Reads a file of packed games, one JSON object a line, in file order; games stay text until they are played.

    Args:
        path: `*.jsonl`, `*.jsonl.xz` or `*.jsonl.gz`; rows {id, task_desc, walkthrough, pddl_problem}.

    Raises:
        GameError: a line is not such a row, or the file is damaged.
        OSError: the file cannot be read.
    """
    openers: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}
    try:
        with openers.get(Path(path).suffix, open)(path, "rb") as file:
            return [_packed_row(line, f"{path}, line {number}") for number, line in enumerate(file, 1) if line.strip()]
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise GameError(f"{path} is damaged ({error}); get it again") from error


def load_game_file(path: str | Path) -> Game:
    """Reads a game as users have it: `<split>/<task>/<trial>/game.tw-pddl`. The id is "task/trial".

    Raises:
        GameError: not a game file, or its domain or grammar belongs to a release this engine does not know.
        OSError: the file cannot be read.
    """
    path = Path(path)
    id = f"{path.parent.parent.name}/{path.parent.name}"
    try:
        data = parse_json(path.read_text(encoding="utf-8"))
        domain, grammar, problem = (_text(data[key], key) for key in ("pddl_domain", "grammar", "pddl_problem"))
    except (ValueError, KeyError, TypeError) as error:
        raise GameError(
            f"{path}: expected a JSON object with the texts pddl_domain, grammar and pddl_problem "
            f"({type(error).__name__}: {error}); download the games again with alfworld-download"
        ) from error
    check_domain(domain, str(path))
    wording, description = read_grammar(grammar, str(path))
    return parse_game(problem, id=id, kind=kind_of(id), description=description, wording=wording)


def kind_of(id: str) -> str:
    """Task type of a game id "type-Object-Movable-Receptacle-scene/trial", with or without folders in front."""
    parts = id.split("/")
    return parts[max(len(parts) - 2, 0)].split("-")[0]


def _packed_row(line: bytes, name: str) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise GameError(f"{name}: expected a JSON object, got {line[:80]!r} ({error})") from error
    if not isinstance(row, dict):
        raise GameError(f"{name}: expected a JSON object, got {line[:80]!r}")
    _check_row(row, name)
    return row


def _check_row(row: Mapping[str, Any], name: str) -> None:
    missing = {"id", "task_desc", "pddl_problem"} - row.keys()
    if missing:
        raise GameError(f"{name}: missing {', '.join(sorted(missing))}; expected id, task_desc, pddl_problem")
    for key in ("id", "task_desc", "pddl_problem", "wording"):
        try:
            _text(row.get(key, ""), key)
        except TypeError as error:
            raise GameError(f"{name}: {error}") from error


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{key} is {value!r:.80}; expected a text")
    return value


@lru_cache(maxsize=512)
def _parse_row(id: str, description: str, problem: str, wording: Wording) -> Game:
    return parse_game(problem, id=id, kind=kind_of(id), description=description, wording=wording)


# Games that are alive, by content: snapshots compare games by identity, also after a trip through pickle.
_alive: weakref.WeakValueDictionary[tuple[Any, ...], Game] = weakref.WeakValueDictionary()


def _content(game: Game) -> tuple[Any, ...]:
    return tuple(getattr(game, item.name) for item in fields(game) if item.init)


def _unique(game: Game) -> Game:
    return _alive.setdefault(_content(game), game)


def _unpickle(content: tuple[Any, ...]) -> Game:
    return _unique(Game(*content))


def _build(facts: Problem, goal: GoalText, *, id: str, kind: str, description: str, wording: Wording) -> Game:
    place = tuple(facts.places[facts.location[word]] for word in facts.receptacles)
    masks = {name: facts.object_mask(predicate) for name, predicate in _OBJECT_MASKS.items()}
    return Game(
        id=id,
        kind=kind,
        description=description,
        wording=wording,
        object_names=tuple(facts.names[word] for word in facts.objects),
        receptacle_names=tuple(facts.names[word] for word in facts.receptacles),
        place_names=tuple(facts.names[word] for word in facts.places),
        object_types=facts.object_types,
        receptacle_types=facts.receptacle_types,
        place=place,
        at_place=tuple(mask_of(r for r, there in enumerate(place) if there == p) for p in range(len(facts.places))),
        openable=facts.receptacle_mask("openable"),
        sinks=_of_type(facts.receptacle_types, "sink", "sinkbasin"),
        microwaves=_of_type(facts.receptacle_types, "microwave"),
        fridges=_of_type(facts.receptacle_types, "fridge"),
        knives=_of_type(facts.object_types, "knife", "butterknife"),
        accepts=_accepts(facts),
        inside=_inside(facts),
        goal=_goal(facts, goal),
        initial=_initial(facts),
        **masks,
    )


_OBJECT_MASKS = {
    "pickupable": "pickupable",
    "cleanable": "cleanable",
    "heatable": "heatable",
    "coolable": "coolable",
    "toggleable": "toggleable",
    "sliceable": "sliceable",
    "receptacle_objects": "isreceptacleobject",
}


def mask_of(indices: Iterable[int]) -> int:
    """The bit mask of a set of indices."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


def indices_of(mask: int) -> list[int]:
    """The indices in a bit mask, ascending."""
    indices = []
    while mask:
        lowest = mask & -mask
        indices.append(lowest.bit_length() - 1)
        mask ^= lowest
    return indices


def _of_type(types: Sequence[str], *wanted: str) -> int:
    return mask_of(index for index, kind in enumerate(types) if kind in wanted)


def _accepts(facts: Problem) -> tuple[int, ...]:
    objects = {kind: _of_type(facts.object_types, kind) for kind in set(facts.object_types)}
    containable: dict[str, int] = {}
    for receptacle, kind in facts.can_contain:
        containable[receptacle] = containable.get(receptacle, 0) | objects.get(kind, 0)
    return tuple(containable.get(kind, 0) for kind in facts.receptacle_types)


def _inside(facts: Problem) -> tuple[int, ...]:
    inside = [0] * len(facts.objects)
    for inner, outer in facts.pairs("inreceptacleobject", facts.objects, facts.objects):
        inside[outer] |= 1 << inner
    return tuple(inside)


def _goal(facts: Problem, goal: GoalText) -> Goal:
    objects = _of_type(facts.object_types, goal.object_type)
    if goal.ability is not None:
        objects &= facts.object_mask(goal.ability)
    return Goal(
        objects=objects,
        receptacles=_of_type(facts.receptacle_types, goal.receptacle_type),
        count=goal.count,
        property=goal.property,
        lamps=_of_type(facts.object_types, goal.lamp_type) & facts.object_mask("toggleable"),
    )


def _initial(facts: Problem) -> State:
    contents = [0] * len(facts.receptacles)
    for thing, receptacle in facts.pairs("inreceptacle", facts.objects, facts.receptacles):
        contents[receptacle] |= 1 << thing
    located = [0] * len(facts.places)
    for thing, place in facts.located:
        located[place] |= 1 << thing
    return State(
        place=facts.start,
        holding=-1,
        opened=facts.receptacle_mask("opened"),
        contents=tuple(contents),
        clean=facts.object_mask("isclean"),
        hot=facts.object_mask("ishot"),
        cool=facts.object_mask("iscool"),
        toggled=facts.object_mask("istoggled"),
        sliced=facts.object_mask("issliced"),
        observed=0,
        located=tuple(located),
        removed=(0,) * len(facts.receptacles),
    )
