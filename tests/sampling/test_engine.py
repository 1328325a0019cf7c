"""The decode engine against full forward passes."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, apply, compute_logits, split
from pivotopd_jax.models.qwen3_config import MoeConfig
from pivotopd_jax.sampling.engine import Sampler
from pivotopd_jax.sampling.policy import Request
from pivotopd_jax.sampling.slots import bucket, common_prefix

CONFIG = Qwen3Config(60, 16, 32, 2, 2, 1, 8, 1e4, 1e-6, True, 512)
LENGTH = 256
ENDS = (3, 4, 5, 6)


def make_model(config: Qwen3Config):
    graphdef, params = split(Qwen3(config, rngs=nnx.Rngs(0)))
    # Larger matrices than at initialisation: the distribution is then far from uniform.
    return graphdef, jax.tree.map(lambda x: 8 * x if x.ndim > 1 else x, params)


@pytest.fixture(scope="module")
def model():
    return make_model(CONFIG)


def make_sampler(model, slots=4, config=CONFIG) -> Sampler:
    return Sampler(config, *model, slots=slots, capacity=160, max_new=6, end_ids=ENDS, chunk=16)


@pytest.fixture(scope="module")
def full_log_probs(model):
    return make_full_log_probs(*model)


def make_full_log_probs(graphdef, params):
    mask = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))[None]

    @jax.jit
    def forward(tokens):
        hidden, _ = apply(graphdef, params, tokens, jnp.arange(LENGTH)[None], mask)
        return jax.nn.log_softmax(compute_logits(graphdef, params, hidden))[0]

    return lambda ids: np.asarray(forward(np.pad(ids, (0, LENGTH - len(ids)))[None]))


def contexts(count: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(7, 60, random.integers(3, 60)).astype(np.int32) for _ in range(count)]


def test_log_probs_over_growing_shrinking_and_evicted_sessions(model, full_log_probs):
    sampler, random = make_sampler(model), np.random.default_rng(1)
    held = dict(enumerate(contexts(6, seed=0)))  # more sessions than slots
    for turn in range(4):
        requests = [Request(i, ids, 100 * turn + i) for i, ids in held.items()]
        samples = sampler.sample(requests, temperature=1.0)
        for session, request, sample in zip(list(held), requests, samples, strict=True):
            ids = np.concatenate([request.context_ids, sample.response_ids])
            expected = full_log_probs(ids)[np.arange(len(request.context_ids) - 1, len(ids) - 1), sample.response_ids]
            np.testing.assert_allclose(sample.log_probs, expected, atol=2e-5)
            assert sample.ended == (int(sample.response_ids[-1]) in ENDS)
            assert not set(sample.response_ids[:-1].tolist()) & set(ENDS)
            kept = ids[: len(ids) - 2 * ((session + turn) % 2)]  # half of them take tokens back
            more = random.integers(7, 60, random.integers(1, 20)).astype(np.int32)
            held[session] = np.concatenate([kept, more])


@pytest.mark.parametrize("change", [{"qk_norm": False}, {"moe": MoeConfig(6, 2, 8, True)}], ids=["llama", "experts"])
def test_log_probs_of_other_architectures(change):
    config = dataclasses.replace(CONFIG, **change)
    model = make_model(config)
    sampler, full_log_probs = make_sampler(model, config=config), make_full_log_probs(*model)
    held = contexts(4, seed=6)
    for turn in range(2):
        samples = sampler.sample([Request(i, ids, turn) for i, ids in enumerate(held)], temperature=1.0)
        for i, sample in enumerate(samples):
            start, held[i] = len(held[i]), np.concatenate([held[i], sample.response_ids])
            expected = full_log_probs(held[i])[np.arange(start - 1, len(held[i]) - 1), sample.response_ids]
            np.testing.assert_allclose(sample.log_probs, expected, atol=2e-5)


def test_a_sample_depends_on_its_seed_and_not_on_its_company(model):
    ids = contexts(5, seed=2)
    together = make_sampler(model).sample([Request(i, c, 7 + i) for i, c in enumerate(ids)], temperature=1.0)
    alone = make_sampler(model).sample([Request("x", ids[3], 10)], temperature=1.0)
    other = make_sampler(model).sample([Request("x", ids[3], 11)], temperature=1.0)
    np.testing.assert_array_equal(together[3].response_ids, alone[0].response_ids)
    assert alone[0].response_ids.tolist() != other[0].response_ids.tolist()


def test_greedy_takes_the_most_likely_token(model, full_log_probs):
    (context,) = contexts(1, seed=3)
    (sample,) = make_sampler(model).sample([Request(0, context, 0)], temperature=0.0)
    ids = context
    for token in sample.response_ids:
        assert int(token) == int(full_log_probs(ids)[len(ids) - 1].argmax())
        ids = np.append(ids, token)


def test_temperature_scales_the_logits(model, full_log_probs):
    (context,) = contexts(1, seed=4)
    sampler = make_sampler(model, slots=64)
    log_probs = full_log_probs(context)[len(context) - 1]
    sharp = np.exp(log_probs / 0.5) / np.exp(log_probs / 0.5).sum()
    first = [
        int(s.response_ids[0])
        for r in range(10)
        for s in sampler.sample([Request(i, context, 1000 * r + i) for i in range(64)], temperature=0.5)
    ]
    seen = np.bincount(first, minlength=60) / len(first)
    assert np.abs(seen - sharp).max() < 4 * np.sqrt(0.25 / len(first))


def test_new_parameters_forget_the_cache(model, full_log_probs):
    graphdef, params = model
    sampler = make_sampler((graphdef, jax.tree.map(lambda x: 0.5 * x, params)))
    (context,) = contexts(1, seed=5)
    sampler.sample([Request(0, context, 0)], temperature=1.0)
    sampler.load(params)
    (sample,) = sampler.sample([Request(0, context, 0)], temperature=1.0)
    first = full_log_probs(context)[len(context) - 1, sample.response_ids[0]]
    np.testing.assert_allclose(sample.log_probs[0], first, atol=2e-5)


@pytest.mark.parametrize("length", [0, 500])
def test_a_context_without_room_is_refused(model, length):
    with pytest.raises(ValueError, match=f"context of {length} tokens"):
        make_sampler(model).sample([Request(0, np.ones(length, np.int32), 0)], temperature=1.0)


def test_helpers():
    assert [bucket(n, 16) for n in (1, 16, 17, 64, 65)] == [16, 16, 32, 64, 128]
    assert common_prefix(np.array([1, 2, 3]), np.array([1, 2, 4, 5])) == 2
    assert common_prefix(np.array([1, 2]), np.array([1, 2, 4])) == 2
