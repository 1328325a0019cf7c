"""The planner against plain breadth-first search, the shipped walkthroughs, the official planner, and by hand."""

from __future__ import annotations

import json
import lzma
import math
import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from pivotopd_jax.envs.alfworld.bound import lower_bound
from pivotopd_jax.envs.alfworld.engine import AlfWorldEnv, AlfWorldSnapshot, admissible, apply, won
from pivotopd_jax.envs.alfworld.games import KINDS, Game, Goal, State, as_game, load_packed, mask_of
from pivotopd_jax.envs.alfworld.generator import generate_game
from pivotopd_jax.envs.alfworld.planner import AlfWorldPlanner
from pivotopd_jax.envs.alfworld.reading import read
from pivotopd_jax.envs.alfworld.thinning import thin_problem
from pivotopd_jax.envs.protocol import SearchLimit
from pivotopd_jax.records import Observation, Task

POINTLESS = ("close", "examine", "help", "inventory", "look")
PROPERTIES: dict[str, Literal["clean", "hot", "cool"]] = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "hot",
    "pick_cool_then_place_in_recep": "cool",
}


def moment(game: Game, state: State | None = None) -> AlfWorldSnapshot:
    state = game.initial if state is None else state
    return AlfWorldSnapshot(game, state, Observation(""), won(game, state), won(game, state))


def after(game: Game, *commands: str) -> AlfWorldSnapshot:
    state = game.initial
    for command in commands:
        outcome = apply(game, state, command)
        assert outcome is not None, command
        state = outcome[0]
    return moment(game, state)


def breadth_first(game: Game, state: State, limit: int = 3000) -> float | None:
    """The distance by plain search over the engine's own commands; None beyond `limit` states."""
    queue, seen = deque([(state, 0)]), {state[:8]}
    while queue:
        state, turns = queue.popleft()
        if won(game, state):
            return turns
        for command in admissible(game, state):
            outcome = None if command.startswith(POINTLESS) else apply(game, state, command)
            if outcome is not None and outcome[0][:8] not in seen:
                seen.add(outcome[0][:8])
                queue.append((outcome[0], turns + 1))
        if len(seen) > limit:
            return None
    return math.inf


def of_type(names: Sequence[str], name: str) -> int:
    return mask_of(i for i, other in enumerate(names) if other == name)


def random_game(rng: random.Random) -> Game:
    """A tiny game of any kind and in any state: things in two receptacles, fixed, held, done before; shared places."""
    kind = rng.choice(KINDS)
    look, two = kind.startswith("look"), kind.startswith("pick_two")
    objects = ["thing", "thing" if two else "junk", *rng.choices(["thing", "junk"], k=rng.randint(0, 2))]
    objects += ["lamp"] * (rng.randint(1, 2) if look else 0)
    receptacles = rng.choices(["goal", "shelf", "sinkbasin", "microwave", "fridge"], k=rng.randint(3, 5))
    places = rng.randint(2, 3)
    place = tuple([*range(places), *rng.choices(range(places), k=len(receptacles) - places)])
    takes = {(r, o): rng.random() < 0.8 for r in receptacles for o in objects}

    def some(names: Sequence[str], share: float) -> int:
        return mask_of(i for i, name in enumerate(names) if name != "lamp" and rng.random() < share)

    able, lamps = some(objects, 0.95), of_type(objects, "lamp")
    goal = Goal(
        objects=of_type(objects, "thing") & able,
        receptacles=0 if look else of_type(receptacles, "goal"),
        count=2 if two else 1,
        property=PROPERTIES.get(kind),
        lamps=lamps,
    )
    pickupable, openable = some(objects, 0.95), some(receptacles, 0.5)
    contents, holding = [0] * len(receptacles), -1
    for o in range(len(objects)):
        if holding < 0 and pickupable >> o & 1 and rng.random() < 0.3:
            holding = o
        for _ in range(rng.choice([0, 1]) if holding == o else rng.choice([1, 1, 2])):
            contents[rng.randrange(len(receptacles))] |= 1 << o
    initial = State(
        place=rng.randrange(-1, places),
        holding=holding,
        opened=openable & some(receptacles, 0.3),
        contents=tuple(contents),
        clean=some(objects, 0.2),
        hot=some(objects, 0.2),
        cool=some(objects, 0.2),
        toggled=lamps & rng.getrandbits(len(objects)),
        sliced=0,
        observed=0,
        located=(0,) * places,
        removed=(0,) * len(receptacles),
    )
    return Game(
        id="tiny",
        kind=kind,
        description="",
        object_names=tuple(f"{name} {i}" for i, name in enumerate(objects)),
        receptacle_names=tuple(f"{name} {i}" for i, name in enumerate(receptacles)),
        place_names=tuple(f"loc {i}" for i in range(places)),
        object_types=tuple(objects),
        receptacle_types=tuple(receptacles),
        place=place,
        at_place=tuple(mask_of(r for r, there in enumerate(place) if there == p) for p in range(places)),
        openable=openable,
        sinks=of_type(receptacles, "sinkbasin"),
        microwaves=of_type(receptacles, "microwave"),
        fridges=of_type(receptacles, "fridge"),
        pickupable=pickupable,
        cleanable=able,
        heatable=able,
        coolable=able,
        toggleable=lamps,
        sliceable=0,
        knives=0,
        receptacle_objects=0,
        accepts=tuple(mask_of(o for o, other in enumerate(objects) if takes[name, other]) for name in receptacles),
        inside=(0,) * len(objects),
        goal=goal,
        initial=initial,
        wording="move",
    )


def visible(state: State, known: int) -> State:
    """The state with only what is in `known` receptacles."""
    return state._replace(contents=tuple(mask if known >> r & 1 else 0 for r, mask in enumerate(state.contents)))


def wander(rng: random.Random, game: Game, turns: int) -> State:
    """A state some way into the game; half of the commands do something to an object or a door."""
    state = game.initial
    for _ in range(turns):
        commands = admissible(game, state)
        doing = [command for command in commands if not command.startswith((*POINTLESS, "go"))]
        outcome = apply(game, state, rng.choice(doing if doing and rng.random() < 0.5 else commands))
        assert outcome is not None
        state = outcome[0]
    return state


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_distances_equal_breadth_first_search(first):
    planner, outcomes = AlfWorldPlanner(), Counter()
    for seed in range(first, first + 50):
        game = random_game(random.Random(seed))
        expected = breadth_first(game, game.initial)
        if expected is None:
            continue
        assert planner.distance(moment(game)) == expected, seed
        reading = read(game, game.initial)
        bound = lower_bound(reading.layout.aim, reading.situation())
        assert bound <= expected, seed
        assert (bound == 0) == (expected == 0), seed
        outcomes[expected] += 1
    assert outcomes.total() > 30
    assert outcomes[math.inf] > 3


@pytest.mark.parametrize("seed", range(60))
def test_distances_equal_breadth_first_search_in_generated_rooms(seed):
    rng = random.Random(seed)
    game = as_game(generate_game(seed, receptacles=6, distractors=1))
    state = wander(rng, game, rng.randrange(12))
    expected = breadth_first(game, state, limit=20_000)
    if expected is not None:
        assert AlfWorldPlanner().distance(moment(game, state)) == expected


@pytest.mark.parametrize("seed", range(60))
def test_known_receptacles_are_all_that_a_plan_uses(seed):
    rng = random.Random(seed)
    game = random_game(rng)
    known = rng.getrandbits(len(game.place))
    expected = breadth_first(game, visible(game.initial, known))
    if expected is not None:
        assert AlfWorldPlanner().distance(moment(game), known) == (0 if won(game, game.initial) else expected)


@pytest.mark.parametrize("seed", range(100))
def test_next_action_comes_one_turn_nearer(seed):
    planner, game = AlfWorldPlanner(), random_game(random.Random(seed))
    now = moment(game)
    distance = planner.distance(now)
    assert (planner.next_action(now) is None) == (distance in (0, math.inf))
    while 0 < distance < math.inf:
        command = planner.next_action(now)
        assert command is not None
        outcome = apply(game, now.state, command)
        assert outcome is not None, command
        now = moment(game, outcome[0])
        assert planner.distance(now) == distance - 1
        distance -= 1
    assert now.won == (distance == 0)


def test_answers_do_not_depend_on_earlier_questions():
    games = [random_game(random.Random(seed)) for seed in range(60)]
    busy = AlfWorldPlanner()
    before = [busy.next_action(moment(game)) for game in games]
    again = [busy.next_action(moment(game)) for game in reversed(games)][::-1]
    fresh = [AlfWorldPlanner().next_action(moment(game)) for game in games]
    assert before == again == fresh


def test_a_spent_budget_is_no_answer(kitchen):
    with pytest.raises(SearchLimit):
        AlfWorldPlanner(budget=1).distance(moment(kitchen.game()))


def test_the_oracle_knows_where_things_are(kitchen):
    planner, start = AlfWorldPlanner(), moment(kitchen.game("pick_heat_then_place_in_recep"))
    assert planner.distance(start) == 6
    assert planner.distance(start, known=0) == math.inf
    assert planner.next_action(start) == "go to countertop 1"


def played(planner: AlfWorldPlanner, game: Game, state: State | None = None, turns: int = 30) -> list[str]:
    """What the expert does, knowing what it has observed."""
    now, commands = moment(game, state), []
    while len(commands) < turns and (command := planner.next_action(now, planner.observed(now))) is not None:
        outcome = apply(game, now.state, command)
        assert outcome is not None, command
        now = moment(game, outcome[0])
        commands.append(command)
    return commands


def test_the_expert_explores_then_acts(kitchen):
    # An apple is likely on a side table, but then the game would have been won.
    assert played(AlfWorldPlanner(), kitchen.game("pick_and_place_simple")) == [
        "go to countertop 1",
        "take apple 1 from countertop 1",
        "go to sidetable 1",
        "move apple 1 to sidetable 1",
    ]
    assert played(AlfWorldPlanner(), kitchen.game("pick_clean_then_place_in_recep")) == [
        "go to sidetable 1",
        "go to countertop 1",
        "take apple 1 from countertop 1",
        "go to sinkbasin 1",
        "clean apple 1 with sinkbasin 1",
        "go to sidetable 1",
        "move apple 1 to sidetable 1",
    ]


def test_the_expert_places_one_before_it_has_found_the_other(kitchen):
    game = kitchen.game("pick_two_obj_and_place")
    start = after(game, "go to sinkbasin 1")
    hidden = 1 << game.receptacle_names.index("countertop 1")
    contents = list(game.initial.contents)
    contents[game.receptacle_names.index("fridge 1")] |= 1 << game.object_names.index("mug 2")
    contents[game.receptacle_names.index("countertop 1")] &= ~(1 << game.object_names.index("mug 2"))
    state = start.state._replace(contents=tuple(contents), observed=hidden)
    assert played(AlfWorldPlanner(), game, state) == [
        "go to countertop 1",
        "take mug 1 from countertop 1",
        "go to microwave 1",
        "open microwave 1",
        "move mug 1 to microwave 1",
        # A mug is rarely in the sink, but a look at it is cheap; side table and sink come before the fridge.
        "go to sidetable 1",
        "go to sinkbasin 1",
        "go to fridge 1",
        "open fridge 1",
        "take mug 2 from fridge 1",
        "go to microwave 1",
        "move mug 2 to microwave 1",
    ]


def test_the_expert_takes_the_object_along_to_a_lamp_not_yet_found(kitchen):
    game = kitchen.game("look_at_obj_in_light")
    spoon_drawer = game.receptacle_names.index("drawer 1")
    commands = played(AlfWorldPlanner(), game, game.initial._replace(observed=1 << spoon_drawer))
    assert commands == [
        "go to drawer 1",
        "take spoon 1 from drawer 1",
        "go to sidetable 1",  # lamps stand on side tables more often than anywhere else in this kitchen
        "go to countertop 1",
        "go to drawer 2",
        "open drawer 2",
        "use desklamp 1",
    ]


def test_what_is_in_the_way_is_put_down(kitchen):
    planner, game = AlfWorldPlanner(), kitchen.game()
    here = after(game, "go to countertop 1", "take knife 1 from countertop 1")
    assert planner.distance(here) == 4
    for known in (None, here.state.observed):
        assert planner.next_action(here, known) == "move knife 1 to countertop 1"
    away = after(game, "go to countertop 1", "take knife 1 from countertop 1", "go to fridge 1")
    assert planner.next_action(away, away.state.observed) == "go to countertop 1"
    # Drawers take knives as well; once the counter top has been seen without an apple, a drawer may yet hold one.
    eaten = moment(game, visible(away.state, 0))
    assert planner.next_action(eaten, eaten.state.observed) == "go to drawer 1"
    old = kitchen.game(wording="put")
    assert planner.next_action(after(old, "go to countertop 1", "take knife 1 from countertop 1")) == (
        "put knife 1 in/on countertop 1"
    )


def test_dead_ends_are_known_as_such(kitchen):
    planner = AlfWorldPlanner()
    stuck = after(kitchen.game(), "go to sidetable 1", "take statue 1 from sidetable 1")
    for known in (None, 0, stuck.state.observed):
        assert planner.distance(stuck, known) == math.inf
        assert planner.next_action(stuck, known) is None


def test_a_game_without_its_object_ends_when_all_has_been_seen(kitchen):
    game = kitchen.game()
    apple = 1 << game.object_names.index("apple 1")
    state = game.initial._replace(contents=tuple(mask & ~apple for mask in game.initial.contents))
    commands = played(AlfWorldPlanner(), game, state)
    assert AlfWorldPlanner().distance(moment(game, state)) == math.inf
    assert len(commands) == 9  # seven receptacles at six places, three of them shut
    assert commands[-1] == "go to sidetable 1"


def test_a_won_game_is_over_whatever_is_known(kitchen):
    won_game = after(
        kitchen.game(),
        *("go to countertop 1", "take apple 1 from countertop 1", "go to sidetable 1", "move apple 1 to sidetable 1"),
    )
    assert AlfWorldPlanner().distance(won_game, known=0) == 0
    assert AlfWorldPlanner().next_action(won_game, known=0) is None


def test_goals_of_no_known_form_are_refused(kitchen):
    game = kitchen.game("look_at_obj_in_light")
    loose = replace(game, pickupable=game.pickupable | game.goal.lamps)
    with pytest.raises(ValueError, match="lamps cannot be picked up"):
        AlfWorldPlanner().distance(moment(loose))


def wins(rows: Iterable[Mapping[str, Any]], turns: int = 30) -> float:
    """Share of games that the expert wins in time."""
    results = []
    for row in rows:
        game, planner = as_game(row), AlfWorldPlanner()
        state = game.initial
        for command in played(planner, game, turns=turns):
            outcome = apply(game, state, command)
            assert outcome is not None
            state = outcome[0]
        results.append(won(game, state))
    return sum(results) / len(results)


def test_the_expert_wins_generated_games():
    assert wins(generate_game(seed, kind=KINDS[seed % 6]) for seed in range(120)) >= 0.97


def test_the_expert_can_search_as_the_first_text_lists():
    """Every receptacle that is gone to before the object was seen is the next one of the list."""
    planner, searched = AlfWorldPlanner(search="listed"), 0
    for seed in range(0, 60, 6):
        game = as_game(generate_game(seed, kind="pick_and_place_simple", receptacles=6, distractors=2))
        commands = played(planner, game)
        gone = [c.removeprefix("go to ") for c in commands[: [c.split()[0] for c in commands].index("take")]]
        gone = [name for name in gone if name in game.receptacle_names]
        targets = [n for r, n in enumerate(game.receptacle_names) if game.goal.receptacles >> r & 1]
        assert gone == [n for n in game.receptacle_names if n not in targets][: len(gone)]
        searched += len(gone)
    assert searched > 15


def test_an_unknown_search_order_is_refused():
    with pytest.raises(ValueError, match="search 'random' is not known; choose one of likeliest, listed"):
        AlfWorldPlanner(search="random")  # type: ignore[arg-type]


def test_the_expert_wins_small_generated_games():
    assert wins(generate_game(seed, kind=KINDS[seed % 6], receptacles=8, distractors=3) for seed in range(120)) == 1


@pytest.fixture(scope="module")
def held_out(alfworld_data: Path) -> list[dict[str, Any]]:
    return [row for split in ("valid_seen", "valid_unseen") for row in load_packed(alfworld_data / f"{split}.jsonl.xz")]


def test_distances_equal_the_lengths_of_the_shipped_walkthroughs(held_out):
    planner = AlfWorldPlanner()
    lengths = [planner.distance(moment(as_game(row))) for row in held_out]
    assert lengths == [len(row["walkthrough"]) for row in held_out]
    assert len(lengths) == 274


def test_the_expert_wins_the_held_out_games(held_out):
    assert wins(held_out) >= 0.97


@pytest.mark.parametrize("seed", range(40))
def test_distances_equal_breadth_first_search_in_thinned_real_rooms(held_out, seed):
    rng = random.Random(seed)
    row = rng.choice(held_out)
    game = as_game({**row, "pddl_problem": thin_problem(row["pddl_problem"], receptacles=7, distractors=1, seed=seed)})
    state = wander(rng, game, rng.randrange(20))
    expected = breadth_first(game, state, limit=20_000)
    if expected is not None:
        assert AlfWorldPlanner().distance(moment(game, state)) == expected


def test_distances_equal_the_official_planner(alfworld_data):
    """`planner_length` is the plan length of Fast Downward; 0 where it found no plan, and where none is needed."""
    rows = {
        f"{split}/{row['id']}": row
        for split in ("valid_seen", "valid_unseen", "train")
        for row in load_packed(alfworld_data / f"{split}.jsonl.xz")
    }
    with lzma.open(alfworld_data / "golden_traces.jsonl.xz", "rt", encoding="utf-8") as file:
        traces = [json.loads(line) for line in file]
    planner, compared = AlfWorldPlanner(), Counter()
    for trace in traces:
        env = AlfWorldEnv()
        env.reset(Task(trace["game"], "", rows[trace["game"]]))
        for step in trace["steps"]:
            env.step(step["action"])
            if "planner_length" in step:
                expected = step["planner_length"] or (0 if step["won"] else math.inf)
                assert planner.distance(env.snapshot()) == expected, trace["game"]
                compared[expected] += 1
    assert compared.total() > 200
    assert compared[math.inf] > 0
