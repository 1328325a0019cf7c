"""Rows of earlier steps, in memory and from disk."""

from __future__ import annotations

import numpy as np
import pytest

from pivotopd_jax.records import Row
from pivotopd_jax.rollout.replay import Replay


def rows(step: int, count: int) -> list[Row]:
    ids = np.arange(step * 10, step * 10 + 7, dtype=np.int32)
    return [Row("label", i // 2, i // 4, i % 2, ids[: 2 + i % 3], ids[4 : 5 + i % 2]) for i in range(count)]


def content(found: list[Row]) -> list[tuple]:
    return [(r.turn, r.context_ids.tolist(), r.response_ids.tolist()) for r in found]


def signature(found: list[Row]) -> list[tuple]:
    return [(r.kind, r.trajectory, r.group, r.turn, r.context_ids.tolist(), r.response_ids.tolist()) for r in found]


def test_what_was_kept_comes_back_the_same_from_disk(tmp_path):
    replay = Replay(tmp_path / "replay")
    for step, count in ((0, 5), (1, 0), (2, 6)):
        replay.keep(step, rows(step, count))
    assert replay.draw(0, 9, seed=0, first=10) == []
    everything = replay.draw(3, 99, seed=0, first=10)
    # 3 + 3 trajectories follow those of the present step; episodes of different steps never mix.
    assert [r.trajectory for r in everything] == sorted(r.trajectory for r in everything)
    assert {r.trajectory for r in everything} == set(range(10, 16))
    kept = [row for step, count in ((0, 5), (2, 6)) for row in rows(step, count)]
    assert sorted(content(everything)) == sorted(content(kept))
    again = Replay(tmp_path / "replay")
    assert signature(again.draw(3, 4, seed=7, first=10)) == signature(replay.draw(3, 4, seed=7, first=10))
    assert signature(again.draw(3, 4, seed=8, first=10)) != signature(replay.draw(3, 4, seed=7, first=10))


def test_whole_trajectories_are_drawn_until_there_are_rows_enough(tmp_path):
    replay = Replay(tmp_path)
    replay.keep(0, rows(0, 8))  # four trajectories of two rows
    for count, expected in ((1, 2), (2, 2), (3, 4), (8, 8), (9, 8)):
        drawn = replay.draw(1, count, seed=count, first=0)
        assert len(drawn) == expected
        assert [r.turn for r in drawn] == [0, 1] * (expected // 2)


def test_a_step_done_again_replaces_what_it_left(tmp_path):
    replay = Replay(tmp_path)
    replay.keep(0, rows(0, 5))
    Replay(tmp_path).keep(0, rows(3, 1))
    assert len(Replay(tmp_path).draw(1, 9, seed=0, first=0)) == 1


def test_a_lost_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"step_000000\.npz is missing.*config\.knobs\.replay=False"):
        Replay(tmp_path).draw(1, 1, seed=0, first=0)
