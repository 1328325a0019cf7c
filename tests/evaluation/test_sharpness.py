"""Sharpness by place, against entropies taken token by token."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy_student import Scripted

from pivotopd_jax.evaluation.sharpness import sharpness
from pivotopd_jax.learner.learner import Learner, make_mesh, make_optimizer
from pivotopd_jax.models.qwen3 import apply, compute_logits
from pivotopd_jax.rollout.collect import fresh_starts, play


def test_entropy_is_told_apart_by_the_first_mistake(toy):
    said = [f"<action>{action}</action>" for action in ("right", "right", "left", "grab")]
    starts = fresh_starts(toy.world, toy.prompter, toy.world.tasks("train")[1:2], rollouts=1, max_turns=9)
    (played,) = play(Scripted(toy.prompter.chat, said), starts, temperature=1.0, seed=0, concurrency=1)
    optimizer = make_optimizer(1e-3, warmup_steps=1, max_grad_norm=1.0)
    learner = Learner(toy.graphdef, optimizer, make_mesh(), micro_batch_tokens=512)
    config = SimpleNamespace(learner=SimpleNamespace(row_tokens=256))
    run = SimpleNamespace(world=toy.world, learner=learner, config=config)
    found = sharpness(run, toy.params, [played])  # type: ignore[arg-type]
    own = [entropy_alone(toy, turn.context_ids, turn.response_ids) for turn in played.turns]
    # The prize lies in cell 1: turn 1 walks past it.
    assert {place: numbers["turns"] for place, numbers in found.items()} == {"before": 1, "at": 1, "after": 2}
    assert found["before"]["nats"] == pytest.approx(own[0], rel=1e-4)
    assert found["at"]["nats"] == pytest.approx(own[1], rel=1e-4)
    assert found["after"]["nats"] == pytest.approx(np.mean(own[2:]), rel=1e-4)


def entropy_alone(toy, context: np.ndarray, response: np.ndarray) -> float:
    """Of one response, without packing."""
    ids = jnp.concatenate([context, response])[None]
    positions = jnp.arange(ids.shape[1])[None]
    causal = jnp.tril(jnp.ones((ids.shape[1],) * 2, bool))[None]
    hidden, _ = apply(toy.graphdef, toy.params, ids, positions, causal)
    log_p = jax.nn.log_softmax(compute_logits(toy.graphdef, toy.params, hidden))[0, len(context) - 1 : -1]
    return float(-(jnp.exp(log_p) * log_p).sum())
