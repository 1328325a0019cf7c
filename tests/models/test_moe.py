"""The mixture of experts against a plain loop over tokens, and on eight forced devices against one."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AbstractMesh, PartitionSpec

from pivotopd_jax.models import moe, qwen3
from pivotopd_jax.models.moe import ExpertWeights, mix, route
from pivotopd_jax.models.qwen3_config import MoeConfig, Qwen3Config

PROJECT = Path(__file__).resolve().parents[2]
EXPERTS = MoeConfig(num_experts=8, experts_per_token=2, intermediate_size=12, norm_topk_prob=True, dense_layers=(1,))
CONFIG = Qwen3Config(48, 16, 24, 2, 2, 1, 8, 5e6, 1e-6, False, 64, moe=EXPERTS)
PUBLISHED = Qwen3Config(  # Qwen3-30B-A3B
    151936, 2048, 6144, 48, 32, 4, 128, 1e6, 1e-6, False, 40960, moe=MoeConfig(128, 8, 768, norm_topk_prob=True)
)


def draw(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def some_experts(count: int, hidden: int = 6, width: int = 5) -> ExpertWeights:
    inward, outward = (count, hidden, width), (count, width, hidden)
    return ExpertWeights(*(draw(*s, seed=i) for i, s in enumerate((inward, inward, outward))))


def token_by_token(x: Any, chosen: Any, weights: Any, experts: ExpertWeights) -> jax.Array:
    def one(e: int, row: jax.Array) -> jax.Array:
        gate = row @ experts.gate[e]
        return (gate / (1 + jnp.exp(-gate)) * (row @ experts.up[e])) @ experts.down[e]

    return jnp.stack([sum(weights[n, k] * one(e, x[n]) for k, e in enumerate(row)) for n, row in enumerate(chosen)])


def test_the_router_takes_the_best_and_can_make_their_weights_add_up_to_one() -> None:
    x, gate = jnp.ones((1, 1)), jnp.log(jnp.array([[1.0, 4.0, 2.0, 3.0]]))
    plain = MoeConfig(4, 2, 1, norm_topk_prob=False)
    chosen, weights = route(x, gate, plain)
    np.testing.assert_array_equal(chosen, [[1, 3]])
    np.testing.assert_allclose(weights, [[0.4, 0.3]], rtol=1e-6)
    _, weights = route(x, gate, dataclasses.replace(plain, norm_topk_prob=True))
    np.testing.assert_allclose(weights, [[4 / 7, 3 / 7]], rtol=1e-6)


@pytest.mark.parametrize("tokens", [1, 9])
def test_mixing_equals_going_token_by_token_and_so_do_its_gradients(tokens: int) -> None:
    """One expert is chosen by nobody, one by everybody; one token (decoding) is mixed as many are."""
    experts, x, weights = some_experts(5), draw(tokens, 6, seed=7), draw(tokens, 3, seed=8)
    others = np.random.default_rng(9)
    chosen = jnp.asarray([[*others.permutation(3)[:2], 4] for _ in range(tokens)], jnp.int32)

    def loss(function: Any, x: Any, weights: Any, experts: Any) -> jax.Array:
        return jnp.sum(jnp.sin(function(x, chosen, weights, experts)))

    np.testing.assert_allclose(
        jax.jit(mix)(x, chosen, weights, experts), token_by_token(x, chosen, weights, experts), rtol=1e-4, atol=1e-5
    )
    remade = jax.checkpoint(mix)  # pyright: ignore[reportPrivateImportUsage]
    got = jax.jit(jax.grad(partial(loss, remade), argnums=(0, 1, 2)))(x, weights, experts)
    expected = jax.grad(partial(loss, token_by_token), argnums=(0, 1, 2))(x, weights, experts)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), got, expected)
    assert float(jnp.abs(got[2].gate[3]).max()) == 0 < float(jnp.abs(got[2].gate[4]).max())


def test_parts_of_the_experts_add_up_to_all() -> None:
    experts, x, weights = some_experts(6), draw(7, 6, seed=1), draw(7, 2, seed=2)
    chosen = jnp.asarray(np.random.default_rng(3).integers(0, 6, (7, 2)), jnp.int32)
    parts = [mix(x, chosen, weights, jax.tree.map(lambda a, i=i: a[i : i + 2], experts), i) for i in (0, 2, 4)]
    np.testing.assert_allclose(sum(parts), mix(x, chosen, weights, experts), rtol=1e-4, atol=1e-5)


def test_layers_have_experts_where_the_configuration_says_so() -> None:
    config = MoeConfig(4, 2, 8, norm_topk_prob=True, sparse_step=2, dense_layers=(3,))
    assert [config.in_layer(i) for i in range(6)] == [False, True, False, False, False, True]
    shapes: Any = qwen3.abstract(dataclasses.replace(CONFIG, num_layers=4, moe=config))[1]
    assert ["experts" in shapes["layers"][i]["mlp"] for i in range(4)] == [False, True, False, False]


def test_a_layer_of_experts_needs_their_configuration() -> None:
    with pytest.raises(ValueError, match="the configuration has no experts"):
        moe.SparseFeedForward(dataclasses.replace(CONFIG, moe=None), rngs=nnx.Rngs(0), dtype=jnp.float32)


def test_the_published_model_has_its_published_size_and_can_be_sharded() -> None:
    """Qwen3-30B-A3B: 30.5 billion parameters (technical report, table 2)."""
    shapes = qwen3.abstract(PUBLISHED, jnp.bfloat16)[1]
    layer = 2048 * (2 * 32 * 128 + 2 * 4 * 128) + 2 * 128 + 2 * 2048 + 128 * (2048 + 3 * 2048 * 768)
    assert sum(math.prod(x.shape) for x in jax.tree.leaves(shapes)) == 48 * layer + 2 * 151936 * 2048 + 2048
    assert 48 * layer + 2 * 151936 * 2048 == pytest.approx(30.5e9, rel=2e-3)
    specs: Any = qwen3.partition_specs(shapes, AbstractMesh((4, 2, 8), ("fsdp", "tensor", "expert")))
    mlp = specs["layers"][47]["mlp"]
    assert mlp["experts"]["down_proj"].get_value() == PartitionSpec("expert", "tensor", "fsdp")
    assert mlp["gate"].get_value() == PartitionSpec("fsdp")


def test_a_mesh_that_does_not_divide_the_experts_is_refused_unless_told_otherwise() -> None:
    _, shapes = qwen3.abstract(CONFIG)
    mesh = AbstractMesh((2, 1, 3), ("fsdp", "tensor", "expert"))
    with pytest.raises(ValueError, match=r"down_proj \(8, 12, 16\): 8 is not divisible by the 3 devices .* 'expert'"):
        qwen3.partition_specs(shapes, mesh)
    specs: Any = qwen3.partition_specs(shapes, mesh, replicate_indivisible=True)
    spec = specs["layers"][0]["mlp"]["experts"]["down_proj"].get_value()
    assert spec == PartitionSpec(None, "tensor", "fsdp")
    with pytest.raises(ValueError, match="'expert', but the mesh has only the axes"):
        qwen3.partition_specs(shapes, AbstractMesh((2, 4), ("fsdp", "tensor")))


def lively(config: Qwen3Config) -> tuple[nnx.GraphDef, nnx.State]:
    """Random weights, large enough for logits of several units."""
    graphdef, shapes = qwen3.abstract(config)
    noise = np.random.default_rng(0)
    return graphdef, jax.tree.map(lambda x: jnp.asarray(noise.normal(len(x.shape) == 1, 0.2, x.shape), x.dtype), shapes)


def loss_and_gradient(graphdef: nnx.GraphDef, params: Any, tokens: Any) -> tuple[jax.Array, Any]:
    """Mean negative log-likelihood in nats of every next token, with layers recomputed in the backward pass."""
    batch, length = tokens.shape
    positions, mask = jnp.tile(jnp.arange(length), (batch, 1)), jnp.tril(jnp.ones((batch, length, length), bool))

    def loss(params: Any) -> jax.Array:
        hidden, _ = qwen3.apply(graphdef, params, tokens, positions, mask, remat=True)
        log_probs = jax.nn.log_softmax(qwen3.compute_logits(graphdef, params, hidden[:, :-1]))
        return -jnp.mean(jnp.take_along_axis(log_probs, tokens[:, 1:, None], axis=-1))

    return jax.value_and_grad(loss)(params)


SHARDED = """
import dataclasses, jax, numpy as np
from contextlib import nullcontext
from functools import partial
from jax.sharding import NamedSharding, PartitionSpec
from pivotopd_jax.learner.learner import make_mesh
from test_moe import CONFIG, EXPERTS, lively, loss_and_gradient, qwen3
assert jax.device_count() == 8
tokens = np.random.default_rng(0).integers(0, 48, (8, 6)).astype(np.int32)
six = dataclasses.replace(CONFIG, moe=dataclasses.replace(EXPERTS, num_experts=6))
for config, shape, known in (
    (CONFIG, (2, 1, 4), True), (CONFIG, (2, 2, 2), True), (CONFIG, (1, 1, 8), True),
    (six, (2, 1, 4), True), (CONFIG, (2, 1, 4), False),
):
    graphdef, params = lively(config)
    run = jax.jit(partial(loss_and_gradient, graphdef))
    mesh = make_mesh(*shape)
    placed = qwen3.shardings(params, mesh, replicate_indivisible=config is six)
    gate = placed["layers"][0]["mlp"]["experts"]["gate_proj"].get_value()
    assert ("expert" in gate.spec) == (config is CONFIG)
    with jax.set_mesh(mesh) if known else nullcontext():
        spread = jax.device_put(tokens, NamedSharding(mesh, PartitionSpec(("fsdp", "expert"))))
        got = run(jax.device_put(params, placed), spread)
        # Three rows of five tokens are spread over nothing.
        few = run(jax.device_put(params, placed), tokens[:3, :5]) if shape == (2, 2, 2) else None
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-5), got, run(params, tokens))
    if few:
        jax.tree.map(partial(np.testing.assert_allclose, atol=1e-5), few, run(params, tokens[:3, :5]))
    print("equal on", shape)
"""


def test_loss_and_gradient_on_meshes_equal_those_of_one_device() -> None:
    """Also where the mesh does not divide the experts, and where nobody told the layers of the mesh."""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_COMPILATION_CACHE_DIR": jax.config.values["jax_compilation_cache_dir"] or "",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(Path(__file__).parent)]),
    }
    done = subprocess.run([sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("equal on") == 5
