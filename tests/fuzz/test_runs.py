"""What a run finds in its own directory, damaged: read as it was written, or refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fuzz.documents import damaged, files, fuzz, read_or_refused
from hypothesis import given
from hypothesis import strategies as st
from toy_student import make_toy

from pivotopd_jax.envs.mapped import MappedRecords, write_records
from pivotopd_jax.evaluation.mistakes import read_mistakes
from pivotopd_jax.records import Row
from pivotopd_jax.rollout.pivots import load_pivots
from pivotopd_jax.rollout.replay import Replay

TOY = make_toy()
TASKS = {task.id: task for task in TOY.world.tasks("train")}
ROWS = [
    Row("label", i // 2, 0, i % 2, np.arange(1, 3 + i, dtype=np.int32), np.arange(2, dtype=np.int32)) for i in range(4)
]


def said(action: str) -> list[int]:
    return TOY.prompter.said(action).tolist()


MISTAKES = [{"task": "train-1", "responses": [said("right"), said("right"), said("left")], "turn": 1, "left": 2}]
PIVOTS = [
    {"task": "train-1", "turn": 1, "actions": ["right", "left"]},
    {"task": "train-2", "turn": 0, "actions": ["right"]},
]


def test_the_good_ones_are_read(tmp_path):
    path = tmp_path / "kept.json"
    path.write_text(json.dumps(MISTAKES))
    (mistake,) = read_mistakes(path, TOY.world, TOY.prompter, TASKS)
    assert (mistake.turn, mistake.left) == (1, 2)
    path.write_text(json.dumps(PIVOTS))
    assert [pivot.turn for pivot in load_pivots(path, TOY.world, TOY.prompter, TASKS)] == [1, 0]


@fuzz(100)
@given(files(MISTAKES))
def test_frozen_mistakes_are_played_again_or_refused(tmp_path, content):
    path = tmp_path / "mistakes.json"
    path.write_bytes(content)
    found = read_or_refused(lambda: read_mistakes(path, TOY.world, TOY.prompter, TASKS), ValueError)
    for mistake in found or ():
        assert 0 <= mistake.turn < len(mistake.trajectory.turns)


@fuzz(100)
@given(files(PIVOTS))
def test_pivots_are_played_again_or_refused(tmp_path, content):
    path = tmp_path / "pivots.json"
    path.write_bytes(content)
    for pivot in read_or_refused(lambda: load_pivots(path, TOY.world, TOY.prompter, TASKS), ValueError) or ():
        assert 0 <= pivot.turn < len(pivot.trajectory.turns)


@pytest.fixture(scope="module")
def labels(tmp_path_factory) -> bytes:
    replay = Replay(tmp_path_factory.mktemp("replay"))
    replay.keep(0, ROWS)
    return (replay.directory / "step_000000.npz").read_bytes()


@fuzz(150)
@given(st.data())
def test_labels_of_earlier_steps_are_read_or_refused(labels, tmp_path, data):
    (tmp_path / "step_000000.npz").write_bytes(data.draw(damaged(labels)))
    rows = read_or_refused(lambda: Replay(tmp_path).draw(1, 99, seed=0, first=0), ValueError)
    for row in rows or ():
        assert row.context_ids.dtype == row.response_ids.dtype == np.int32
        assert min(len(row.context_ids), len(row.response_ids)) > 0


@fuzz(100)
@given(st.data())
def test_mapped_records_are_read_or_refused(tmp_path, data):
    write_records(tmp_path, [b"one", b"two", b"three"])
    path = tmp_path / data.draw(st.sampled_from(sorted(file.name for file in tmp_path.iterdir())))
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    records = read_or_refused(lambda: MappedRecords(tmp_path, bytes), ValueError)
    if records is not None:
        assert all(isinstance(records[i], bytes) for i in range(min(9, len(records))))
