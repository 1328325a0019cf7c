"""The skill bank: what is kept, and what is found again."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from pivotopd_jax.prompts.alfworld import AlfWorldWording
from pivotopd_jax.records import Observation, Task, Trajectory, Turn
from pivotopd_jax.teachers.protocol import Report
from pivotopd_jax.teachers.skills import Skill, SkillBank, distil_skills

BANK = [
    Skill("put a hot mug in shelf", "take mug, heat mug with microwave, move mug to shelf"),
    Skill("put a cool apple in fridge", "take apple, cool apple with fridge"),
    Skill("look at book under the desklamp", "take book, use desklamp"),
]


def test_the_most_similar_task_comes_first_and_the_older_of_equals():
    bank = SkillBank([*BANK, BANK[0]])
    assert bank.retrieve("put a hot mug in cabinet", 2) == [BANK[0], BANK[0]]
    assert bank.retrieve("examine the book with a desklamp", 1) == [BANK[2]]
    assert bank.retrieve("nothing like it", 2) == BANK[:2]
    assert len(bank.retrieve("apple", 99)) == 4


def test_scores_are_those_of_bm25_by_hand():
    """Lucene's variant: ln(1 + (N − n + ½)/(n + ½)) · tf/(tf + k(1 − b + b·length/mean)), k = 1.5, b = 0.75."""
    bank = SkillBank(BANK)
    lengths = np.array([4, 4, 4])  # without "a", "in", "at", "the"; "under" counts
    score = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5)) / (1 + 1.5 * (0.25 + 0.75 * lengths[0] / lengths.mean()))
    assert bank._index.get_scores(["mug"])[0] == pytest.approx(score, rel=1e-5)


def test_a_bank_survives_its_file_and_says_what_is_wrong_with_another(tmp_path):
    path = tmp_path / "deep" / "skills.json"
    SkillBank(BANK).save(path)
    assert json.loads(path.read_text())[0] == {"task": BANK[0].task, "text": BANK[0].text}
    assert SkillBank.load(path).skills == tuple(BANK)
    null, empty = '[{"task": null, "text": "x"}]', '[{"task": "x", "text": " "}]'
    for broken in ("{", "[1]", '[{"task": "x"}]', "7", "{}", "[]", null, empty, "[" * 100_000):
        path.write_text(broken)
        with pytest.raises(ValueError, match=r"skills\.json is not a skill bank"):
            SkillBank.load(path)
    with pytest.raises(ValueError, match="is not a skill bank"):
        SkillBank.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        SkillBank.load(tmp_path / "nowhere.json")


class Writer:
    """Writes the lessons it is told to."""

    def __init__(self, lessons):
        self.lessons, self.outcomes, self.concurrency = lessons, {}, 1

    def check(self):
        raise AssertionError("nothing is asked here")

    def reports(self, trajectories, *, max_actions, every_turn, lessons=False):
        assert lessons
        return [Report((), lesson) for lesson, _ in zip(self.lessons, trajectories, strict=True)]

    def recovery_actions(self, situations):
        raise AssertionError("nothing is asked here")


def trajectory(kind: str, text: str) -> Trajectory:
    ids = np.zeros(1, np.int32)
    turn = Turn(Observation(text), ids, ids, np.zeros(1, np.float32), "", None, 0.0, False, None)
    return Trajectory(Task(text, kind, None), 0, (turn,), 0.0, False, Observation(""), None)


def test_skills_are_drawn_from_all_kinds_without_repetition():
    played = [trajectory(kind, text) for kind, text in (("A", "a"), ("A", "a"), ("A", "aa"), ("B", "b"), ("A", "x"))]
    written = Writer(["one", "one", "two", "three", None])
    bank = distil_skills(written, played, lambda first: f"task {first.text}", size=2)
    assert bank.skills == (Skill("task a", "one"), Skill("task b", "three"))
    assert len(distil_skills(written, played, lambda first: f"task {first.text}", size=9).skills) == 3
    with pytest.raises(ValueError, match="wrote no lesson on 5"):
        distil_skills(Writer([None] * 5), played, lambda first: first.text, size=2)
    assert len(distil_skills(Writer(["x", "y"]), [replace(played[0], turns=()), played[0]], str, size=2).skills) == 1


@pytest.mark.parametrize(
    ("action", "gist"),
    [
        ("take mug 2 from desk 1", "take mug"),
        ("move mug 2 to shelf 10", "move mug to shelf"),
        ("heat mug 2 with microwave 1", "heat mug with microwave"),
        ("use desklamp 1", "use desklamp"),
        ("go to desk 1", None),
        ("open fridge 1", None),
        ("look", None),
    ],
)
def test_the_gist_of_a_command_names_no_instance_and_no_place_to_search(action, gist):
    assert AlfWorldWording().gist(action) == gist
