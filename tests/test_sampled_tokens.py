"""From sampler to learner: the tokens trained are the tokens sampled, and both give them the same log-probs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from test_train import tiny_config

from pivotopd_jax.learner.learner import Learner
from pivotopd_jax.recording import read_metrics
from pivotopd_jax.records import TokenBatch
from pivotopd_jax.run import Run
from pivotopd_jax.sampling.slots import Job
from pivotopd_jax.train import train

ROUNDING = 2e-5
"""Nats; float32, with sums in another order."""


class Watched(NamedTuple):
    """What the sampler said, as (context, response, log-probs) in bytes, and what the learner was given."""

    sampled: list[tuple[bytes, bytes, bytes]]
    trained: list[TokenBatch]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a student in it, so that the runs only train."""
    place = tmp_path_factory.mktemp("runs")
    train(tiny_config("grpo", steps=1), place / "first")
    return place


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched([], [])
    end, update = Job.end, Learner.update

    def note_sample(self: Job, **options: Any) -> Any:
        sample = end(self, **options)
        spoken = sample.response_ids.tobytes(), sample.log_probs.tobytes()
        found.sampled.append((self.request.context_ids.tobytes(), *spoken))
        return sample

    def note_batch(self: Learner, state: Any, batch: TokenBatch, **options: Any) -> Any:
        found.trained.append(batch)
        return update(self, state, batch, **options)

    monkeypatch.setattr(Job, "end", note_sample)
    monkeypatch.setattr(Learner, "update", note_batch)
    return found


def responses(batch: TokenBatch) -> Iterator[tuple[bool, bytes, bytes, bytes]]:
    """Of each trained response: whether it was sampled under its own context, that context, the response, log-probs."""
    for row in range(len(batch.tokens)):
        for first in np.flatnonzero(batch.mask[row] & ~batch.mask[row][batch.parent[row]]):
            places = [first]
            while len(
                next_ := np.flatnonzero(
                    (batch.parent[row] == places[-1])
                    & batch.mask[row]
                    & (np.arange(len(batch.mask[row])) != places[-1])
                )
            ):
                (place,) = next_
                places.append(place)
            context, at = [], batch.parent[row][first]
            while True:
                context.append(batch.tokens[row][at])
                if batch.parent[row][at] == at:
                    break
                at = batch.parent[row][at]
            yield (
                bool(batch.sampled[row][first]),
                np.asarray(context[::-1], np.int32).tobytes(),
                batch.tokens[row][places].tobytes(),
                batch.sampled_log_probs[row][places].tobytes(),
            )


@pytest.mark.parametrize(("method", "updates"), [("grpo", 1), ("pivotopd", 2)])
def test_the_tokens_trained_are_the_tokens_sampled(place, watched, method, updates):
    config = tiny_config(method, steps=1)
    config.ppo.mini_batch = 4 // updates
    train(config, place / method)
    (line,) = read_metrics(place / method)
    assert len(watched.trained) == updates
    trained = [response for batch in watched.trained for response in responses(batch)]
    rollouts = [response[1:] for response in trained if response[0]]
    assert len(rollouts) == round(4 * line["train/turns"])
    assert set(rollouts) <= set(watched.sampled)
    others = [response[1:3] for response in trained if not response[0]]
    assert len(others) == line.get("recovery/rows", 0.0)
    assert {response for _, response in others} <= {response for _, response, _ in watched.sampled}
    assert sum(int(batch.mask.sum()) for batch in watched.trained) == line["train/tokens"]


@pytest.mark.parametrize("method", ["grpo", "pivotopd"])
def test_sampler_and_learner_agree_at_every_step(place, method):
    config = tiny_config(method, steps=2)
    config.ppo.mini_batch = 4 if method == "grpo" else 2
    train(config, place / f"{method}-drift")
    lines = read_metrics(place / f"{method}-drift")
    assert len(lines) == 2
    for line in lines:
        assert 0 <= line["drift/mean"] <= line["drift/most"] < ROUNDING


def test_a_sampler_with_other_weights_is_seen(place, monkeypatch):
    load = Run.load
    monkeypatch.setattr(Run, "load", lambda run, params: load(run, jax.tree.map(lambda x: 1.01 * x, params)))
    train(tiny_config("grpo", steps=1), place / "other")
    (line,) = read_metrics(place / "other")
    assert line["drift/most"] > 100 * ROUNDING
    assert line["drift/mean"] > ROUNDING


def test_where_nothing_was_sampled_there_is_no_drift(place):
    train(tiny_config("sft", steps=1), place / "sft")
    (line,) = read_metrics(place / "sft")
    assert "update/loss" in line
    assert not [name for name in line if name.startswith("drift/")]
