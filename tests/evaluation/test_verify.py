"""Replaying recordings: agreement is counted, and every kind of disagreement is found and named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pivotopd_jax.evaluation.verify import verify_alfworld

SCRIPT = Path(__file__).parents[2] / "launch" / "verify_env.py"
GAME = "pick_and_place_simple-Apple-None-Shelf-1/trial_1"
PROBLEM = """(define (problem p) (:domain alfred)
(:objects agent1 - agent loc_bar_0 - location loc_bar_1 - location loc_bar_2 - location
  Apple_bar_1 - object Table_bar_1 - receptacle Shelf_bar_1 - receptacle)
(:init (atLocation agent1 loc_bar_0) (receptacleType Table_bar_1 TableType) (receptacleType Shelf_bar_1 ShelfType)
  (receptacleAtLocation Table_bar_1 loc_bar_1) (receptacleAtLocation Shelf_bar_1 loc_bar_2)
  (objectType Apple_bar_1 AppleType) (pickupable Apple_bar_1) (canContain ShelfType AppleType)
  (canContain TableType AppleType) (inReceptacle Apple_bar_1 Table_bar_1) (objectAtLocation Apple_bar_1 loc_bar_1))
(:goal (and (exists (?r - receptacle) (exists (?o - object) (and (inReceptacle ?o ?r) (objectType ?o AppleType)
  (receptacleType ?r ShelfType)))))))
"""


def recording():
    """What the official engine says in this game: two steps, an inadmissible command, two steps to the end."""
    intro = (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
    )
    intro += "a shelf 1, and a table 1.\n\nYour task is to: put a apple in shelf."
    go_shelf, go_table = "go to shelf 1", "go to table 1"
    start = [go_shelf, go_table, "help", "inventory", "look"]
    at_table = ["examine table 1", go_shelf, "help", "inventory", "look", "take apple 1 from table 1"]
    held = ["examine apple 1", "examine table 1", go_shelf, "help", "inventory", "look", "move apple 1 to table 1"]
    at_shelf = ["examine apple 1", "examine shelf 1", go_table, "help", "inventory", "look", "move apple 1 to shelf 1"]
    placed = ["examine shelf 1", go_table, "help", "inventory", "look", "take apple 1 from shelf 1"]
    rows = [
        (go_table, "You arrive at table 1. On the table 1, you see a apple 1.", at_table, 3),
        ("take apple 1 from table 1", "You pick up the apple 1 from the table 1.", held, None),
        ("dance", "Nothing happens.", held, 2),
        (go_shelf, "You arrive at shelf 1. On the shelf 1, you see nothing.", at_shelf, None),
        ("move apple 1 to shelf 1", "You move the apple 1 to the shelf 1.", placed, 0),
    ]
    steps = [
        {"action": action, "feedback": said, "admissible": listed, "won": action.startswith("move")}
        | ({} if length is None else {"planner_length": length})
        for action, said, listed, length in rows
    ]
    return {"game": f"valid_seen/{GAME}", "kind": "walkthrough", "intro": intro, "admissible": start, "steps": steps}


@pytest.fixture
def data(tmp_path):
    row = {"id": GAME, "task_desc": "put a apple in shelf.", "walkthrough": [], "pddl_problem": PROBLEM}
    (tmp_path / "valid_seen.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


def write(folder, episode):
    path = folder / "episodes.jsonl"
    path.write_text(json.dumps(episode) + "\n")
    return path


def test_everything_agrees(data):
    agreement = verify_alfworld(write(data, recording()), data)
    assert json.loads(agreement.to_json()) == {
        "episodes": 1,
        "steps": 5,
        "intro_equal": 1,
        "observation_equal": 5,
        "admissible_equal": 5,
        "won_equal": 5,
        "oracle_checked": 3,
        "oracle_equal": 3,
        "first_differences": [],
    }
    assert agreement.complete


def spoil_intro(episode):
    episode["intro"] = episode["intro"].replace("a shelf 1, and a table 1", "a shelf 1 and a table 1")


def spoil_first_list(episode):
    episode["admissible"].remove("help")


def spoil_text(episode):
    episode["steps"][1]["feedback"] += " "


def spoil_order(episode):
    episode["steps"][1]["admissible"] = episode["steps"][1]["admissible"][::-1]


def spoil_won(episode):
    episode["steps"][1]["won"] = True


def spoil_length(episode):
    episode["steps"][2]["planner_length"] = 0


@pytest.mark.parametrize(
    ("spoil", "field", "what", "step", "expected"),
    [
        (spoil_intro, "intro_equal", "intro", 0, None),
        (spoil_first_list, "intro_equal", "admissible", 0, None),
        (spoil_text, "observation_equal", "observation", 2, "You pick up the apple 1 from the table 1. "),
        (spoil_order, "admissible_equal", "admissible", 2, None),
        (spoil_won, "won_equal", "won", 2, True),
        (spoil_length, "oracle_equal", "oracle", 3, "inf"),
    ],
)
def test_one_difference_is_counted_and_named(data, spoil, field, what, step, expected):
    good = json.loads(verify_alfworld(write(data, recording()), data).to_json())
    episode = recording()
    spoil(episode)
    got = json.loads(verify_alfworld(write(data, episode), data).to_json())
    (difference,) = got.pop("first_differences")
    assert (difference["what"], difference["step"], difference["game"]) == (what, step, f"valid_seen/{GAME}")
    assert expected is None or difference["expected"] == expected
    assert got == {key: value for key, value in good.items() if key != "first_differences"} | {field: good[field] - 1}


def test_a_recording_that_goes_on_after_we_have_won_is_still_compared(data):
    episode = recording()
    listed = episode["steps"][-1]["admissible"]
    episode["steps"].append(
        {"action": "inventory", "feedback": "You are not carrying anything.", "admissible": listed, "won": True}
    )
    agreement = verify_alfworld(write(data, episode), data, oracle=False)
    assert (agreement.steps, agreement.observation_equal, agreement.oracle_checked) == (6, 6, 0)


def test_the_first_differences_are_few(data):
    episode = recording()
    episode["steps"] *= 5
    agreement = verify_alfworld(write(data, episode), data, oracle=False)
    assert agreement.steps == 25
    assert agreement.observation_equal < 25
    assert len(agreement.first_differences) == 10


def test_a_missing_game_is_named(data):
    episode = recording() | {"game": "valid_unseen/task/trial"}
    with pytest.raises(FileNotFoundError, match=r"valid_unseen/task/trial.*expected valid_unseen\.jsonl\.xz"):
        verify_alfworld(write(data, episode), data)


def run(*arguments, cwd):
    command = [sys.executable, str(SCRIPT), "alfworld", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_the_script_prints_counts_last_and_says_by_its_status_whether_they_agree(data):
    path = write(data, recording())
    done = run("--episodes", path.name, "--data", ".", cwd=data)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["observation_equal"] == 5
    episode = recording()
    spoil_text(episode)
    write(data, episode)
    done = run("--episodes", path, "--data", data, "--no-oracle", cwd="/")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["observation_equal"] == 4
    done = run("--episodes", "nowhere.jsonl", "--data", data, cwd=data)
    assert done.returncode == 2
    assert "nowhere.jsonl" in done.stderr


def test_the_official_recordings(alfworld_data):
    path = alfworld_data / "golden_traces.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"{path} does not exist")
    agreement = verify_alfworld(path, alfworld_data)
    assert agreement.first_differences == []
    assert (agreement.episodes, agreement.steps, agreement.oracle_checked) == (257, 3937, 256)
