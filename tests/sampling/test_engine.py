"""The decode engine against full forward passes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from local_processes import assert_all_well, run_processes
from sharded_sampling import LEARNER

from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, apply, compute_logits, split
from pivotopd_jax.models.qwen3_config import MoeConfig
from pivotopd_jax.sampling import decoding
from pivotopd_jax.sampling.engine import Sampler
from pivotopd_jax.sampling.policy import Request, Sample, SampledStream

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


def make_sampler(model, slots=4, config=CONFIG, max_new=6, end_ids=ENDS) -> Sampler:
    return Sampler(config, *model, slots=slots, capacity=160, max_new=max_new, end_ids=end_ids, chunk=16)


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


def expected_log_probs(full_log_probs, request: Request, sample: Sample) -> np.ndarray:
    ids = np.concatenate([request.context_ids, sample.response_ids])
    return full_log_probs(ids)[np.arange(len(request.context_ids) - 1, len(ids) - 1), sample.response_ids]


def drained(stream, count: int) -> list[tuple[Request, Sample]]:
    found = []
    while len(found) < count:
        found += stream.poll()
    return found


def test_a_stream_gives_what_each_request_would_get_alone(model, full_log_probs):
    """More requests than slots, one by one and in another order, and two turns of a session on one another's heels."""
    requests = [Request(i % 9, ids, 40 + i) for i, ids in enumerate(contexts(12, seed=7))]
    alone = {r.seed: make_sampler(model).sample([r], temperature=1.0)[0] for r in requests}
    for order in (requests, requests[::-1]):
        sampler, found = make_sampler(model), []
        with sampler.stream(temperature=1.0) as stream:
            for request in order:
                stream.submit(request)
                found += stream.poll()
            found += drained(stream, len(order) - len(found))
        assert sorted(r.seed for r, _ in found) == [r.seed for r in requests]
        for request, sample in found:
            np.testing.assert_array_equal(sample.response_ids, alone[request.seed].response_ids)
            np.testing.assert_allclose(sample.log_probs, expected_log_probs(full_log_probs, request, sample), atol=2e-5)


def test_a_stream_goes_on_while_another_is_sampled_from(model):
    (first, second) = (Request("same", ids, i) for i, ids in enumerate(contexts(2, seed=8)))
    expected = [make_sampler(model).sample([r], temperature=t)[0] for r, t in ((first, 1.0), (second, 0.0))]
    sampler = make_sampler(model)
    with sampler.stream(temperature=1.0) as stream:
        stream.submit(first)
        (sampled,) = sampler.sample([second], temperature=0.0)
        ((request, streamed),) = drained(stream, 1)
    assert request is first
    for found, alone in zip((streamed, sampled), expected, strict=True):
        np.testing.assert_array_equal(found.response_ids, alone.response_ids)


def test_a_long_context_does_not_keep_others_waiting(model, full_log_probs):
    sampler = make_sampler(model, slots=4, max_new=40, end_ids=())
    short, long = (Request(n, np.arange(7, 7 + n, dtype=np.int32) % 53 + 7, n) for n in (5, 150))
    with sampler.stream(temperature=1.0) as stream:
        stream.submit(short)
        assert stream.poll() == []
        stream.submit(long)
        ((first, _),) = drained(stream, 1)
        assert first is short
        job = next(job for job in sampler._seats.jobs if job)
        assert (job.request, job.made) == (long, 0)  # of its ten chunks some are still to be read
        ((_, sample),) = drained(stream, 1)
    np.testing.assert_allclose(sample.log_probs, expected_log_probs(full_log_probs, long, sample), atol=2e-5)


def spied(monkeypatch, name: str) -> list[tuple]:
    """The positional arguments after the cache of all calls of a function of `decoding`."""
    calls, function = [], getattr(decoding, name)

    def spy(*arguments, **named):
        calls.append(arguments[1:] if name == "copy" else arguments[3:])
        return function(*arguments, **named)

    monkeypatch.setattr(decoding, name, spy)
    return calls


def test_rollouts_of_one_task_read_its_prompt_once(model, full_log_probs, monkeypatch):
    (context,) = contexts(1, seed=9)
    fills, copies = spied(monkeypatch, "fill"), spied(monkeypatch, "copy")
    requests = [Request(i, context, i) for i in range(4)]
    for request, sample in zip(requests, make_sampler(model).sample(requests, temperature=1.0), strict=True):
        np.testing.assert_allclose(sample.log_probs, expected_log_probs(full_log_probs, request, sample), atol=2e-5)
    assert len(fills) == -(-(len(context) - 1) // 16)
    assert all((places < 4).sum() == 1 for places, *_ in fills)
    assert [(places < 4).sum() for _, places in copies] == [3]


def test_a_sampler_without_twins_says_the_same(model, monkeypatch):
    (context,) = contexts(1, seed=9)
    requests = [Request(i, context, i) for i in range(4)]
    usual = make_sampler(model)
    baseline = usual.resized(slots=4, capacity=usual.capacity - usual.max_new, max_new=usual.max_new, twins=False)
    copies = spied(monkeypatch, "copy")
    said = [sampler.sample(requests, temperature=1.0) for sampler in (baseline, usual)]
    assert len(copies) == 1
    assert len({tuple(ids.tolist()) for ids in (sample.response_ids for sample in said[0])}) > 1
    for one, other in zip(*said, strict=True):
        np.testing.assert_array_equal(one.response_ids, other.response_ids)


def test_the_greatest_is_the_first_of_equals():
    scores = np.random.default_rng(0).integers(0, 9, (50, 40)).astype(np.float32)
    np.testing.assert_array_equal(decoding._greatest(jnp.asarray(scores)), scores.argmax(-1))
    nothing = jnp.full((1, 40), -jnp.inf)
    assert decoding._greatest(nothing).tolist() == [0]


def test_few_live_responses_do_not_pay_for_all_slots(model, monkeypatch):
    decodes, sampler = spied(monkeypatch, "decode"), make_sampler(model, slots=8)
    ids = contexts(8, seed=10)
    for count, rows in ((8, 8), (2, 2), (3, 8)):
        decodes.clear()
        sampler.sample([Request(i, ids[i], i) for i in range(count)], temperature=1.0)
        assert {len(rows.token) for _, rows, *_ in decodes} == {rows}


def test_the_number_of_compiled_shapes_is_bounded(model):
    """Caches of 128 and 256, of which half may be read; chunks of four widths; rows: a quarter, or all in place."""
    sizes = {name: getattr(decoding, name)._cache_size() for name in ("fill", "copy", "decode")}
    sampler, random = make_sampler(model, slots=12), np.random.default_rng(11)  # no other test has 12 slots
    for turn in range(12):
        ids = contexts(int(random.integers(1, 30)), seed=turn)
        ids = [np.resize(context, random.integers(1, 160)) for context in ids]
        sampler.sample([Request(i, context, i) for i, context in enumerate(ids * 2)], temperature=1.0)
    added = {name: getattr(decoding, name)._cache_size() - size for name, size in sizes.items()}
    assert 0 < added["fill"] <= 12
    assert 0 < added["decode"] <= 4
    assert 0 < added["copy"] <= 2


def test_log_probs_are_raw_whatever_is_cut_off(model, full_log_probs):
    requests = [Request(i, ids, i) for i, ids in enumerate(contexts(4, seed=12))]
    whole = make_sampler(model).sample(requests, temperature=0.7)
    cut = make_sampler(model).sample(requests, temperature=0.7, top_p=0.3)
    assert any(a.response_ids.tolist() != b.response_ids.tolist() for a, b in zip(whole, cut, strict=True))
    for request, sample in zip(requests, cut, strict=True):
        np.testing.assert_allclose(sample.log_probs, expected_log_probs(full_log_probs, request, sample), atol=2e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"temperature": -1.0}, "temperature is -1"), ({"temperature": 1.0, "top_p": 0.0}, r"top_p is 0\.0; expected"),
     ({"temperature": 1.0, "top_p": 1.1}, r"top_p is 1\.1"), ({"temperature": float("nan")}, "temperature is nan")],
)  # fmt: skip
def test_what_is_no_distribution_is_refused(model, options, message):
    sampler = make_sampler(model)
    for attempt in (sampler.stream, lambda **o: sampler.sample([], **o)):
        with pytest.raises(ValueError, match=message):
            attempt(**options)


def test_new_weights_under_way_are_refused_until_the_stream_is_closed(model):
    sampler = make_sampler(model)
    with sampler.stream(temperature=1.0) as stream:
        for i, ids in enumerate(contexts(6, seed=13)):
            stream.submit(Request(i, ids, i))
        stream.poll()
        with pytest.raises(RuntimeError, match="while responses are under way; close their stream first"):
            sampler.load(sampler.params)
    sampler.load(sampler.params)
    assert len(sampler.sample([Request(0, contexts(1, seed=14)[0], 0)], temperature=1.0)) == 1


def test_a_policy_that_can_only_sample_streams_too(model):
    requests = [Request(i, ids, i) for i, ids in enumerate(contexts(3, seed=15))]
    expected = make_sampler(model).sample(requests, temperature=1.0)
    with SampledStream(make_sampler(model), 1.0, 1.0) as stream:
        for request in requests:
            stream.submit(request)
        found = stream.poll()
        assert stream.poll() == []
    assert [request for request, _ in found] == requests
    for (_, sample), alone in zip(found, expected, strict=True):
        np.testing.assert_array_equal(sample.response_ids, alone.response_ids)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory) -> dict[str, np.ndarray]:
    """What eight devices sampled, and one."""
    file = tmp_path_factory.mktemp("sharded") / "samples.npz"
    script = Path(__file__).parents[1] / "sharded_sampling.py"
    assert_all_well(run_processes([str(script), str(file)], [{}], devices=8))
    return dict(np.load(file))


@pytest.mark.parametrize(
    ("case", "rows", "heads"),
    [("as the learner's", 16 // LEARNER[0], 1), ("tensor 1", 2, 2), ("tensor 4", 8, 2)],
)
def test_eight_devices_sample_what_one_does(sharded, case, rows, heads):
    """Two key/value heads divide among two devices, and are whole on each of four."""
    assert sharded[f"{case}/devices"] == 8
    assert sharded[f"{case}/part"].tolist() == [rows, heads, 8, 128]
    for i in range(51):
        np.testing.assert_array_equal(sharded[f"{case}/ids/{i}"], sharded[f"one/ids/{i}"])
        np.testing.assert_allclose(sharded[f"{case}/log_probs/{i}"], sharded[f"one/log_probs/{i}"], atol=1e-5)


def test_slots_that_do_not_divide_are_refused(model):
    mesh: Any = jax.sharding.AbstractMesh((3, 1, 1), ("fsdp", "tensor", "expert"))
    with pytest.raises(ValueError, match=r"4 slots do not divide among 3 devices; set config\.sampler\.slots"):
        Sampler(CONFIG, *model, slots=4, capacity=160, max_new=6, end_ids=ENDS, mesh=mesh)
