"""The benchmark of passages measures what it says, on few of them. How fast anything is, no test asks."""

from __future__ import annotations

import pytest

from pivotopd_jax.envs.search_qa import stored
from pivotopd_jax.evaluation import bench_passages
from pivotopd_jax.evaluation.bench_passages import Timed, open_passages, synthetic_passages
from pivotopd_jax.evaluation.bench_process import opened_elsewhere


def test_a_small_corpus(monkeypatch):
    monkeypatch.setattr(stored, "MAX_PASSAGES", 1_000)
    monkeypatch.setattr(bench_passages, "SEARCHES", 50)
    found = bench_passages.bench_passages(1_001)
    assert (found["passages"], found["searches_with_hits"]) == (1_001, 30)
    assert 0 < found["disk_gb"] < 0.01
    assert found["build_seconds_per_100k"] > 0
    assert found["searches_per_second"] > 0


def test_passages_are_made_up_once_and_alike():
    first, second = list(synthetic_passages(3)), list(synthetic_passages(4))
    assert first == second[:3]
    assert [len(passage.text.split()) for passage in first] == [bench_passages.WORDS] * 3


def test_the_time_of_making_them_counts(monkeypatch):
    clock = iter([1.0, 3.0, 10.0, 10.5, 20.0, 21.0])
    monkeypatch.setattr(bench_passages.time, "process_time", lambda: next(clock))
    timed = Timed(synthetic_passages(2))
    assert (len(list(timed)), timed.seconds) == (2, 3.5)


def test_what_cannot_be_opened(tmp_path):
    with pytest.raises(ValueError, match=r"(?s)none could not be opened by another process: .*No such file"):
        opened_elsewhere(open_passages, tmp_path / "none", ["fox"])
