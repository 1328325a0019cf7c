"""What is written down of a trajectory: its words, its tokens with what they are credited with, and its recoveries."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from ml_collections import ConfigDict
from toy_student import Scripted, Toy

from pivotopd_jax.recording import write_trajectories
from pivotopd_jax.records import Note, RecoveryTurn, Row, Trajectory
from pivotopd_jax.rollout.collect import fresh_starts, play
from pivotopd_jax.rollout.rows import batch_rows
from pivotopd_jax.scoring import MiniBatch, Shaped, counts_of, token_advantages
from pivotopd_jax.trajectory_records import trajectory_records
from pivotopd_jax.viewing.log import TrajectoryLog


def run_of(toy: Toy, **log: bool) -> SimpleNamespace:
    options = ConfigDict({"prompts": True, "tokens": True, **log})
    return SimpleNamespace(config=SimpleNamespace(log=options), prompter=toy.prompter)


@pytest.fixture
def played(toy) -> Trajectory:
    """Right, right, grab, which does nothing: the prize was in cell 1."""
    policy = Scripted(toy.prompter.chat, [f"<action>{action}</action>" for action in ("right", "right", "grab")])
    starts = fresh_starts(toy.world, toy.prompter, toy.world.tasks("train")[1:2], rollouts=1, max_turns=3)
    return play(policy, starts, temperature=1.0, seed=0, concurrency=1)[0]


def record_of(toy: Toy, played: Trajectory, notes=(), advantages=(), **log: bool):
    (record,) = trajectory_records(run_of(toy, **log), [played], notes, advantages)  # type: ignore[arg-type]
    return json.loads(json.dumps(record))


def test_words_and_notes(toy, played):
    record = record_of(toy, played, [Note(0, 1, "grab", "it was here", pivotal=True)])
    assert (record["task"], record["kind"], record["won"], record["score"]) == ("train-1", "near", False, 0.0)
    assert [turn["action"] for turn in record["turns"]] == ["right", "right", "grab"]
    assert [turn["accepted"] for turn in record["turns"]] == [True, True, False]
    assert record["turns"][1]["observation"] == "You are in cell 1. The prize is here."
    noted = {key: record["turns"][1][key] for key in ("gold_action", "lesson", "pivotal")}
    assert noted == {"gold_action": "grab", "lesson": "it was here", "pivotal": True}
    assert "pivotal" not in record["turns"][0]
    assert (record["final"], record["recoveries"]) == ("Nothing happens.", [])


def test_prompts_are_kept_as_what_they_add(toy, played):
    before, turns = "", record_of(toy, played)["turns"]
    assert all(turn["prompt_kept"] > 0 for turn in turns[1:])
    for turn, kept in zip(played.turns, turns, strict=True):
        prompt = before[: kept["prompt_kept"]] + kept["prompt"]
        assert prompt == toy.prompter.chat.decode(turn.context_ids)
        assert before[: kept["prompt_kept"] + 1] != prompt[: kept["prompt_kept"] + 1]
        before = prompt + turn.response


def test_tokens_make_up_the_response_and_its_end(toy, played):
    for turn, record in zip(played.turns, record_of(toy, played)["turns"], strict=True):
        assert "".join(record["tokens"]) == turn.response + toy.prompter.chat.template.end
        assert len(record["log_probs"]) == len(turn.response_ids)
        assert "advantages" not in record


def test_nothing_is_written_that_was_not_asked_for(toy, played):
    turn = record_of(toy, played, tokens=False, prompts=False)["turns"][0]
    assert not turn.keys() & {"tokens", "log_probs", "advantages", "prompt", "prompt_kept"}


def rollout(played: Trajectory, turn: int, advantage: float) -> Row:
    ids = played.turns[turn]
    return Row("rollout", 0, 0, turn, ids.context_ids, ids.response_ids, reward_advantage=advantage)


def recovery(played: Trajectory, turn: int, after: int, named: str) -> Row:
    came = RecoveryTurn(after, named, played.turns[turn], played.final)
    return Row("recovery", 0, 0, turn, played.turns[turn].context_ids, played.turns[turn].response_ids, recovery=came)


def test_each_turn_gets_its_own_advantages(toy, played):
    rows = [rollout(played, turn, turn / 2) for turn in (2, 0)]
    values = [np.arange(len(row.response_ids)) + 0.123456 for row in rows]
    turns = record_of(toy, played, advantages=zip(rows, values, strict=True))["turns"]
    assert turns[0]["advantages"][:3] == [0.123, 1.12, 2.12]
    assert [turn.get("reward_advantage") for turn in turns] == [0.0, None, 1.0]
    assert "advantages" not in turns[1]


def test_recoveries_are_told_apart_even_where_they_share_turns(toy, played):
    """Two of them answer at turn 2: one is the second turn of a recovery from turn 0, the other follows turn 1."""
    rows = [recovery(played, 2, 1, "left"), recovery(played, 2, 0, "grab"), recovery(played, 1, 0, "right")]
    values = [np.full(len(row.response_ids), value) for row, value in zip(rows, (1.0, 2.0, 3.0), strict=True)]
    first, second = record_of(toy, played, advantages=zip(rows, values, strict=True))["recoveries"]
    assert (first["after"], second["after"]) == (0, 1)
    assert [turn["named"] for turn in first["turns"]] == ["right", "grab"]
    assert [turn["advantages"][0] for turn in first["turns"]] == [3.0, 2.0]
    assert [turn["named"] for turn in second["turns"]] == ["left"]
    assert second["final"] == "Nothing happens."


def test_labels_and_rows_of_earlier_steps_are_left_out(toy, played):
    ids = played.turns[0]
    rows = [Row("label", 0, 0, 0, ids.context_ids, ids.response_ids), rollout(played, 0, 1.0)]
    rows[1] = Row("rollout", 7, 0, 0, ids.context_ids, ids.response_ids)
    record = record_of(toy, played, advantages=[(row, np.ones(len(row.response_ids))) for row in rows])
    assert all("advantages" not in turn for turn in record["turns"])


def test_advantages_find_their_rows_in_a_packed_batch(toy, played):
    rows = [rollout(played, turn, 0.0) for turn in range(3)] + [recovery(played, 2, 1, "left")]
    batch, packed = batch_rows(rows, length=256)
    wanted = [np.arange(len(row.response_ids)) + 10.0 * i for i, row in enumerate(rows)]
    shaped = Shaped(batch._replace(advantages=packed.scatter(wanted)), {}, packed)
    found = list(token_advantages([MiniBatch(rows, counts_of(rows))], [shaped]))
    assert [row is given for (row, _), given in zip(found, rows, strict=True)] == [True] * 4
    for (_, values), given in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(values, given)


def test_half_a_character_does_not_stop_a_run(tmp_path):
    """A teacher's JSON may hold a lone surrogate, which UTF-8 cannot."""
    records = [{"turns": [], "task": "\ud800 \u2028 ü", "recoveries": []}]
    write_trajectories(tmp_path, "step", 3, records)
    assert TrajectoryLog(tmp_path).read("step_000003", 1)["task"] == "\ud800 \u2028 ü"
