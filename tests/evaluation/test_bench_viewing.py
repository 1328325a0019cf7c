"""The bench of the reading room asks for what is there."""

from __future__ import annotations

from pivotopd_jax.evaluation.bench_viewing import bench_viewing


def test_a_short_log_is_listed_served_and_searched():
    found = bench_viewing(steps=2, trajectories=3)
    assert (found["trajectories"], found["found_rare"]) == (6, 1)
    assert found["megabytes"] > 0.1
    assert found["milliseconds_a_trajectory"] > 0
