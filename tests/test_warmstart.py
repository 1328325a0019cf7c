"""Demonstrations: careful ones never err, careless ones err once and do not come back."""

from __future__ import annotations

import random

import numpy as np
import pytest
from toy_world import CorridorWording, CorridorWorld

from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.prompts.actions import parse_action
from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.hints import HINT_OPENING
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Task
from pivotopd_jax.warmstart import COPIED, Demonstrator, WarmStart, copying_tasks, world_texts

CELLS = 8
TASKS = [Task(f"train-{prize}", "near", (prize, CELLS)) for prize in range(CELLS)]


def demonstrator(**options: float) -> Demonstrator:
    world, wording = CorridorWorld(), CorridorWording()
    chat = Chat(build_tokenizer(world_texts(world, wording, TASKS, CELLS + 1)))
    prompter = Prompter(chat, wording, "transcript", 4, True, 1000)
    return Demonstrator(world, prompter, WarmStart(**options), 2 * CELLS)  # type: ignore[arg-type]


def said(maker: Demonstrator, task: Task, seed: int = 0) -> list[tuple[bool, str | None]]:
    """(hinted, action) of each row."""
    chat = maker.prompter.chat
    rows = maker.rows(task, 0, random.Random(seed))
    return [
        (HINT_OPENING.strip() in chat.decode(r.context_ids), parse_action(chat.decode(r.response_ids))) for r in rows
    ]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_a_careful_demonstrator_goes_straight_to_the_prize(task):
    way = ["right"] * task.source[0] + ["grab"]
    assert said(demonstrator(careless=0, noise=0, hints=0), task) == [(False, action) for action in way]


def test_noise_is_not_demonstrated():
    noisy = said(demonstrator(careless=0, noise=0.5, hints=0), TASKS[3])
    assert [action for _, action in noisy] == ["right"] * 3 + ["grab"]


def test_a_careless_demonstrator_errs_once_and_never_does_the_right_thing_again():
    """Its mistake is to go left; that is also its old habit, for `turns_astray` turns or until the wall."""
    maker, cells = demonstrator(careless=1, slip=0.4, turns_astray=2, noise=0, hints=0), set()
    for seed in range(30):
        actions = [action for _, action in said(maker, TASKS[7], seed)]
        if "left" not in actions:  # every chance to err was let pass
            assert actions == ["right"] * 7 + ["grab"]
            continue
        cell = actions.index("left")
        assert actions == ["right"] * cell + ["left"] * min(cell, 3)
        cells.add(cell)
    assert min(cells) < 3 < max(cells)  # the wall ended some, `turns_astray` others


def test_hints_are_practised_at_every_turn_if_asked():
    rows = said(demonstrator(careless=0, noise=0, hints=1), TASKS[4])
    assert [hinted for hinted, _ in rows] == [True, False] * 5
    assert {action for hinted, action in rows if hinted} <= {"grab", "left", "right"}


def test_copying_tasks_fill_their_batches_with_any_tokens():
    options = WarmStart(copying=5, batch_tokens=2048)
    batches = list(copying_tasks(options, vocabulary=300))
    assert [sum(len(r.context_ids) + len(r.response_ids) for r in rows) for rows in batches] == [2048] * 5
    said = [row.response_ids for rows in batches for row in rows]
    assert all(np.array_equal(row.context_ids, row.response_ids) for rows in batches for row in rows)
    assert {len(ids) for ids in said} == {COPIED}
    assert set(np.concatenate(said).tolist()) == set(range(300))
    assert list(copying_tasks(WarmStart(), vocabulary=300)) == []
