"""From an action between situations back to commands of the game."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pivotopd_jax.envs.alfworld.games import Game, State, indices_of
from pivotopd_jax.envs.alfworld.reading import Reading
from pivotopd_jax.envs.alfworld.search import Edge
from pivotopd_jax.envs.alfworld.situation import HAND_PLAIN, HAND_TAGGED, Code, Place, make_place, reduced_code

_TREATMENTS = {"clean": "clean", "hot": "heat", "cool": "cool"}


def natural_order(text: str) -> list[tuple[int, str]]:
    """Sort key by which "shelf 2" comes before "shelf 10"."""
    return [(int(word), "") if word.isdigit() else (-1, word) for word in text.split()]


def commands_of(game: Game, state: State, reading: Reading, edge: Edge, entrances: Collection[Code]) -> Iterator[str]:
    """All commands that `edge` stands for.

    Args:
        game, state, reading: where the edge starts.
        edge: an edge of `reading.situation()`.
        entrances: of a place gone to, codes of the receptacles by whose name to go there.
    """
    if edge.verb == "go":
        for place in _places_like(reading, edge.target):
            yield from (f"go to {game.receptacle_names[r]}" for r in _like(reading, place, entrances))
        return
    for r in _like(reading, state.place, edge.target):
        yield from _commands_at(game, state, reading, edge, r)


def _places_like(reading: Reading, target: Place) -> Iterator[int]:
    tagged = bool(reading.tags)
    for place, receptacles in enumerate(reading.layout.places):
        if place != reading.place and make_place((reading.codes[r] for r in receptacles), tagged) == target:
            yield place


def _like(reading: Reading, place: int, codes: Collection[Code]) -> Iterator[int]:
    """The receptacles at a place that have one of these codes."""
    return (r for r in reading.layout.places[place] if reduced_code(reading.codes[r]) in codes)


def _commands_at(game: Game, state: State, reading: Reading, edge: Edge, r: int) -> Iterator[str]:
    receptacle = game.receptacle_names[r]
    if edge.verb == "open":
        yield f"open {receptacle}"
    elif edge.verb == "put":
        yield place_command(game, state.holding, r)
    elif edge.verb == "treat":
        assert game.goal.property is not None
        yield f"{_TREATMENTS[game.goal.property]} {game.object_names[state.holding]} with {receptacle}"
    elif edge.verb == "take":
        objects = _called(game, reading, edge.item) & state.contents[r]
        yield from (f"take {game.object_names[o]} from {receptacle}" for o in indices_of(objects))
    else:
        lamps = game.goal.lamps & state.contents[r]
        yield from (f"use {game.object_names[o]}" for o in indices_of(lamps))


def place_command(game: Game, o: int, r: int) -> str:
    """Puts object `o` into receptacle `r`, as the game's release says it."""
    between = "to" if game.wording == "move" else "in/on"
    return f"{game.wording} {game.object_names[o]} {between} {game.receptacle_names[r]}"


def _called(game: Game, reading: Reading, item: int) -> int:
    """Mask of the objects that a hand would hold as `item`."""
    if item >= HAND_TAGGED:
        return 1 << reading.tags[(item - HAND_TAGGED) // 2]
    objects = game.goal.objects & game.pickupable
    for o in reading.tags:
        objects &= ~(1 << o)
    return objects & (~reading.done if item == HAND_PLAIN else reading.done)
