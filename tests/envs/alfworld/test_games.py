"""Reading games: names, masks, goals, wording; and the files they come in."""

from __future__ import annotations

import json
import lzma
import pickle
from typing import Any

import pytest

from pivotopd_jax.envs.alfworld.games import (
    KINDS,
    GameError,
    Goal,
    as_game,
    indices_of,
    kind_of,
    load_game_file,
    load_packed,
    mask_of,
    parse_game,
)
from pivotopd_jax.envs.alfworld.releases import check_domain, read_grammar


def named(names, mask):
    return {names[i] for i in indices_of(mask)}


def test_names_count_down_in_the_order_of_the_ids(kitchen):
    game = kitchen.game()
    assert game.object_names == (
        *("apple 1", "bread 1", "chair 1", "desklamp 1", "knife 1", "mug 2", "mug 1", "plate 1", "spoon 1", "statue 1"),
    )
    assert game.receptacle_names == (
        *("countertop 1", "drawer 2", "drawer 1", "fridge 1", "microwave 1", "sidetable 1", "sinkbasin 1"),
    )
    # The player's first spot counts too, but is no place with receptacles: it is "loc 7".
    assert game.place_names == ("loc 6", "loc 5", "loc 4", "loc 3", "loc 2", "loc 1")
    assert game.object_types[5] == "mug"
    assert game.receptacle_types[6] == "sinkbasin"


def test_masks(kitchen):
    game = kitchen.game()
    objects, receptacles = game.object_names, game.receptacle_names
    assert game.place == (0, 1, 1, 2, 3, 4, 5)
    assert game.at_place == (0b1, 0b110, 0b1000, 0b10000, 0b100000, 0b1000000)
    assert named(receptacles, game.openable) == {"drawer 2", "fridge 1", "microwave 1"}
    assert [named(receptacles, m) for m in (game.sinks, game.microwaves, game.fridges)] == [
        {"sinkbasin 1"},
        {"microwave 1"},
        {"fridge 1"},
    ]
    assert named(objects, game.sliceable) == {"apple 1", "bread 1"}
    assert named(objects, game.knives) == {"knife 1"}
    assert named(objects, game.receptacle_objects) == {"mug 1", "mug 2"}
    assert named(objects, game.pickupable) == set(objects) - {"chair 1", "desklamp 1"}
    assert named(objects, game.accepts[0]) == {"apple 1", "mug 1", "mug 2", "knife 1"}
    assert [named(objects, m) for m in game.inside if m] == [{"spoon 1"}]
    assert game.inside[objects.index("mug 1")]


def test_initial_state(kitchen):
    game = kitchen.game()
    state, objects = game.initial, game.object_names
    assert (state.place, state.holding, state.opened, state.observed) == (-1, -1, 0, 0)
    assert named(objects, state.contents[0]) == {"apple 1", "knife 1", "mug 2", "mug 1", "plate 1"}
    assert named(objects, state.contents[5]) == {"plate 1", "statue 1"}
    assert named(objects, state.cool) == {"bread 1"}
    assert (state.clean, state.hot, state.toggled, state.sliced) == (0, 0, 0, 0)
    assert named(objects, state.located[0]) == {"apple 1", "knife 1", "mug 2", "mug 1", "chair 1"}
    assert state.removed == (0,) * 7


APPLE, LAMP, MUGS, SPOON, TABLE, MICROWAVE = 1 << 0, 1 << 3, 0b1100000, 1 << 8, 1 << 5, 1 << 4


@pytest.mark.parametrize(
    ("kind", "goal"),
    [
        ("pick_and_place_simple", Goal(APPLE, TABLE)),
        ("pick_clean_then_place_in_recep", Goal(APPLE, TABLE, property="clean")),
        ("pick_heat_then_place_in_recep", Goal(APPLE, TABLE, property="hot")),
        ("pick_cool_then_place_in_recep", Goal(APPLE, TABLE, property="cool")),
        ("pick_two_obj_and_place", Goal(MUGS, MICROWAVE, count=2)),
        ("look_at_obj_in_light", Goal(SPOON, 0, lamps=LAMP)),
    ],
)
def test_goals(kitchen, kind, goal):
    assert kitchen.game(kind).goal == goal


def test_the_goal_object_must_be_able_to_take_the_property(kitchen):
    problem = kitchen.problem("pick_clean_then_place_in_recep").replace("(cleanable Apple_bar_1)", "")
    game = parse_game(problem, id="g", kind="pick_clean_then_place_in_recep", description="d")
    assert game.goal.objects == 0


def test_the_same_text_is_the_same_game_while_it_lives(kitchen):
    game = kitchen.game()
    assert kitchen.game() is game
    assert pickle.loads(pickle.dumps(game)) is game
    assert kitchen.game(wording="put") is not game


def test_masks_and_indices_invert_each_other():
    assert mask_of([0, 3, 70]) == 1 | 8 | 1 << 70
    assert indices_of(1 | 8 | 1 << 70) == [0, 3, 70]
    assert indices_of(0) == []


def test_kind_of_an_id():
    assert kind_of("pick_two_obj_and_place-Mug-None-Desk-1/trial_1") == "pick_two_obj_and_place"
    assert kind_of("valid_seen/look_at_obj_in_light-A-None-B-2/trial_2") == "look_at_obj_in_light"


def broken(problem, old, new):
    assert old in problem
    return problem.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(:domain alfred)", "(:domain blocks)", "domain alfred"),
        ("(:init", "(:start", "domain alfred"),
        ("(isCool Bread_bar_1)", "(isBroken Bread_bar_1)", "isbroken"),
        ("(isCool Bread_bar_1)", "(isCool Bread_bar_1 Mug_bar_1)", r"\(iscool bread_bar_1 mug_bar_1\)"),
        ("(isCool Bread_bar_1)", "(isCool Toast_bar_1)", "toast_bar_1"),
        ("(isCool Bread_bar_1)", "(isCool (Bread_bar_1))", "not a list of facts"),
        ("(receptacleAtLocation Fridge_bar_1 loc_bar_3)", "", "fridge_bar_1"),
        ("(atLocation agent1 loc_bar_0)", "", "atLocation"),
        ("(inReceptacle ?o ?r)", "(inReceptacle ?o ?r) (isSliced ?o)", "none of the forms"),
        ("(:goal (and", "(:goal (or", "none of the forms"),
    ],
)
def test_broken_problems_are_named(kitchen, old, new, message):
    problem = broken(kitchen.problem(), old, new)
    with pytest.raises(GameError, match=message) as error:
        parse_game(problem, id="my game", kind="pick_and_place_simple", description="d")
    assert "my game" in str(error.value)


def test_a_goal_of_another_type_than_the_name_says(kitchen):
    with pytest.raises(GameError, match="its goal is one of 'pick_and_place_simple'"):
        parse_game(kitchen.problem(), id="g", kind="look_at_obj_in_light", description="d")


def test_unknown_kind_and_wording(kitchen):
    with pytest.raises(GameError, match="pick_and_place_with_movable_recep"):
        parse_game(kitchen.problem(), id="g", kind="pick_and_place_with_movable_recep", description="d")
    with pytest.raises(GameError, match="wording 'drop'"):
        kitchen.game(wording="drop")


def test_costs_comments_and_upper_case_are_read_over(kitchen):
    problem = broken(
        kitchen.problem(), "(:init", "(:init ; facts\n(= (total-cost) 0) (= (distance loc_bar_1 loc_bar_2) 3)"
    )
    assert kitchen.game() is parse_game(problem, id="kitchen", kind="pick_and_place_simple", description="tidy up.")


def test_packed_files(kitchen, tmp_path):
    row = {"id": "pick_and_place_simple-A/trial", "task_desc": "tidy up.", "pddl_problem": kitchen.problem()}
    openers: dict[str, Any] = {"a.jsonl": open, "a.jsonl.xz": lzma.open}
    for name, opener in openers.items():
        with opener(tmp_path / name, "wt") as file:
            file.write(json.dumps(row) + "\n\n")
        rows = load_packed(tmp_path / name)
        assert rows == [row]
    game = as_game(rows[0])
    assert as_game(rows[0]) is game
    assert as_game(game) is game
    assert (game.id, game.kind) == (row["id"], "pick_and_place_simple")


def test_broken_packed_files(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "x", "task_desc": "y"}\n')
    with pytest.raises(GameError, match=r"a\.jsonl, line 1: missing pddl_problem"):
        load_packed(path)
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(GameError, match="line 1: expected a JSON object"):
        load_packed(path)
    with pytest.raises(GameError, match="missing pddl_problem"):
        as_game({"id": "x", "task_desc": "y"})
    with pytest.raises(GameError, match="got int"):
        as_game(3)  # pyright: ignore[reportArgumentType]


def user_file(alfworld_data, folder, description, *, grammar=None, domain=None, problem):
    for name in ("grammar.twl2", "domain.pddl"):
        if not (alfworld_data / name).is_file():
            pytest.skip(f"{alfworld_data} has no {name}")
    grammar = grammar or (alfworld_data / "grammar.twl2").read_text()
    data = {
        "pddl_domain": domain or (alfworld_data / "domain.pddl").read_text(),
        "grammar": grammar.replace("UNKNOWN GOAL", json.dumps(description)[1:-1]),
        "pddl_problem": problem,
        "solvable": True,
        "walkthrough": [],
    }
    path = folder / "pick_and_place_simple-Apple-None-SideTable-1" / "trial_1" / "game.tw-pddl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))
    return path


def test_game_files_as_users_have_them(kitchen, alfworld_data, tmp_path):
    path = user_file(alfworld_data, tmp_path, 'put "it" on the sidetable.', problem=kitchen.problem())
    game = load_game_file(path)
    assert game.id == "pick_and_place_simple-Apple-None-SideTable-1/trial_1"
    assert (game.kind, game.wording) == ("pick_and_place_simple", "move")
    assert game.description == 'put "it" on the sidetable.'


def test_unknown_rules_and_sentences_are_refused(kitchen, alfworld_data, tmp_path):
    domain, grammar = (alfworld_data / name for name in ("domain.pddl", "grammar.twl2"))
    if not domain.is_file():
        pytest.skip(f"{alfworld_data} has no domain.pddl")
    check_domain(domain.read_text() + "\n; a comment more", "here")
    with pytest.raises(GameError, match="here: unknown PDDL domain"):
        check_domain("half of a character: \ud800", "here")
    with pytest.raises(GameError, match="here: unknown PDDL domain"):
        check_domain(domain.read_text().replace("(heatable ?o)", "", 1), "here")
    assert read_grammar(grammar.read_text(), "here") == ("move", "UNKNOWN GOAL")
    with pytest.raises(GameError, match="here: unknown grammar"):
        read_grammar(grammar.read_text().replace("You close the", "You shut the"), "here")
    with pytest.raises(GameError, match="no sentence 'Your task is to"):
        read_grammar("grammar", "here")


def test_files_that_are_no_games(tmp_path):
    path = tmp_path / "task" / "trial" / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(GameError, match="pddl_domain, grammar and pddl_problem"):
        load_game_file(path)
    path.write_text("<html>")
    with pytest.raises(GameError, match="alfworld-download"):
        load_game_file(path)


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_real_games_are_read(alfworld_data, split):
    path = alfworld_data / f"{split}.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"{path} does not exist")
    games = [as_game(row) for row in load_packed(path)]
    assert len(games) == {"valid_seen": 140, "valid_unseen": 134}[split]
    assert {game.kind for game in games} == set(KINDS)
    for game in games:
        assert game.goal.objects
        assert game.goal.receptacles or game.goal.lamps
        assert game.initial.place == -1


def test_older_releases_are_known(alfworld_data):
    """Releases 0.2 and 0.3 differ from the files at hand in four sentences, in `help`, and in a line on sinks."""
    domain, grammar = (alfworld_data / name for name in ("domain.pddl", "grammar.twl2"))
    if not domain.is_file():
        pytest.skip(f"{alfworld_data} has no domain.pddl")
    rules = domain.read_text().replace("(receptacleType ?r SinkType)", ";(receptacleType ?r SinkType)")
    check_domain(rules, "0.4")
    check_domain(rules[: rules.index("(:action help")] + ")", "0.3")
    sentences = grammar.read_text()
    sentences = sentences[: sentences.index("action help {")]
    sentences = sentences.replace("You arrive at {r.name}.", "You arrive at {lend.name}.")
    sentences = sentences.replace("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}.")
    sentences = sentences.replace('"move {o} to {r}"', '"put {o} in/on {r}"')
    assert read_grammar(sentences, "0.3") == ("put", "UNKNOWN GOAL")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lzma.compress(b"{}")[:-9], "is damaged"),
        (lzma.compress(b"[" * 100_000), "line 1: expected a JSON object.*nested too deeply"),
        (lzma.compress(b"\xff\xff"), "line 1: expected a JSON object"),
        (lzma.compress(b"[1]"), "line 1: expected a JSON object, got"),
        (lzma.compress(b'{"id": 1, "task_desc": "", "pddl_problem": ""}'), "line 1: id is 1; expected a text"),
        (lzma.compress(b'{"id": "1", "task_desc": "", "pddl_problem": [], "wording": {}}'), "pddl_problem is"),
    ],
)
def test_a_packed_file_that_is_none_is_named(tmp_path, content, message):
    (tmp_path / "a.jsonl.xz").write_bytes(content)
    with pytest.raises(GameError, match=message):
        load_packed(tmp_path / "a.jsonl.xz")


def test_a_place_without_a_name_is_named(kitchen):
    problem = kitchen.problem().replace("loc_bar_1", "loc")
    with pytest.raises(GameError, match="the place 'loc' has no '_bar_' in its id"):
        parse_game(problem, id="kitchen", kind="pick_and_place_simple", description="tidy up.")
