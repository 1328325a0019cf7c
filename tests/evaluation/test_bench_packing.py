"""Packed and padded rows hold the same turns and give the same loss."""

from __future__ import annotations

import numpy as np
import pytest

from pivotopd_jax.evaluation.bench_packing import bench_packing, held, padded_batch
from pivotopd_jax.records import Row


def test_tokens_held():
    first, more = np.arange(1, 40, dtype=np.int32), np.arange(40, 50, dtype=np.int32)
    rows = [
        Row("label", 0, 0, 0, first, more[:2]),
        Row("label", 0, 0, 1, np.concatenate([first, more]), more[:3]),
        Row("label", 1, 1, 0, first, more[:5]),
    ]
    # The trees have 39 + 2 + 10 + 3 and 39 + 5 tokens: two rows of 64.
    assert held(rows) == {"packed": 128, "padded": 192, "needed": 41 + 52 + 44, "ratio": pytest.approx(2 / 3)}
    batch = padded_batch(rows)
    assert batch.mask.sum(axis=1).tolist() == [2, 3, 5]
    np.testing.assert_allclose(batch.weights[batch.mask], 0.1, rtol=1e-6)


@pytest.mark.slow
def test_generated_games():
    found = bench_packing(None, games=2, repeats=1)
    for style in ("transcript", "windowed"):
        assert found[style]["packed"] <= found[style]["padded"] >= found[style]["needed"]
    updates = found["transcript"]["updates"]
    assert updates["nats_a_token"]["packed"] == pytest.approx(updates["nats_a_token"]["padded"], rel=1e-4)
    assert updates["seconds_ratio"] == updates["seconds"]["packed"] / updates["seconds"]["padded"]
    assert found["count"] == 2
