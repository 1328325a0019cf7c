"""How far sampler and learner are apart: measured over all sampled tokens, however the batch is cut."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import optax
import pytest
from flax import nnx
from learner.test_learner import CONFIG

from pivotopd_jax.learner.learner import Learner, make_mesh
from pivotopd_jax.models.head import Greatest, added
from pivotopd_jax.models.qwen3 import Qwen3, split
from pivotopd_jax.records import Row
from pivotopd_jax.rollout.rows import batch_rows

LENGTH = 32


def sampled_rows(scores: list[np.ndarray] | None = None) -> list[Row]:
    """Seven responses of a student, the last one of which is a label."""
    draw = np.random.default_rng(3)
    rows = []
    for i in range(7):
        context, response = (draw.integers(1, 40, size).astype(np.int32) for size in (5 + i, 2 + i % 3))
        rows.append(Row("rollout" if i < 6 else "label", i, 0, 0, context, response))
    return [
        row if scores is None or row.kind == "label" else dataclasses.replace(row, sampled_log_probs=score)
        for row, score in zip(rows, scores or rows, strict=True)  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("on_policy", [True, False])
@pytest.mark.parametrize(("micro_batch_tokens", "at_once"), [(8 * LENGTH, 2**26), (LENGTH, 2**26), (8 * LENGTH, 200)])
def test_drift_is_over_what_was_sampled(on_policy, micro_batch_tokens, at_once):
    graphdef, params = split(Qwen3(CONFIG, rngs=nnx.Rngs(0)))
    learner = Learner(
        graphdef, optax.sgd(1.0), make_mesh(), micro_batch_tokens=micro_batch_tokens, logits_at_once=at_once
    )
    batch, packed = batch_rows(sampled_rows(), length=LENGTH)
    plain = learner.score(params, packed)
    off = [values + np.float32(0.01 * i) for i, values in enumerate(packed.gather(plain))]
    off[3][-1] -= 0.5  # one token far off
    batch, _ = batch_rows(sampled_rows(off), length=LENGTH)
    batch = batch._replace(old_log_probs=plain, reference_log_probs=plain)
    _, metrics = learner.update(learner.init(params), batch, on_policy=on_policy)
    lengths = [len(values) for values in off[:6]]
    assert metrics["drift_tokens"] == sum(lengths)
    expected = sum(0.01 * i * length for i, length in enumerate(lengths)) - 0.03 + 0.47
    assert metrics["drift"] == pytest.approx(expected, abs=1e-4)
    assert metrics["drift_most"] == pytest.approx(0.47, abs=1e-5)


def test_sums_add_and_maxima_do_not():
    total = added({"a": 1.0, "b": Greatest(2.0)}, {"a": 3.0, "b": Greatest(0.5)})
    assert (total["a"], float(total["b"].value)) == (4.0, 2.0)
    assert len(jax.tree.leaves(total)) == 2
