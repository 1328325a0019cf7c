"""Generated games: read by the same parser as the real ones, always solvable, alike in words and frequencies."""

from __future__ import annotations

import functools
import operator
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from pivotopd_jax.envs.alfworld import engine
from pivotopd_jax.envs.alfworld.affordances import CAN_CONTAIN, NEIGHBOURS
from pivotopd_jax.envs.alfworld.game_files import find_splits, read_split
from pivotopd_jax.envs.alfworld.games import KINDS, Game, as_game, indices_of
from pivotopd_jax.envs.alfworld.generator import SMALLEST, SPLITS, generate_game
from pivotopd_jax.envs.alfworld.pddl import read_problem
from pivotopd_jax.envs.alfworld.rooms import GOALS, ROOMS

SIZES = [(None, None), (8, 3), (SMALLEST, 0), (14, 6), (60, None), (None, 0)]


def play(game: Game, state, *commands: str):
    """Carries commands out, skipping those that are not needed (going to where one is, opening what is open)."""
    for command in commands:
        outcome = engine.apply(game, state, command)
        if outcome is None:
            assert command.split()[0] in ("go", "open"), f"{command!r} does not work in {game.id}"
            continue
        state = outcome[0]
    return state


def solve(game: Game):
    """Plays a plan that needs no search; returns the final state."""
    state, goal = game.initial, game.goal
    target = indices_of(goal.receptacles)[0] if goal.receptacles else -1
    places = {o: r for r, mask in enumerate(state.contents) for o in indices_of(mask)}
    wanted = [o for o in places if goal.objects & game.pickupable & 1 << o]
    wanted.sort(key=lambda o: -game.accepts[target] >> o & 1)
    for o in wanted[: goal.count]:
        name, source = game.object_names[o], game.receptacle_names[places[o]]
        state = play(game, state, f"go to {source}", f"open {source}", f"take {name} from {source}")
        if goal.lamps:
            lamp = next(o for o in indices_of(goal.lamps) if o in places)
            return play(game, state, f"go to {game.receptacle_names[places[lamp]]}", f"use {game.object_names[lamp]}")
        stations = {"clean": game.sinks, "hot": game.microwaves, "cool": game.fridges}
        if goal.property:
            station = game.receptacle_names[indices_of(stations[goal.property])[0]]
            verb = {"clean": "clean", "hot": "heat", "cool": "cool"}[goal.property]
            state = play(game, state, f"go to {station}", f"{verb} {name} with {station}")
        if engine.won(game, state):
            return state
        put = game.receptacle_names[target]
        state = play(game, state, f"go to {put}", f"open {put}", f"move {name} to {put}")
    return state


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_games_are_unsolved_and_solvable(kind: str, size: tuple[int | None, int | None]) -> None:
    for seed in range(12):
        split = SPLITS[seed % 3]
        row = generate_game(seed, kind=kind, receptacles=size[0], distractors=size[1], split=split)
        game = as_game(row)
        assert game.kind == kind
        assert not engine.won(game, game.initial)
        assert engine.won(game, solve(game)), row["id"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("receptacles", "distractors"), [(3, 0), (3, 4), (8, 3), (10, 25), (45, 2)])
def test_size_is_what_was_asked_for(kind: str, receptacles: int, distractors: int) -> None:
    for seed in range(6):
        game = as_game(generate_game(seed, kind=kind, receptacles=receptacles, distractors=distractors))
        assert len(game.receptacle_names) == receptacles
        needed = 2 if kind == "pick_two_obj_and_place" else 1
        assert game.pickupable.bit_count() == needed + distractors
        reachable = functools.reduce(operator.or_, game.initial.contents)
        assert game.pickupable & ~reachable == 0


def test_same_in_every_process_and_under_every_hash_seed() -> None:
    script = (
        "import hashlib; from pivotopd_jax.envs.alfworld.generator import generate_game as g\n"
        "rows = [g(s, receptacles=r, distractors=d, split=p) for s in range(5) for r, d, p in "
        "[(None, None, 'train'), (8, 3, 'valid'), (5, None, 'test')]]\n"
        "print(hashlib.sha256(repr(rows).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(digests) == 1


def test_splits_share_no_combination_of_goal_and_room() -> None:
    """The combination is read off the finished games, not off the generator."""

    def combination(game: Game) -> tuple[object, ...]:
        return (game.id.split("/")[0], *sorted(game.receptacle_types))

    found = {
        split: {combination(as_game(generate_game(s, receptacles=4, distractors=0, split=split))) for s in range(120)}
        for split in SPLITS
    }
    assert all(len(combinations) > 40 for combinations in found.values())
    assert not found["train"] & found["valid"]
    assert not found["train"] & found["test"]
    assert not found["valid"] & found["test"]


def test_every_sort_of_shared_place_occurs() -> None:
    """A receptacle can only join one that is already there, so the table and the order of drawing must agree."""
    pairs = set()
    for seed in range(400):
        game = as_game(generate_game(seed))
        for mask in game.at_place:
            types = [game.receptacle_types[r] for r in indices_of(mask)]
            pairs |= {(first, second) for i, first in enumerate(types) for second in types[:i] + types[i + 1 :]}
    assert pairs.issuperset((type.lower(), neighbour.lower()) for type, (neighbour, _) in NEIGHBOURS.items())


def test_seeds_and_arguments_give_different_games() -> None:
    texts = [
        generate_game(seed, kind=kind, receptacles=size)["pddl_problem"]
        for seed in range(10)
        for kind in (None, KINDS[0])
        for size in (None, 8, 9)
    ]
    assert len(set(texts)) == len(texts)


def test_objects_never_start_where_the_goal_would_be_half_done() -> None:
    for seed in range(60):
        game = as_game(generate_game(seed))
        stations = {"clean": game.sinks, "hot": game.microwaves, "cool": game.fridges, None: game.goal.receptacles}
        for r in indices_of(stations[game.goal.property]):
            assert not game.initial.contents[r] & game.goal.objects


def test_rules_of_the_real_files_hold() -> None:
    """Goal objects in the fridge start cold and nothing else does; everything is closed; basins are named as basins."""
    cold = 0
    for seed in range(90):
        game = as_game(generate_game(seed))
        chilled = [game.initial.contents[r] & game.goal.objects for r in indices_of(game.fridges)]
        expected = functools.reduce(operator.or_, chilled, 0)
        assert game.initial.cool == expected
        cold += bool(expected)
        assert game.initial.opened == game.initial.clean == game.initial.hot == game.initial.toggled == 0
        assert game.initial.place == -1
        for name, type in zip(game.receptacle_names, game.receptacle_types, strict=True):
            assert re.fullmatch(rf"{type} \d+", name)
    assert cold > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "pick_three"}, "unknown task type 'pick_three'"),
        ({"split": "valid_seen"}, "no split 'valid_seen'"),
        ({"receptacles": 2}, "at least 3"),
        ({"distractors": -1}, "0 or more"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate_game(0, **arguments)


def template(game: Game) -> str:
    """The task sentence with the types blanked out."""
    _, thing, _, target, _ = game.id.split("/")[0].split("-")
    return re.sub(rf"\b{thing.lower()}\b", "O", re.sub(rf"\b{target.lower()}\b", "R", game.description))


def visible_types(game: Game) -> set[str]:
    seen = functools.reduce(operator.or_, game.initial.contents)
    return {game.object_types[o] for o in indices_of(seen)}


def test_sentences_and_words_cover_the_real_games(alfworld_data) -> None:
    splits = find_splits(alfworld_data)
    real = [as_game(row) for split in ("valid_seen", "valid_unseen") for row in read_split(splits[split])]
    generated = [as_game(generate_game(seed)) for seed in range(250)]
    assert {(game.kind, template(game)) for game in real} == {(game.kind, template(game)) for game in generated}
    receptacles = {type for game in generated for type in game.receptacle_types}
    assert {type for game in real for type in game.receptacle_types} <= receptacles
    objects = {type.lower() for room in ROOMS.values() for type in room.objects}
    assert set().union(*(visible_types(game) for game in real)) - {""} <= objects


def test_every_real_goal_and_every_real_rule_is_possible(alfworld_data) -> None:
    takes = {(place.lower(), thing.lower()) for place, things in CAN_CONTAIN.items() for thing in things}
    scenes = {0: "kitchen", 2: "living", 3: "bedroom", 4: "bathroom"}
    for split, path in find_splits(alfworld_data).items():
        if split == "train":
            continue  # slow to read; valid_train samples it
        for row in read_split(path):
            kind, thing, _, target, scene = row["id"].split("/")[0].split("-")
            goals = GOALS[kind, scenes[int(scene) // 100]]
            assert thing in goals.objects
            assert target in goals.targets
            assert kind == "look_at_obj_in_light" or thing in CAN_CONTAIN[target]
            assert takes.issuperset(read_problem(row["pddl_problem"], row["id"]).can_contain)


def test_frequencies_resemble_the_real_training_games(alfworld_data) -> None:
    """Against the 200 training games that come as a split of their own, which is quick to read."""
    splits = find_splits(alfworld_data)
    if "valid_train" not in splits:
        pytest.skip(f"no split valid_train in {alfworld_data}")
    real = [as_game(row) for row in read_split(splits["valid_train"])]
    generated = [as_game(generate_game(seed)) for seed in range(400)]
    for measure in (
        lambda game: len(game.receptacle_names),
        lambda game: len(game.at_place),
        lambda game: game.openable.bit_count(),
        lambda game: game.pickupable.bit_count(),
        lambda game: game.goal.objects.bit_count(),
        lambda game: game.goal.receptacles.bit_count(),
    ):
        means = [sum(map(measure, games)) / len(games) for games in (real, generated)]
        assert means[1] == pytest.approx(means[0], rel=0.25)
    assert overlap(real, generated, lambda game: [game.kind]) > 0.9
    assert overlap(real, generated, lambda game: game.receptacle_types) > 0.9
    assert overlap(real, generated, lambda game: [game.object_types[o] for o in indices_of(game.pickupable)]) > 0.85
    assert overlap(real, generated, lambda game: [game.id.split("-")[3]]) > 0.8


def overlap(first: list[Game], second: list[Game], words) -> float:
    """Shared mass of two distributions: 1 when equal, 0 when disjoint."""
    counts = [Counter(word for game in games for word in words(game)) for games in (first, second)]
    totals = [count.total() for count in counts]
    return sum(min(counts[0][word] / totals[0], counts[1][word] / totals[1]) for word in counts[0])
