"""How deep rollouts go."""

from __future__ import annotations

import pytest

from pivotopd_jax.methods.method import Behaviour, Probe
from pivotopd_jax.rollout.depth import depth_of, next_depth, probing

PROBE = Probe(every=8, warmup=3, smoothing=0.3, coverage=0.8, least=2)


def test_whole_rollouts_come_first_and_again_every_eight_steps():
    assert [step for step in range(20) if probing(PROBE, step)] == [0, 1, 2, 8, 16]
    behaviour = Behaviour(probe=PROBE)
    assert [depth_of(behaviour, step, 14, 5.2) for step in (2, 3, 7, 8)] == [14, 6, 6, 14]
    assert depth_of(behaviour, 3, 14, None) == 14
    assert (depth_of(behaviour, 3, 14, 0.4), depth_of(behaviour, 3, 4, 9.0)) == (2, 4)


def test_the_depth_follows_the_deeper_of_centroid_and_coverage():
    # Centroid (1·1 + 2·1 + 3·2)/4 = 2.25; four of five successes end by turn 3.
    assert next_depth(PROBE, None, [1, 1, 2, 0], [2, 2, 3, 3, 9], 14) == 3
    assert next_depth(PROBE, None, [0, 0, 0, 0, 1], [2, 2], 14) == 5
    assert next_depth(PROBE, 10.0, [1, 1, 2, 0], [2, 2, 3, 3, 9], 14) == pytest.approx(0.7 * 10 + 0.3 * 3)


def test_without_successes_or_signal_the_whole_depth_is_asked_for():
    assert next_depth(PROBE, None, [1.0, 0.0], [], 14) == 14
    assert next_depth(PROBE, None, [0.0, 0.0], [2], 14) == 14
    assert next_depth(PROBE, None, [1.0], [1], 14) == 2
