"""Thinned games: as small as asked for, still solvable, and otherwise untouched."""

from __future__ import annotations

import math
import re

import pytest

from pivotopd_jax.envs.alfworld.engine import AlfWorldEnv
from pivotopd_jax.envs.alfworld.game_files import find_splits, read_split
from pivotopd_jax.envs.alfworld.games import KINDS, Game, kind_of, parse_game
from pivotopd_jax.envs.alfworld.generator import generate_game
from pivotopd_jax.envs.alfworld.planner import AlfWorldPlanner
from pivotopd_jax.envs.alfworld.thinning import ThinningError, thin_problem
from pivotopd_jax.records import Task

PROBLEM = """
(define (problem plan_by_hand)
(:domain alfred)
(:objects agent1 - agent
  MugType AppleType SinkType - otype  FridgeType DeskType ShelfType - rtype
  Mug_bar_a Mug_bar_b - object
  Apple_bar_a - object
  Sink_bar_a - object ; fixed
  Fridge_bar_a - receptacle
  Desk_bar_a - receptacle
  Shelf_bar_a Shelf_bar_b - receptacle
  loc_bar_1 loc_bar_2 loc_bar_3 - location)
(:init (receptacleType Fridge_bar_a FridgeType) (receptacleType Desk_bar_a DeskType)
  (receptacleType Shelf_bar_a ShelfType) (receptacleType Shelf_bar_b ShelfType)
  (objectType Mug_bar_a MugType) (objectType Mug_bar_b MugType)
  (objectType Apple_bar_a AppleType) (objectType Sink_bar_a SinkType)
  (canContain ShelfType MugType) (canContain ShelfType MugType) (canContain FridgeType AppleType)
  (pickupable Mug_bar_a) (pickupable Mug_bar_b) (pickupable Apple_bar_a)
  (openable Fridge_bar_a) (atLocation agent1 loc_bar_3)
  (inReceptacle Mug_bar_a Desk_bar_a) (inReceptacle Mug_bar_a Fridge_bar_a)
  (inReceptacle Apple_bar_a Fridge_bar_a) (inReceptacle Sink_bar_a Shelf_bar_a)
  (isCool Apple_bar_a)
  (receptacleAtLocation Fridge_bar_a loc_bar_1) (receptacleAtLocation Desk_bar_a loc_bar_1)
  (receptacleAtLocation Shelf_bar_a loc_bar_2) (receptacleAtLocation Shelf_bar_b loc_bar_2)
  (objectAtLocation Mug_bar_a loc_bar_1))
(:goal (and (exists (?r - receptacle) (exists (?o - object)
  (and (inReceptacle ?o ?r) (objectType ?o MugType) (receptacleType ?r ShelfType))))))
)
"""
KIND = "pick_and_place_simple"


def parse(problem: str, kind: str = KIND) -> Game:
    return parse_game(problem, id="game", kind=kind, description="")


def ids(problem: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]\w*_bar_\w+", problem))


def test_keeps_what_the_goal_needs_and_drops_the_rest() -> None:
    """Two receptacles suffice: a shelf, and the desk or the fridge. The mug that lies nowhere cannot be the one."""
    seen = set()
    for seed in range(40):
        left = ids(thin_problem(PROBLEM, receptacles=2, distractors=0, seed=seed))
        things = left - {"Sink_bar_a"}
        seen.add(frozenset(things))
        assert ("Sink_bar_a" in left) == ("Shelf_bar_a" in left)
    expected = {
        frozenset({"Mug_bar_a", source, shelf})
        for source in ("Desk_bar_a", "Fridge_bar_a")
        for shelf in ("Shelf_bar_a", "Shelf_bar_b")
    }
    assert seen == expected


def test_facts_about_what_is_left_are_untouched() -> None:
    """All receptacles and objects in them may stay, so only the mug that lies nowhere goes, and repeated facts."""
    expected = PROBLEM
    for text in (" Mug_bar_b", "(objectType Mug_bar_b MugType)", "(pickupable Mug_bar_b)"):
        expected = expected.replace(text, "", 1)
    thin = thin_problem(PROBLEM, receptacles=9, distractors=9, seed=0)
    assert parse(thin) is parse(expected)
    assert thin.count("canContain") == 2
    assert parse(thin).object_names == ("apple 1", "mug 1", "sink 1")
    assert thin.startswith("(define (problem plan_by_hand)\n(:domain alfred)")
    assert thin.split("(:goal")[1] == PROBLEM.split("(:goal")[1]


@pytest.mark.parametrize(("distractors", "apples"), [(0, 0), (1, 1), (5, 1)])
def test_distractors_are_other_objects_in_reach(distractors: int, apples: int) -> None:
    game = parse(thin_problem(PROBLEM, receptacles=4, distractors=distractors, seed=3))
    assert game.object_types.count("apple") == apples
    assert game.object_types.count("mug") == 1


def test_too_few_receptacles_is_an_error() -> None:
    with pytest.raises(ThinningError, match=r"needs 2 receptacles, so it cannot do with 1"):
        thin_problem(PROBLEM, receptacles=1, distractors=0, seed=0)


@pytest.mark.parametrize(
    ("fact", "instead", "missing"),
    [
        ("(objectType Mug_bar_a MugType)", "(objectType Mug_bar_a AppleType)", "mug that can be taken"),
        ("(pickupable Mug_bar_a)", "", "mug that can be taken"),
        ("(canContain ShelfType MugType)", "", "receptacle that takes the object"),
    ],
)
def test_a_goal_that_lacks_something_is_an_error(fact: str, instead: str, missing: str) -> None:
    with pytest.raises(ThinningError, match=f"game 'g': its goal needs 1 {missing}, but the room has 0"):
        thin_problem(PROBLEM.replace(fact, instead), receptacles=4, distractors=0, seed=0, id="g")


def test_negative_distractors_are_an_error() -> None:
    with pytest.raises(ValueError, match="distractors=-1"):
        thin_problem(PROBLEM, receptacles=4, distractors=-1, seed=0)


def distance(game: Game) -> float:
    """L at the start."""
    env = AlfWorldEnv()
    env.reset(Task(game.id, game.kind, game))
    return AlfWorldPlanner().distance(env.snapshot())


def check(problem: str, kind: str, receptacles: int, distractors: int, seed: int) -> None:
    before = parse(problem, kind)
    thin = thin_problem(problem, receptacles=receptacles, distractors=distractors, seed=seed)
    assert thin == thin_problem(problem, receptacles=receptacles, distractors=distractors, seed=seed)
    game = parse(thin, kind)
    assert len(game.receptacle_names) == min(receptacles, len(before.receptacle_names))
    assert game.pickupable.bit_count() <= before.goal.count + distractors
    assert game.openable.bit_count() <= before.openable.bit_count()
    assert 0 < distance(game) < math.inf


@pytest.mark.parametrize("kind", KINDS)
def test_generated_games_stay_solvable(kind: str) -> None:
    for seed in range(8):
        problem = generate_game(seed, kind=kind)["pddl_problem"]
        for receptacles, distractors in ((3, 0), (8, 3), (20, 50)):
            check(problem, kind, receptacles, distractors, seed)


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_real_games_stay_solvable(split: str, alfworld_data) -> None:
    rows = read_split(find_splits(alfworld_data)[split])
    for seed, row in enumerate(rows[::4]):
        check(row["pddl_problem"], kind_of(row["id"]), (3, 8)[seed % 2], 3, seed)


def test_thinning_to_everything_changes_no_game() -> None:
    """`parse_game` returns one object for equal contents, so "is" compares every field."""
    for seed in range(30):
        kind = KINDS[seed % 6]
        problem = generate_game(seed, kind=kind, receptacles=8)["pddl_problem"]
        before = parse(problem, kind)
        after = parse(thin_problem(problem, receptacles=8, distractors=99, seed=seed), kind)
        assert before is after
