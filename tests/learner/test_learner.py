"""The update: ratios of the first update are 1, and neither a mesh nor chunks of logits change anything."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from pivotopd_jax.learner.learner import DivergenceTerm, Learner, make_mesh, make_optimizer
from pivotopd_jax.learner.objective import UpdateOptions
from pivotopd_jax.losses.divergences import jensen_shannon
from pivotopd_jax.models.head import LOGITS_AT_ONCE
from pivotopd_jax.models.lora import Lora, adapt
from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, abstract, parameter_name, shardings, split
from pivotopd_jax.records import DivergenceBatch, Row, TokenBatch
from pivotopd_jax.rollout.packing import Packed
from pivotopd_jax.rollout.rows import batch_rows

CONFIG = Qwen3Config(40, 16, 32, 2, 2, 2, 8, 1e4, 1e-6, True, 128)


def make_batch(seed: int = 0) -> tuple[TokenBatch, Packed]:
    random = np.random.default_rng(seed)
    rows = [
        Row(
            "rollout",
            i,
            0,
            0,
            random.integers(1, 40, 5 + i).astype(np.int32),
            random.integers(1, 40, 3).astype(np.int32),
        )
        for i in range(11)
    ]
    batch, packed = batch_rows(rows, length=32)
    return batch._replace(advantages=packed.scatter(list(random.normal(size=len(rows))))), packed


def make_learner(fsdp: int = 1, tensor: int = 1, expert: int = 1, **options) -> tuple[Learner, Any]:
    graphdef, params = split(Qwen3(CONFIG, rngs=nnx.Rngs(0)))
    optimizer = make_optimizer(1e-2, warmup_steps=1, max_grad_norm=1.0)
    mesh = make_mesh(fsdp, tensor, expert)
    return Learner(graphdef, optimizer, mesh, micro_batch_tokens=64, options=UpdateOptions(**options)), params


def test_the_first_update_needs_no_old_log_probs():
    learner, params = make_learner()
    batch, packed = make_batch()
    scored = learner.score(params, packed)
    batch = batch._replace(reference_log_probs=scored)
    given, expected = learner.update(learner.init(params), batch._replace(old_log_probs=scored))
    free, metrics = learner.update(learner.init(params), batch, on_policy=True)
    assert metrics == pytest.approx(expected, rel=1e-5, abs=1e-7)
    for left, right in zip(jax.tree.leaves(given.params), jax.tree.leaves(free.params), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)


def test_the_likelihood_objective_is_cross_entropy():
    learner, params = make_learner(objective="likelihood")
    batch, packed = make_batch()
    log_probs = learner.score(params, packed)
    batch = batch._replace(advantages=batch.mask.astype(np.float32))
    _, metrics = learner.update(learner.init(params), batch)
    assert metrics["loss"] == pytest.approx(-log_probs[batch.mask].mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("decay_until", "rates"), [(0, [0.25, 0.5, 0.75, 1, 1, 1, 1]), (6, [0.25, 0.5, 0.75, 1, 1, 0.5, 0])]
)
def test_the_learning_rate_warms_up_and_may_fall(decay_until, rates):
    optimizer = make_optimizer(1.0, warmup_steps=4, max_grad_norm=1e9, decay_until=decay_until)
    params, sizes = np.zeros(1, np.float32), []
    state = optimizer.init(params)
    for _ in rates:
        updates, state = optimizer.update(np.ones(1, np.float32), state, params)
        sizes.append(-float(np.asarray(updates)[0]))
    np.testing.assert_allclose(sizes, rates, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_an_update_that_is_not_finite_changes_nothing(poison):
    learner, params = make_learner()
    batch, _ = make_batch()
    state, metrics = learner.update(learner.init(params), batch, on_policy=True)
    assert metrics["skipped"] == 0
    before = jax.tree.map(np.asarray, jax.device_get(state))
    advantages = batch.advantages.copy()
    advantages[np.nonzero(batch.mask)[0][-1], np.nonzero(batch.mask)[1][-1]] = poison
    state, metrics = learner.update(state, batch._replace(advantages=advantages), on_policy=True)
    assert metrics["skipped"] == 1
    assert not np.isfinite(metrics["loss"])
    for found, expected in zip(jax.tree.leaves(state), jax.tree.leaves(before), strict=True):
        assert np.asarray(found).tobytes() == expected.tobytes()
    state, metrics = learner.update(state, batch, on_policy=True)
    assert metrics["skipped"] == 0
    assert int(state.step) == 2


def test_a_mesh_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="a mesh of 64 × 2 × 1 devices was asked for; this machine has"):
        make_mesh(64, 2)


def loss_and_gradient_norm(fsdp: int, tensor: int, expert: int = 1) -> tuple[float, float]:
    learner, params = make_learner(fsdp, tensor, expert)
    learner.micro_batch_tokens = 64 // (fsdp * expert)
    _, metrics = learner.update(learner.init(params), make_batch()[0], on_policy=True)
    return metrics["loss"], metrics["grad_norm"]


class Chunks(NamedTuple):
    """How an update is made: on which mesh, of what model, and how much of its logits at once (0: all)."""

    fsdp: int
    tensor: int
    tied: bool
    remat: bool = False
    at_once: int = 0
    layers: int = 1


def gradient_by_name(how: Chunks) -> dict[str, np.ndarray]:
    """The loss of an update with a divergence term, and its whole gradient."""
    config = dataclasses.replace(CONFIG, tie_embeddings=how.tied, num_layers=how.layers)
    graphdef, params = split(Qwen3(config, rngs=nnx.Rngs(0)))
    # Embeddings as large as a trained student's: the loss then has a gradient worth comparing.
    params = jax.tree.map(lambda x: 10 * x if x.ndim == 2 else x, params)
    learner = Learner(
        graphdef, optax.trace(decay=0), make_mesh(how.fsdp, how.tensor), micro_batch_tokens=64 // how.fsdp * 8,
        remat=how.remat, logits_at_once=how.at_once // (how.fsdp * how.tensor) or LOGITS_AT_ONCE,
    )  # fmt: skip
    batch, packed = make_batch()
    scored = learner.score(params, packed)
    batch = batch._replace(old_log_probs=scored - 0.05 * batch.mask, reference_log_probs=scored + 0.1 * batch.mask)
    hidden = np.random.default_rng(1).normal(size=(*batch.tokens.shape, 16)).astype(np.float32)
    taught = DivergenceBatch(*batch[:5], weights=0.5 * batch.weights, teacher_hidden=hidden)
    term = DivergenceTerm(taught, graphdef, params, partial(jensen_shannon, beta=0.3))
    state, metrics = learner.update(learner.init(params), batch, divergence=term)
    found = {"loss": np.asarray(metrics["loss"]), "scored": scored, "term": learner.divergence(params, term)}
    gradient: Any = state.opt_state
    for path, array in jax.tree.leaves_with_path(gradient.trace):
        found[jax.tree_util.keystr(path)] = np.asarray(array)
    return found


def assert_same(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    assert set(found) == set(expected)
    for name, value in expected.items():
        scale = np.abs(value).max()
        assert scale > 0, name
        np.testing.assert_allclose(found[name], value, atol=1e-5 * scale, err_msg=name)


CHUNKED = [Chunks(8, 1, True, True, 1200, 2), Chunks(4, 2, False, False, 1200), Chunks(2, 4, True, False, 1200)]
"""1200 logits are 30 tokens: fewer than a micro-batch of 8 rows has."""


@pytest.mark.parametrize("how", [Chunks(1, 1, True, True, 200, 2), Chunks(1, 1, False, False, 440)])
def test_chunks_change_neither_scores_nor_loss_nor_gradient(how):
    assert_same(gradient_by_name(how), gradient_by_name(how._replace(remat=False, at_once=0)))


def shapes_of_tokens(fsdp: int, tensor: int) -> set[int]:
    """For how many tokens, of 8 rows of 256, a device computes a feed-forward layer while gradients are made."""
    config = dataclasses.replace(CONFIG, vocab_size=300, hidden_size=48, intermediate_size=56 * tensor)
    graphdef, params = abstract(config)
    learner = Learner(graphdef, optax.sgd(1.0), make_mesh(fsdp, tensor), micro_batch_tokens=8 * 256)
    text = learner.lower(params, 256)["accumulate"].compile().as_text() or ""
    return {int(size) for size in re.findall(r"f32\[(\d+),56\]", text)} - {48, 48 // fsdp}  # and of weights


def update_of_adapters(fsdp: int, tensor: int, base_dtype: str = "", *, remat: bool = False) -> dict[str, np.ndarray]:
    """Scores, loss and the whole gradient of adapters, with a divergence term taught by the policy itself."""
    mesh, targets = make_mesh(fsdp, tensor), ("q_proj", "v_proj", "o_proj", "down_proj")
    place = partial(shardings, mesh=mesh, replicate_indivisible=True)
    graphdef, params = split(Qwen3(CONFIG, rngs=nnx.Rngs(0)))
    params = jax.device_put(jax.tree.map(lambda x: 10 * x if x.ndim == 2 else x, params), place(params))
    graphdef, adapters, base = adapt(graphdef, params, Lora(2, 4.0, targets, base_dtype), place)
    adapters = jax.tree.map(lambda x: x + 0.1 * jnp.cos(jnp.arange(x.size).reshape(x.shape)), adapters)
    learner = Learner(graphdef, optax.trace(decay=0), mesh, base=base, micro_batch_tokens=64 // fsdp, remat=remat)
    batch, packed = make_batch()
    state, scored = learner.init(adapters), learner.score(adapters, packed)
    batch = batch._replace(old_log_probs=scored - 0.05 * batch.mask, reference_log_probs=scored + 0.1 * batch.mask)
    hidden = np.random.default_rng(1).normal(size=(*batch.tokens.shape, 16)).astype(np.float32)
    taught = DivergenceBatch(*batch[:5], weights=0.5 * batch.weights, teacher_hidden=hidden)
    term = DivergenceTerm(taught, graphdef, learner.whole(adapters), partial(jensen_shannon, beta=0.3))
    before = [np.array(x) for x in jax.tree.leaves(base)]
    state, metrics = learner.update(state, batch, divergence=term)
    for array, value in zip(jax.tree.leaves(learner.base), before, strict=True):
        np.testing.assert_array_equal(array, value)
    gradient: Any = state.opt_state
    found = {"loss": np.asarray(metrics["loss"]), "scored": scored}
    found |= {parameter_name(path): np.asarray(x) for path, x in jax.tree_util.tree_leaves_with_path(gradient.trace)}
    assert len(found) == 2 + len(jax.tree.leaves(state.params)) == 2 + 2 * 2 * len(targets)
    if mesh.size > 1:
        spread = {(*x.sharding.spec, None)[:2] for x in jax.tree.leaves(state.params)}
        assert {("fsdp", None), (None, "tensor")} < spread
    return found


SHARDED = """
import jax, numpy, sys
sys.path.insert(0, {folder!r})
from test_learner import CHUNKED, gradient_by_name, loss_and_gradient_norm, make_learner
from test_learner import shapes_of_tokens, update_of_adapters
assert jax.device_count() == 8
for mesh in ((8, 1), (4, 2), (2, 4), (2, 1, 4)):
    print(*loss_and_gradient_norm(*mesh))
for number, how in enumerate(CHUNKED):
    numpy.savez({place!r} + f"/{{number}}.npz", **gradient_by_name(how))
shapes = shapes_of_tokens(8, 1), shapes_of_tokens(4, 2)
assert shapes == ({{256}}, {{512}}), shapes
for dtype in ("", "int8"):
    numpy.savez({place!r} + f"/lora{{dtype}}.npz", **update_of_adapters(4, 2, dtype, remat=True))
learner, params = make_learner(4, 2)
moments = [x for x in jax.tree.leaves(learner.init(params).opt_state) if x.ndim == 2]
assert moments and all(len(x.sharding.device_set) == 8 for x in moments)
"""


def test_sharded_over_eight_devices_equals_unsharded(tmp_path):
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_COMPILATION_CACHE_DIR": jax.config.values["jax_compilation_cache_dir"] or "",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    code = SHARDED.format(folder=str(Path(__file__).parent), place=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    expected = loss_and_gradient_norm(1, 1)
    results = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    assert len(results) == 4
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-7)
    for number, how in enumerate(CHUNKED):
        with np.load(tmp_path / f"{number}.npz") as found:
            assert_same(found, gradient_by_name(Chunks(1, 1, how.tied, layers=how.layers)))
    for dtype in ("", "int8"):
        with np.load(tmp_path / f"lora{dtype}.npz") as found:
            assert_same(found, update_of_adapters(1, 1, dtype))


def test_small_steps_are_not_lost_in_bfloat16():
    graphdef, params = split(Qwen3(CONFIG, rngs=nnx.Rngs(0), dtype=jnp.bfloat16))
    optimizer = make_optimizer(1e-6, warmup_steps=1, max_grad_norm=1.0)
    learner = Learner(graphdef, optimizer, make_mesh(), micro_batch_tokens=64, dtype="bfloat16")
    exact = Learner(graphdef, optimizer, make_mesh(), micro_batch_tokens=64)
    batch, packed = make_batch()
    scored = learner.score(params, packed)
    assert scored.dtype == np.float32
    difference = np.abs(scored - exact.score(params, packed)).max()
    assert 0 < difference < 0.02
    state, _ = learner.update(learner.init(params), batch, on_policy=True)
    pairs = zip(jax.tree.leaves(state.params), jax.tree.leaves(params), strict=True)
    moved = [np.abs(new - np.asarray(old, np.float32)) for new, old in pairs]
    assert all(x.dtype == np.float32 for x in (*moved, *jax.tree.leaves(state.opt_state)) if x.ndim)
    assert all(np.median(change) == pytest.approx(1e-6, rel=0.1) for change in moved if change.ndim == 2)


def test_optimizers_with_masked_parts_can_be_sharded():
    graphdef, params = split(Qwen3(CONFIG, rngs=nnx.Rngs(0)))
    optimizer = optax.contrib.muon(1e-2)
    state = Learner(graphdef, optimizer, make_mesh(), micro_batch_tokens=64).init(params)
    assert any(x.ndim == 2 for x in jax.tree.leaves(state.opt_state))
