"""Where things are found: counting by hand, and the table against the games it was counted from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pivotopd_jax.envs.alfworld.games import kind_of, load_packed, parse_game
from pivotopd_jax.envs.alfworld.likely_places import LIKELY_PLACES, estimate_places


def test_places_are_ranked_by_chance_per_turn(kitchen):
    game = kitchen.game("pick_two_obj_and_place")
    contents = list(game.initial.contents)
    for name in ("fridge 1", "drawer 1"):
        contents[game.receptacle_names.index(name)] |= 1 << game.object_names.index("mug 1")
    game = replace(game, initial=game.initial._replace(contents=tuple(contents)))
    # Counter top: found in 1 turn. Fridge: 1 in 2, since it has to be opened. Drawers, one of which opens: 1 in 3.
    assert estimate_places([game]) == {"mug": ("countertop", "fridge", "drawer")}


def test_lamps_are_counted_too(kitchen):
    ranked = estimate_places([kitchen.game("look_at_obj_in_light")])
    # Both are in drawers: the spoon in one of two that take 1 + 2 turns, the lamp in the other.
    assert ranked == {"spoon": ("drawer",), "desklamp": ("drawer",)}


def test_the_table_names_real_types():
    assert LIKELY_PLACES["pillow"] == ("bed", "sofa", "armchair")
    assert len(LIKELY_PLACES) == 50
    assert all(len(set(places)) == len(places) for places in LIKELY_PLACES.values())


@pytest.mark.slow
def test_the_table_is_what_the_training_games_say(alfworld_data):
    rows = load_packed(alfworld_data / "train.jsonl.xz")
    games = (
        parse_game(row["pddl_problem"], id=row["id"], kind=kind_of(row["id"]), description=row["task_desc"])
        for row in rows
    )
    assert estimate_places(games) == LIKELY_PLACES
