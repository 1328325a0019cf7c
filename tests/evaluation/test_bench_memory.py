"""The benchmark of memory measures what it says it does. How much anything saves, only the last test asks."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from pivotopd_jax.evaluation.bench_memory import Sizes, bench_head, grown_megabytes, median_seconds


def test_chunks_and_the_whole_are_the_same_sum_in_less_memory():
    found = bench_head(Sizes(64, 8, 4096), at_once=8 * 4096, repeats=1)
    assert (found["tokens"], found["width"], found["vocabulary"], found["chunk_logits"]) == (64, 8, 4096, 8 * 4096)
    for name in ("log_probs", "kl"):
        measured = found[name]
        assert measured["difference"] < 1e-5
        assert measured["planned_mb_ratio"] == measured["chunked"]["planned_mb"] / measured["full"]["planned_mb"] < 0.6
        assert measured["full"]["planned_mb"] > 64 * 4096 * 4 / 1e6  # all logits
        assert measured["seconds_ratio"] == measured["chunked"]["seconds"] / measured["full"]["seconds"]


def test_medians_of_runs_that_take_turns():
    order = []
    seconds = median_seconds({name: lambda n=name: order.append(n) for name in "ab"}, 3)
    assert order == list("ababab")
    assert all(0 <= spent < 1 for spent in seconds.values())


def test_growth_of_the_process_is_what_a_run_holds_at_most():
    held = []
    grown = grown_megabytes(lambda: held.append(np.ones(25_000_000)))
    if grown is None:
        pytest.skip("this system does not tell how large a process was")
    held.clear()
    assert 190 < grown < 260
    again = grown_megabytes(lambda: jnp.zeros(()))
    assert again is not None
    assert again < 100  # the earlier peak is forgotten
