"""The world: splits, tasks and names for generated and real games, and what it says when something is missing."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from pivotopd_jax.envs.alfworld.games import KINDS, GameError, as_game, load_packed
from pivotopd_jax.envs.alfworld.generator import generate_game
from pivotopd_jax.envs.alfworld.world import GENERATED, AlfWorld

LABELS = ["Pick", "Look", "Clean", "Heat", "Cool", "Pick2"]


def pack(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A directory of packed "real" games (drawn, so that no data is needed): one of each kind, in two splits."""
    for split in ("train", "valid_seen"):
        pack(tmp_path / f"{split}.jsonl", [generate_game(seed, kind=kind) for seed, kind in enumerate(KINDS)])
    return tmp_path


@pytest.fixture
def folders(alfworld_data: Path, tmp_path: Path) -> Path:
    """The first twelve seen games as alfworld-download lays them out."""
    if not (alfworld_data / "grammar.twl2").is_file():
        pytest.skip(f"{alfworld_data} holds no packed games to lay out as folders")
    domain = (alfworld_data / "domain.pddl").read_text(encoding="utf-8")
    grammar = (alfworld_data / "grammar.twl2").read_text(encoding="utf-8")
    for row in load_packed(alfworld_data / "valid_seen.jsonl.xz")[:12]:
        folder = tmp_path / "json_2.1.1" / "valid_seen" / row["id"]
        folder.mkdir(parents=True)
        game = {"pddl_domain": domain, "grammar": grammar.replace("UNKNOWN GOAL", row["task_desc"]), "solvable": True}
        game |= {"pddl_problem": row["pddl_problem"], "walkthrough": row["walkthrough"]}
        (folder / "game.tw-pddl").write_text(json.dumps(game), encoding="utf-8")
    return tmp_path


def first_file(folders: Path) -> Path:
    return sorted(folders.glob("json_2.1.1/valid_seen/*/*/game.tw-pddl"))[0]


def finish(world: AlfWorld, task) -> int:
    """Plays the planner's moves; returns how many it took."""
    env, turns = world.make(), 0
    env.reset(task)
    while not env.snapshot().won:
        action = world.planner.next_action(env.snapshot())
        assert action is not None
        env.step(action)
        turns += 1
    return turns


def test_generated_splits_are_lazy_sequences() -> None:
    world = AlfWorld(receptacles=8, distractors=3)
    assert world.name == "alfworld (generated, 8 receptacles, 3 distractors)"
    assert list(world.kinds) == LABELS
    assert list(world.splits) == list(GENERATED) == ["train", "valid", "test"]
    train = world.tasks("train")
    assert len(train) == 1_000_000
    assert [task.kind for task in train[:7]] == [*LABELS, "Pick"]
    assert train[-1].id == train[999_999].id
    assert len(train[10:20:3]) == 4
    assert train[3] == world.tasks("train")[3]
    with pytest.raises(IndexError):
        train[1_000_000]
    ids = {world.tasks(split)[i].id for split in world.splits for i in range(30)}
    assert len(ids) == 90


def test_generated_tasks_have_the_size_and_are_won_by_the_planner() -> None:
    world = AlfWorld("generated", receptacles=6, distractors=2)
    for task in world.tasks("valid")[:12]:
        game = as_game(task.source)
        assert game.id == task.id
        assert len(game.receptacle_names) == 6
        env = world.make()
        env.reset(task)
        assert finish(world, task) == world.planner.distance(env.snapshot())


def test_packed_games_by_path_and_by_variable(packed: Path, monkeypatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(packed))
    for world in (AlfWorld(packed), AlfWorld(str(packed)), AlfWorld("real")):
        assert world.name == "alfworld (real)"
        assert list(world.splits) == ["train", "valid_seen"]
        tasks = world.tasks("valid_seen")
        assert [task.kind for task in tasks] == LABELS
        assert [task.id for task in tasks] == [generate_game(s, kind=kind)["id"] for s, kind in enumerate(KINDS)]
        assert world.make().reset(tasks[0]).text.startswith("-= Welcome to TextWorld, ALFRED! =-")
        assert world.dropped == {"valid_seen": {}}


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ({"receptacles": 8}, "thinned to 8 receptacles"),
        ({"distractors": 0}, "thinned to 0 distractors"),
        ({"receptacles": 5, "distractors": 3}, "thinned to 5 receptacles, 3 distractors"),
    ],
)
def test_thinned_games_say_so_and_stay_solvable(packed: Path, size: dict[str, Any], words: str) -> None:
    world = AlfWorld(packed, **size)
    assert world.name == f"alfworld (real, {words})"
    tasks = world.tasks("train")
    assert [task.id for task in tasks] == [task.id for task in AlfWorld(packed).tasks("train")]
    for task, whole in zip(tasks, AlfWorld(packed).tasks("train"), strict=True):
        game, before = as_game(task.source), as_game(whole.source)
        assert len(game.receptacle_names) == min(size.get("receptacles", 99), len(before.receptacle_names))
        assert game.pickupable.bit_count() <= before.goal.count + size.get("distractors", 99)
        assert finish(world, task) > 0


def test_thinning_depends_on_the_seed_only(packed: Path) -> None:
    first, second, other = (
        [task.source["pddl_problem"] for task in AlfWorld(packed, receptacles=5, seed=seed).tasks("train")]
        for seed in (0, 0, 1)
    )
    assert first == second
    assert first != other


def test_games_that_cannot_be_thinned_are_left_out_and_reported(packed: Path, caplog) -> None:
    rows = load_packed(packed / "train.jsonl")
    rows[1]["pddl_problem"] = rows[1]["pddl_problem"].replace("(toggleable Desk", "(moveable Desk")
    pack(packed / "train.jsonl", rows)
    world = AlfWorld(packed, receptacles=8, distractors=3)
    with caplog.at_level(logging.WARNING):
        tasks = world.tasks("train")
    assert [task.kind for task in tasks] == ["Pick", "Clean", "Heat", "Cool", "Pick2"]
    assert list(world.dropped["train"]) == [rows[1]["id"]]
    assert "left out 1 of 6 games" in caplog.text
    assert "desklamp that can be switched on" in world.dropped["train"][rows[1]["id"]]


def test_a_broken_packed_game_raises_unless_skipped(packed: Path) -> None:
    rows = load_packed(packed / "train.jsonl")
    rows[2]["pddl_problem"] = "(define nothing)"
    pack(packed / "train.jsonl", rows)
    whole = AlfWorld(packed)
    with pytest.raises(GameError, match=rows[2]["id"]):
        whole.make().reset(whole.tasks("train")[2])
    with pytest.raises(GameError, match="skip_broken=True"):
        AlfWorld(packed, receptacles=8).tasks("train")
    for size in (None, 8):
        world = AlfWorld(packed, receptacles=size, skip_broken=True)
        assert len(world.tasks("train")) == 5
        assert list(world.dropped["train"]) == [rows[2]["id"]]


def test_folders_give_the_same_games_as_packed_files(folders: Path, alfworld_data: Path) -> None:
    tasks = {task.id: task for task in AlfWorld(folders).tasks("valid_seen")}
    rows = load_packed(alfworld_data / "valid_seen.jsonl.xz")[:12]
    assert sorted(tasks) == list(tasks) == sorted(row["id"] for row in rows)
    for row in rows:
        assert as_game(tasks[row["id"]].source) is as_game(row)
    task = tasks[rows[0]["id"]]
    assert pickle.loads(pickle.dumps(task)).source == task.source
    thinned = {task.id: task for task in AlfWorld(folders, receptacles=8, distractors=3).tasks("valid_seen")}
    reference = AlfWorld(alfworld_data, receptacles=8, distractors=3)
    assert reference.name == "alfworld (real, thinned to 8 receptacles, 3 distractors)"
    for task in reference.tasks("valid_seen")[:12]:
        assert thinned[task.id].source["pddl_problem"] == task.source["pddl_problem"]


def test_folders_that_are_no_alfworld_games_are_left_out(folders: Path) -> None:
    whole = AlfWorld(folders).tasks("valid_seen")
    file = first_file(folders)
    game = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**game, "solvable": False}), encoding="utf-8")
    sliced = file.parent.parent.with_name("pick_and_place_simple-TomatoSliced-None-Fridge-4") / "trial_1"
    movable = file.parent.parent.with_name("pick_and_place_with_movable_recep-Spoon-Mug-Sink-4") / "trial_1"
    for folder in (sliced, movable):
        folder.mkdir(parents=True)
        (folder / "game.tw-pddl").write_text("{}", encoding="utf-8")
    assert [task.id for task in AlfWorld(folders).tasks("valid_seen")] == [task.id for task in whole[1:]]


def test_a_broken_file_is_named_when_played_unless_skipped(folders: Path) -> None:
    file = first_file(folders)
    file.write_text(file.read_text(encoding="utf-8")[:1000], encoding="utf-8")
    world = AlfWorld(folders)
    tasks = world.tasks("valid_seen")
    with pytest.raises(GameError, match=str(file)):
        world.make().reset(tasks[0])
    with pytest.raises(GameError, match="skip_broken=True"):
        AlfWorld(folders, receptacles=8).tasks("valid_seen")
    skipping = AlfWorld(folders, skip_broken=True)
    assert [task.id for task in skipping.tasks("valid_seen")] == [task.id for task in tasks[1:]]
    assert list(skipping.dropped["valid_seen"]) == [tasks[0].id]


def test_missing_games_are_explained(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"ALFWORLD_DATA is not set; run alfworld-download"):
        AlfWorld("real")
    with pytest.raises(FileNotFoundError, match=r"no directory .*absent.*generated games, which need no data"):
        AlfWorld(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=r"expected json_2.1.1/<split>/<task>/<trial>/game.tw-pddl or"):
        AlfWorld(tmp_path)
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    with pytest.raises(GameError, match="no games in it"):
        AlfWorld(tmp_path).tasks("train")


def test_unknown_splits_and_sizes_are_explained(packed: Path) -> None:
    with pytest.raises(ValueError, match=r"has no split 'dev'; it has train, valid_seen"):
        AlfWorld(packed).tasks("dev")
    with pytest.raises(ValueError, match=r"has no split 'valid_seen'; it has train, valid, test"):
        AlfWorld().tasks("valid_seen")
    with pytest.raises(ValueError, match="at least 3"):
        AlfWorld(receptacles=1)


def test_all_held_out_real_games_survive_thinning(alfworld_data: Path) -> None:
    world = AlfWorld(alfworld_data, receptacles=8, distractors=3)
    assert len(world.tasks("valid_seen")) == 140
    assert len(world.tasks("valid_unseen")) == 134
    assert world.dropped == {"valid_seen": {}, "valid_unseen": {}}
