"""The strings of one ALFWorld game: names, commands and lists, made once and kept in small bounded tables."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from pivotopd_jax.envs.alfworld.games import Game, State, indices_of

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""

_TABLE_SIZE = 128
"""Entries per table and game. Thousands of games may be alive at once, so a full table starts over."""


class Place(NamedTuple):
    """One place of a game.

    Attributes:
        mask: its receptacles.
        receptacles: their indices, ascending.
        facing: their names as `look` lists them.
        go: the commands that lead away from it, sorted.
    """

    mask: int
    receptacles: tuple[int, ...]
    facing: str
    go: tuple[str, ...]


def sentence_list(items: Sequence[str]) -> str:
    """ "nothing", "a X" or "a X, a Y, and a Z"; the last comma comes with two items already."""
    if len(items) < 2:
        return items[0] if items else "nothing"
    return f"{', '.join(items[:-1])}, and {items[-1]}"


def phrases(game: Game) -> Phrases:
    """The strings of `game`, made on first use and kept with it."""
    found = game.cache.get("phrases")
    if found is None:
        found = game.cache["phrases"] = Phrases(game)
    return found


class Phrases:
    """The strings of one game. Methods are given the game, since a reference to it would form a cycle.

    Attributes:
        object_index, receptacle_index: name -> index.
        here: by place.
        room: the receptacles as the first text lists them.
        goal_receptacles: indices of the goal's receptacles.
    """

    def __init__(self, game: Game) -> None:
        self.object_index = {name: o for o, name in enumerate(game.object_names)}
        self.receptacle_index = {name: r for r, name in enumerate(game.receptacle_names)}
        self._go = sorted((f"go to {name}", r) for r, name in enumerate(game.receptacle_names))
        self.here = [self._place(game, place) for place in range(len(game.at_place))]
        self.room = sentence_list([f"a {name}" for name in game.receptacle_names])
        self.goal_receptacles = tuple(indices_of(game.goal.receptacles))
        self._listings: dict[int, str] = {}
        self._takes: dict[tuple[int, int], tuple[str, ...]] = {}
        self._standing: dict[tuple[int, int, int, bool], tuple[str, ...]] = {}

    def _place(self, game: Game, place: int) -> Place:
        here = game.at_place[place]
        receptacles = tuple(indices_of(here))
        facing = sentence_list([game.receptacle_names[r] for r in receptacles])
        return Place(here, receptacles, facing, tuple(command for command, r in self._go if not here >> r & 1))

    def listing(self, game: Game, objects: int) -> str:
        """ "a mug 2, and a mug 1": a mask of objects in a sentence."""
        found = self._listings.get(objects)
        if found is None:
            found = sentence_list([f"a {game.object_names[o]}" for o in indices_of(objects)])
            _keep(self._listings, objects, found)
        return found

    def takes(self, game: Game, receptacle: int, objects: int) -> tuple[str, ...]:
        """The commands that take one of `objects` from `receptacle`, sorted."""
        key = receptacle, objects
        found = self._takes.get(key)
        if found is None:
            name, names = game.receptacle_names[receptacle], game.object_names
            found = tuple(sorted(f"take {names[o]} from {name}" for o in indices_of(objects)))
            _keep(self._takes, key, found)
        return found

    def standing(self, game: Game, place: int, holding: int, opened: int, listed: bool) -> tuple[str, ...]:
        """The commands before "slice" in the alphabet: those that no receptacle's contents decide.

        Args:
            place: the player's place; -1 before the first move.
            holding: index of the held object; -1 for none.
            opened: mask of the opened receptacles at `place`.
            listed: with `help`.
        """
        key = place, holding, opened, listed
        found = self._standing.get(key)
        if found is None:
            found = self._make_standing(game, place, holding, opened, listed)
            _keep(self._standing, key, found)
        return found

    def _make_standing(self, game: Game, place: int, holding: int, opened: int, listed: bool) -> tuple[str, ...]:
        names = game.receptacle_names
        receptacles = self.here[place].receptacles if place >= 0 else ()
        examine = [names[r] for r in receptacles]
        commands = [
            f"{'close' if opened >> r & 1 else 'open'} {names[r]}" for r in receptacles if game.openable >> r & 1
        ]
        if holding >= 0:
            examine.append(game.object_names[holding])
            commands += self._handle(game, receptacles, holding, opened)
        commands += [f"examine {name}" for name in examine]
        commands += ["inventory", "look"]
        if listed and game.wording == "move":
            commands.append("help")
        return self._with_go(sorted(commands), place)

    def _with_go(self, others: list[str], place: int) -> tuple[str, ...]:
        go = self.here[place].go if place >= 0 else tuple(command for command, _ in self._go)
        split = bisect_left(others, "go ")
        return (*others[:split], *go, *others[split:])

    def _handle(self, game: Game, receptacles: Sequence[int], held: int, opened: int) -> list[str]:
        """Putting the held object down, cleaning, heating and cooling it."""
        name, commands = game.object_names[held], []
        put = f"move {name} to" if game.wording == "move" else f"put {name} in/on"
        treatments = (
            ("clean", game.sinks if game.cleanable >> held & 1 else 0),
            ("heat", game.microwaves if game.heatable >> held & 1 else 0),
            ("cool", game.fridges if game.coolable >> held & 1 else 0),
        )
        for r in receptacles:
            receptacle = game.receptacle_names[r]
            if game.accepts[r] >> held & 1 and not game.openable & ~opened & 1 << r:
                commands.append(f"{put} {receptacle}")
            commands += [f"{verb} {name} with {receptacle}" for verb, where in treatments if where >> r & 1]
        return commands

    def object_sight(self, game: Game, state: State, o: int) -> str:
        """What examining the held object says."""
        name = game.object_names[o]
        if game.receptacle_objects >> o & 1:
            return f"This is a normal {name}. In it, you see {self.listing(game, game.inside[o])}."
        adjectives = _adjectives(state, o)
        if adjectives and adjectives != "sliced":
            return f"This is a {adjectives} {name}."
        if game.toggleable & state.toggled & 1 << o:
            return f"This {name} is on."
        if adjectives and game.sliceable >> o & 1:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."


def _adjectives(state: State, o: int) -> str:
    """Heat, cleanliness and cut in the official order; "cold" only where nothing else is said."""
    clean, hot, cool, cut = (mask >> o & 1 for mask in (state.clean, state.hot, state.cool, state.sliced))
    warmth = ["hot"] if hot else ["cool"] if cool else []
    if warmth == ["cool"] and not clean and not cut:
        return "cold"
    words = " and ".join([*warmth, *["clean"] * clean])
    return f"{words} sliced".lstrip() if cut else words


def _keep(table: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    if len(table) >= _TABLE_SIZE:
        table.clear()
    table[key] = value
