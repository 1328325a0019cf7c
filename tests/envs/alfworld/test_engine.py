"""The engine's sentences and lists, by hand from the grammar of the games and as the official engine recorded them."""

from __future__ import annotations

import json
import lzma
import pickle
import random

import pytest

from pivotopd_jax.envs.alfworld.engine import (
    NOTHING_HAPPENS,
    AlfWorldEnv,
    AlfWorldSnapshot,
    admissible,
    apply,
    intro,
    won,
)
from pivotopd_jax.envs.alfworld.games import GameError, indices_of, load_packed, parse_game
from pivotopd_jax.records import Task

EVERYWHERE = [
    "go to countertop 1",
    "go to drawer 1",
    "go to drawer 2",
    "go to fridge 1",
    "go to microwave 1",
    "go to sidetable 1",
    "go to sinkbasin 1",
]


def play(game, commands):
    """The state after `commands`, and what the last one said."""
    state, feedback = game.initial, None
    for command in commands:
        outcome = apply(game, state, command)
        assert outcome is not None, f"{command!r} is not admissible; these are: {admissible(game, state)}"
        state, feedback = outcome
    return state, feedback


def test_intro(kitchen):
    assert intro(kitchen.game()) == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a countertop 1, a drawer 2, a drawer 1, "
        "a fridge 1, a microwave 1, a sidetable 1, and a sinkbasin 1.\n\n"
        "Your task is to: tidy up."
    )


def test_commands_before_the_first_move(kitchen):
    game = kitchen.game()
    assert admissible(game, game.initial) == (*EVERYWHERE, "inventory", "look")
    assert admissible(game, game.initial, help=True) == (*EVERYWHERE, "help", "inventory", "look")


TAKE_APPLE = ["go to countertop 1", "take apple 1 from countertop 1"]
TAKE_KNIFE = ["go to countertop 1", "take knife 1 from countertop 1"]
SPOON_TO_OTHER_DRAWER = [
    *("go to drawer 1", "open drawer 2", "take spoon 1 from drawer 1", "move spoon 1 to drawer 2"),
]


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        (["look"], "You are in the middle of a room. Looking quickly around you, you see nothing."),
        (["inventory"], "You are not carrying anything."),
        (
            ["go to countertop 1"],
            "You arrive at countertop 1. On the countertop 1, you see a apple 1, a knife 1, a mug 2, a mug 1, "
            "and a plate 1.",
        ),
        (["go to fridge 1"], "You arrive at fridge 1. The fridge 1 is closed."),
        (["go to fridge 1", "open fridge 1"], "You open the fridge 1. The fridge 1 is open. In it, you see a bread 1."),
        (
            ["go to microwave 1", "open microwave 1"],
            "You open the microwave 1. The microwave 1 is open. In it, you see nothing.",
        ),
        (["go to fridge 1", "open fridge 1", "close fridge 1"], "You close the fridge 1."),
        (["go to sidetable 1", "examine sidetable 1"], "On the sidetable 1, you see a plate 1, and a statue 1."),
        (["go to drawer 1"], "You arrive at drawer 1. On the drawer 1, you see a spoon 1."),
        (["go to drawer 1", "look"], "You are facing the drawer 2, and drawer 1. Next to it, you see nothing."),
        (["go to drawer 1", "examine drawer 2"], "The drawer 2 is closed."),
        (TAKE_APPLE, "You pick up the apple 1 from the countertop 1."),
        ([*TAKE_APPLE, "inventory"], "You are carrying: a apple 1."),
        ([*TAKE_APPLE, "examine apple 1"], "There's nothing special about apple 1."),
        (
            [*TAKE_APPLE, "go to sidetable 1", "move apple 1 to sidetable 1"],
            "You move the apple 1 to the sidetable 1.",
        ),
        # An empty spot is named once an object lies there that was taken from one of the receptacles there.
        ([*SPOON_TO_OTHER_DRAWER, "look"], "You are facing the drawer 2, and drawer 1. Next to it, you see a spoon 1."),
        (
            [*SPOON_TO_OTHER_DRAWER, "take spoon 1 from drawer 2", "move spoon 1 to drawer 1", "look"],
            "You are facing the drawer 2, and drawer 1. Next to it, you see a spoon 1.",
        ),
        (
            [*TAKE_APPLE, "move apple 1 to countertop 1", "look"],
            "You are facing the countertop 1. Next to it, you see nothing.",
        ),
        # The lamp works inside the shut drawer, and never goes off again.
        (["go to drawer 1", "use desklamp 1"], "You turn on the desklamp 1."),
        (["go to drawer 1", "use desklamp 1", "use desklamp 1"], "You turn on the desklamp 1."),
        # Appliances work shut; heat drives out cold and the other way round; clean stays.
        (
            [*TAKE_APPLE, "go to microwave 1", "heat apple 1 with microwave 1"],
            "You heat the apple 1 using the microwave 1.",
        ),
        (
            [*TAKE_APPLE, "go to microwave 1", "heat apple 1 with microwave 1", "examine apple 1"],
            "This is a hot apple 1.",
        ),
        (
            [*TAKE_APPLE, "go to fridge 1", "cool apple 1 with fridge 1", "examine apple 1"],
            "This is a cold apple 1.",
        ),
        (
            [
                *(*TAKE_APPLE, "go to microwave 1", "heat apple 1 with microwave 1", "go to fridge 1"),
                *("cool apple 1 with fridge 1", "examine apple 1"),
            ],
            "This is a cold apple 1.",
        ),
        (
            [*TAKE_APPLE, "go to sinkbasin 1", "clean apple 1 with sinkbasin 1", "examine apple 1"],
            "This is a clean apple 1.",
        ),
        (
            [
                *(*TAKE_APPLE, "go to sinkbasin 1", "clean apple 1 with sinkbasin 1", "go to fridge 1"),
                *("cool apple 1 with fridge 1", "examine apple 1"),
            ],
            "This is a cool and clean apple 1.",
        ),
        (
            [
                *(*TAKE_APPLE, "go to sinkbasin 1", "clean apple 1 with sinkbasin 1", "go to microwave 1"),
                *("heat apple 1 with microwave 1", "examine apple 1"),
            ],
            "This is a hot and clean apple 1.",
        ),
        ([*TAKE_KNIFE, "slice apple 1 with knife 1"], "You sliced the apple 1 with the knife 1."),
        # What is in the shut fridge can be sliced too.
        ([*TAKE_KNIFE, "go to fridge 1", "slice bread 1 with knife 1"], "You sliced the bread 1 with the knife 1."),
        (
            [
                *(*TAKE_KNIFE, "slice apple 1 with knife 1", "go to drawer 1", "move knife 1 to drawer 1"),
                *("go to countertop 1", "take apple 1 from countertop 1", "examine apple 1"),
            ],
            "This is a sliced apple 1.",
        ),
        (
            [
                *(*TAKE_KNIFE, "slice apple 1 with knife 1", "go to drawer 1", "move knife 1 to drawer 1"),
                *("go to countertop 1", "take apple 1 from countertop 1", "go to fridge 1"),
                *("cool apple 1 with fridge 1", "examine apple 1"),
            ],
            "This is a cool sliced apple 1.",
        ),
        (
            ["go to fridge 1", "open fridge 1", "take bread 1 from fridge 1", "examine bread 1"],
            "This is a cold bread 1.",
        ),
        # A receptacle object never says that it is hot.
        (
            [
                *("go to countertop 1", "take mug 2 from countertop 1", "go to microwave 1"),
                *("heat mug 2 with microwave 1", "examine mug 2"),
            ],
            "This is a normal mug 2. In it, you see nothing.",
        ),
        (
            ["go to countertop 1", "take mug 1 from countertop 1", "examine mug 1"],
            "This is a normal mug 1. In it, you see a spoon 1.",
        ),
        (["  go to countertop 1\n", "\tinventory "], "You are not carrying anything."),
    ],
)
def test_sentences(kitchen, commands, said):
    assert play(kitchen.game(), commands)[1] == said


def test_a_thing_lies_beside_every_receptacle_it_was_taken_from(kitchen):
    """The grammar lists pairs (object, receptacle), so what was taken from both drawers is named twice."""
    problem = (
        kitchen.problem()
        .replace(
            "(inReceptacle Spoon_bar_1 Drawer_bar_2)",
            "(inReceptacle Spoon_bar_1 Drawer_bar_2) "
            "(inReceptacle Spoon_bar_1 Drawer_bar_3) (inReceptacle Spoon_bar_1 Drawer_bar_1) "
            "(receptacleType Drawer_bar_3 DrawerType) (receptacleAtLocation Drawer_bar_3 loc_bar_2)",
        )
        .replace("Drawer_bar_2 - ", "Drawer_bar_2 Drawer_bar_3 - ")
    )
    game = parse_game(problem, id="g", kind="pick_and_place_simple", description="d")
    taken_from_both = ["go to drawer 1", "take spoon 1 from drawer 1", "open drawer 3", "move spoon 1 to drawer 3"]
    taken_from_both += ["take spoon 1 from drawer 2", "move spoon 1 to drawer 3", "look"]
    expected = "You are facing the drawer 3, drawer 2, and drawer 1. Next to it, you see a spoon 1, and a spoon 1."
    assert play(game, taken_from_both)[1] == expected


def test_lists_at_a_shared_place(kitchen):
    game = kitchen.game()
    state, _ = play(game, ["go to drawer 1"])
    elsewhere = [command for command in EVERYWHERE if "drawer" not in command]
    assert admissible(game, state, help=True) == (
        *("examine drawer 1", "examine drawer 2", *elsewhere, "help", "inventory", "look", "open drawer 2"),
        *("take spoon 1 from drawer 1", "use desklamp 1"),
    )
    state, _ = play(game, ["go to drawer 2", "open drawer 2", "take spoon 1 from drawer 1"])
    assert admissible(game, state) == (
        *("close drawer 2", "examine drawer 1", "examine drawer 2", "examine spoon 1", *elsewhere, "inventory", "look"),
        *("move spoon 1 to drawer 1", "move spoon 1 to drawer 2", "use desklamp 1"),
    )


def test_lists_with_every_appliance(kitchen):
    game = kitchen.game()
    state, _ = play(game, [*TAKE_APPLE, "go to fridge 1"])
    elsewhere = [command for command in EVERYWHERE if "fridge" not in command]
    assert admissible(game, state) == (
        *("cool apple 1 with fridge 1", "examine apple 1", "examine fridge 1", *elsewhere),
        *("inventory", "look", "open fridge 1"),
    )
    state, _ = play(game, [*TAKE_KNIFE, "go to fridge 1"])
    assert admissible(game, state)[-4:] == ("inventory", "look", "open fridge 1", "slice bread 1 with knife 1")


def test_a_dead_end(kitchen):
    """No receptacle takes the statue: hands stay full for good."""
    game = kitchen.game()
    state, _ = play(game, ["go to sidetable 1", "take statue 1 from sidetable 1"])
    assert not any(command.startswith("move") for command in admissible(game, state))


def test_an_object_in_two_receptacles(kitchen):
    game = kitchen.game()
    state, _ = play(game, ["go to countertop 1", "take plate 1 from countertop 1"])
    plate = 1 << game.object_names.index("plate 1")
    assert [bool(mask & plate) for mask in state.contents] == [False, False, False, False, False, True, False]
    outcome = apply(game, state, "go to sidetable 1")
    assert outcome is not None
    assert outcome[1] == "You arrive at sidetable 1. On the sidetable 1, you see a plate 1, and a statue 1."


@pytest.mark.parametrize(
    "command",
    [
        *(
            "",
            " ",
            "go",
            "go to",
            "go to  countertop 1",
            "Go to countertop 1",
            "go to countertop",
            "go to countertop 1 now",
        ),
        *("go to drawer 1", "examine", "examine apple 1", "take apple 1", "take apple 1 from drawer 1", "take from"),
        *("take chair 1 from countertop 1", "move apple 1 to countertop 1", "put apple 1 in/on countertop 1"),
        *("open drawer 1", "close drawer 2", "take desklamp 1 from drawer 2", "use spoon 1", "use", "use desklamp 2"),
        *("heat apple 1 with microwave 1", "clean", "slice apple 1 with knife 1", "slice apple 1 with", "look around"),
        *(
            "inventory 1",
            "help me",
            "examine fridge 1",
            "open fridge 1",
            "\0",
            "go to кухня 1",
            "𝒈𝒐 to fridge 1",
            "\ud800",
        ),
        *("take" * 500_000, "go to " + "x" * 1_000_000, "take " + "from " * 100_000),
    ],
    ids=lambda command: repr(command[:30]),
)
def test_everything_else_changes_nothing(kitchen, command):
    game = kitchen.game()
    env = AlfWorldEnv()
    env.reset(Task("t", game.kind, game))
    env.step("go to drawer 2")
    before = env.snapshot()
    assert not env.accepts(command)
    result = env.step(command)
    assert result.observation.text == NOTHING_HAPPENS
    assert (result.reward, result.done, result.won) == (0.0, False, False)
    assert result.observation.admissible == before.observation.admissible
    assert env.snapshot().state == before.state


def vocabulary(game):
    """Every sentence of every template over the names of the game."""
    things, places = game.object_names, game.receptacle_names
    yield from ("look", "inventory", "help")
    for place in places:
        yield from (f"{verb} {place}" for verb in ("go to", "open", "close", "examine"))
    for thing in things:
        yield from (f"{verb} {thing}" for verb in ("examine", "use"))
        yield from (f"take {thing} from {place}" for place in places)
        yield from (f"move {thing} to {place}" for place in places)
        yield from (f"{verb} {thing} with {place}" for verb in ("heat", "cool", "clean") for place in places)
        yield from (f"slice {thing} with {other}" for other in things)


def test_a_command_is_carried_out_exactly_when_it_is_listed(kitchen):
    game = kitchen.game("pick_two_obj_and_place")
    commands, chance = sorted(vocabulary(game)), random.Random(0)
    state = game.initial
    for _ in range(400):
        listed = admissible(game, state, help=True)
        assert listed == tuple(c for c in commands if apply(game, state, c) is not None)
        outcome = apply(
            game, state, chance.choice([c for c in listed if chance.random() < 0.2 or not c.startswith("go")])
        )
        assert outcome is not None
        state = outcome[0]
        if won(game, state):
            state = game.initial


@pytest.mark.parametrize(
    ("kind", "commands"),
    [
        ("pick_and_place_simple", [*TAKE_APPLE, "go to sidetable 1", "move apple 1 to sidetable 1"]),
        (
            "pick_clean_then_place_in_recep",
            [
                *(*TAKE_APPLE, "go to sinkbasin 1", "clean apple 1 with sinkbasin 1"),
                *("go to sidetable 1", "move apple 1 to sidetable 1"),
            ],
        ),
        (
            "pick_heat_then_place_in_recep",
            [
                *(*TAKE_APPLE, "go to fridge 1", "cool apple 1 with fridge 1", "go to microwave 1"),
                *("heat apple 1 with microwave 1", "go to sidetable 1", "move apple 1 to sidetable 1"),
            ],
        ),
        (
            "pick_cool_then_place_in_recep",
            [
                *TAKE_APPLE,
                "go to fridge 1",
                "cool apple 1 with fridge 1",
                "go to sidetable 1",
                "move apple 1 to sidetable 1",
            ],
        ),
        (
            "pick_two_obj_and_place",
            [
                *("go to countertop 1", "take mug 1 from countertop 1", "go to microwave 1", "open microwave 1"),
                *("move mug 1 to microwave 1", "go to countertop 1", "take mug 2 from countertop 1"),
                *("go to microwave 1", "move mug 2 to microwave 1"),
            ],
        ),
        ("look_at_obj_in_light", ["go to drawer 1", "use desklamp 1", "take spoon 1 from drawer 1"]),
        ("look_at_obj_in_light", ["go to drawer 1", "take spoon 1 from drawer 1", "use desklamp 1"]),
    ],
)
def test_winning(kitchen, kind, commands):
    game = kitchen.game(kind)
    env = AlfWorldEnv()
    env.reset(Task("t", kind, game))
    results = [env.step(command) for command in commands]
    assert [(r.reward, r.done, r.won) for r in results[:-1]] == [(0.0, False, False)] * (len(commands) - 1)
    assert (results[-1].reward, results[-1].done, results[-1].won) == (1.0, True, True)
    assert not env.accepts("look")
    with pytest.raises(RuntimeError, match="after the episode was won"):
        env.step("look")


def test_losing_the_property_or_leaving_the_lamp_is_not_winning(kitchen):
    game = kitchen.game("pick_heat_then_place_in_recep")
    undone = [*TAKE_APPLE, "go to microwave 1", "heat apple 1 with microwave 1", "go to fridge 1"]
    undone += ["cool apple 1 with fridge 1", "go to sidetable 1", "move apple 1 to sidetable 1"]
    assert not won(game, play(game, undone)[0])
    game = kitchen.game("look_at_obj_in_light")
    away = ["go to drawer 1", "use desklamp 1", "go to fridge 1"]
    assert not won(game, play(game, away)[0])
    assert not won(game, play(game, ["go to drawer 1", "use desklamp 1"])[0])


def test_a_held_object_can_still_count_as_placed(kitchen):
    """The apple starts in two receptacles, one of them the goal: taken from the other and cleaned, it has won."""
    kind = "pick_clean_then_place_in_recep"
    problem = kitchen.problem(kind).replace("(isCool Bread_bar_1)", "(inReceptacle Apple_bar_1 SideTable_bar_1)")
    game = parse_game(problem, id="g", kind=kind, description="d")
    state, _ = play(game, [*TAKE_APPLE, "go to sinkbasin 1"])
    assert not won(game, state)
    outcome = apply(game, state, "clean apple 1 with sinkbasin 1")
    assert outcome is not None
    assert won(game, outcome[0])


def test_what_has_been_observed(kitchen):
    """A receptacle counts once its contents were printed: not its neighbours', and not a shut one's."""
    game = kitchen.game()

    def seen(*commands):
        return {game.receptacle_names[r] for r in indices_of(play(game, commands)[0].observed)}

    assert seen() == set()
    assert seen("go to countertop 1", "go to fridge 1", "examine fridge 1", "look") == {"countertop 1"}
    assert seen("go to fridge 1", "open fridge 1") == {"fridge 1"}
    assert seen("go to fridge 1", "open fridge 1", "close fridge 1") == {"fridge 1"}
    assert seen("go to drawer 2") == set()
    assert seen("go to drawer 2", "examine drawer 1") == {"drawer 1"}


def test_the_wording_of_older_releases(kitchen):
    game = kitchen.game(wording="put")
    put = [*TAKE_APPLE, "go to sidetable 1"]
    # The player's first spot is loc 7, so loc_bar_5 is loc 2.
    assert play(game, put)[1] == "You arrive at loc 2. On the sidetable 1, you see a plate 1, and a statue 1."
    state, said = play(game, [*put, "put apple 1 in/on sidetable 1"])
    assert said == "You put the apple 1 in/on the sidetable 1."
    assert won(game, state)
    state, _ = play(game, put)
    assert "put apple 1 in/on sidetable 1" in admissible(game, state)
    assert apply(game, state, "move apple 1 to sidetable 1") is None
    assert apply(game, state, "help") is None
    assert "help" not in admissible(game, state, help=True)


def test_help(kitchen):
    _, said = play(kitchen.game(), ["help"])
    assert said is not None
    assert said.startswith("Available commands:\n  look: ")
    assert said.endswith("slice (object) with (object):     slice an object using a sharp object\n")
    env = AlfWorldEnv()
    shown = env.reset(Task("t", "pick_and_place_simple", kitchen.game()))
    assert shown.admissible is not None
    assert "help" not in shown.admissible
    assert env.accepts("help")


def test_a_player_that_starts_at_a_receptacle(kitchen):
    problem = kitchen.problem().replace("(atLocation agent1 loc_bar_0)", "(atLocation agent1 loc_bar_2)")
    game = parse_game(problem, id="g", kind="pick_and_place_simple", description="d")
    assert "\n\nYou are facing the drawer 2, and drawer 1. Next to it, you see nothing.\n\n" in intro(game)
    assert "go to drawer 1" not in admissible(game, game.initial)


def test_snapshots_restore_everything(kitchen):
    game = kitchen.game()
    env = AlfWorldEnv()
    env.reset(Task("t", game.kind, game))
    shown = env.step("go to countertop 1").observation
    snapshot = env.snapshot()
    first = [
        env.step(c) for c in ("take apple 1 from countertop 1", "go to sidetable 1", "move apple 1 to sidetable 1")
    ]
    other = AlfWorldEnv()
    for again in (env, other):
        assert again.restore(snapshot) == shown
        assert again.snapshot() == snapshot
        second = [
            again.step(c)
            for c in ("take apple 1 from countertop 1", "go to sidetable 1", "move apple 1 to sidetable 1")
        ]
        assert second == first
    copy = pickle.loads(pickle.dumps(snapshot))
    assert copy == snapshot
    assert hash(copy) == hash(snapshot)
    assert copy.game is game


def test_misuse_is_reported(kitchen):
    env = AlfWorldEnv()
    for call in (lambda: env.step("look"), env.snapshot, lambda: env.accepts("look")):
        with pytest.raises(RuntimeError, match="no episode is running"):
            call()
    with pytest.raises(TypeError, match="expected an AlfWorldSnapshot, got str"):
        env.restore("x")
    with pytest.raises(GameError, match="expected a Game or a packed row"):
        env.reset(Task("t", "k", 7))


def test_tables_stay_small(kitchen):
    """A game played for long keeps a bounded number of strings."""
    game = kitchen.game("look_at_obj_in_light")
    chance, state = random.Random(1), game.initial
    for _ in range(20_000):
        outcome = apply(game, state, chance.choice(admissible(game, state)))
        assert outcome is not None
        state = outcome[0]
    tables = [table for table in vars(game.cache["phrases"]).values() if isinstance(table, dict)]
    assert len(tables) == 5
    assert max(len(table) for table in tables) <= 128


def test_recorded_episodes_of_the_official_engine(alfworld_data):
    recorded = alfworld_data / "golden_traces.jsonl.xz"
    if not recorded.is_file():
        pytest.skip(f"{recorded} does not exist")
    with lzma.open(recorded, "rt") as file:
        episodes = [json.loads(line) for line in file]
    rows = {}
    for split in {episode["game"].split("/")[0] for episode in episodes}:
        rows |= {f"{split}/{row['id']}": row for row in load_packed(alfworld_data / f"{split}.jsonl.xz")}
    env, steps = AlfWorldEnv(list_help=True), 0
    for episode in episodes:
        shown = env.reset(Task(episode["game"], "k", rows[episode["game"]]))
        assert (shown.text, list(shown.admissible or ())) == (episode["intro"], episode["admissible"])
        for step in episode["steps"]:
            assert env.accepts(step["action"]) == (step["feedback"] != NOTHING_HAPPENS)
            result = env.step(step["action"])
            got = (
                result.observation.text,
                list(result.observation.admissible or ()),
                result.won,
                result.done,
                result.reward,
            )
            assert got == (step["feedback"], step["admissible"], step["won"], step["done"], step["reward"])
            steps += 1
    assert (len(episodes), steps) == (257, 3937)


def test_shipped_walkthroughs_win(alfworld_data):
    path = alfworld_data / "valid_unseen.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"{path} does not exist")
    env = AlfWorldEnv()
    for row in load_packed(path):
        env.reset(Task(row["id"], "k", row))
        results = [env.step(command) for command in row["walkthrough"]]
        assert results[-1].won, row["id"]
        assert isinstance(env.snapshot(), AlfWorldSnapshot)
