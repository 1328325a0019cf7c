"""Qwen3 against transformers, against itself with a cache and on packed trees, and on eight forced devices."""

from __future__ import annotations

import dataclasses
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

from pivotopd_jax.models import qwen3
from pivotopd_jax.models.attention import Tree, by_head
from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, apply, compute_logits, init_cache, split
from pivotopd_jax.models.qwen3_config import MoeConfig

PROJECT = Path(__file__).resolve().parents[2]
CONFIG = Qwen3Config(
    vocab_size=96,
    hidden_size=64,
    intermediate_size=96,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    rope_theta=5e6,
    rms_norm_eps=1e-6,
    tie_embeddings=False,
    max_positions=512,
)


def lively(config: Qwen3Config = CONFIG) -> tuple[nnx.GraphDef, nnx.State]:
    """Random weights, norms included, large enough for logits of several units."""
    graphdef, shapes = qwen3.abstract(config)
    noise = np.random.default_rng(0)

    def draw(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        mean, deviation = (0.0, 0.1) if len(leaf.shape) > 1 else (1.0, 0.3)
        return jnp.asarray(noise.normal(mean, deviation, leaf.shape), leaf.dtype)

    return graphdef, jax.tree.map(draw, shapes)


def some_tokens(batch: int, length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, CONFIG.vocab_size, (batch, length)).astype(np.int32)


def rows(batch: int, length: int) -> np.ndarray:
    return np.broadcast_to(np.arange(length, dtype=np.int32), (batch, length))


def causal(batch: int, length: int) -> np.ndarray:
    return np.broadcast_to(np.tril(np.ones((length, length), bool)), (batch, length, length))


@partial(jax.jit, static_argnums=0)
def run(graphdef: nnx.GraphDef, params: nnx.State, *inputs: Any) -> tuple[jax.Array, Any]:
    """Logits and cache."""
    hidden, cache = apply(graphdef, params, *inputs)
    return compute_logits(graphdef, params, hidden), cache


def full_logits(graphdef: nnx.GraphDef, params: nnx.State, tokens: Any) -> jax.Array:
    return run(graphdef, params, tokens, rows(*tokens.shape), causal(*tokens.shape))[0]


def torch_twin(config: Qwen3Config, params: nnx.State) -> Any:
    """transformers' model with the same weights, mapped here by hand rather than by `huggingface.save`."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    hf_config = transformers.Qwen3Config.from_dict(config.to_dict(), attn_implementation="eager")
    model = transformers.Qwen3ForCausalLM(hf_config).eval()
    state = {}
    for path, array in jax.tree_util.tree_leaves_with_path(params):
        name = qwen3.parameter_name(path)
        matrix = name.endswith("_proj") or name == "lm_head"
        values = torch.tensor(np.array(array.T if matrix else array))
        state["lm_head.weight" if name == "lm_head" else f"model.{name}.weight"] = values
    if config.tie_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


@pytest.mark.parametrize("tied", [False, True])
def test_logits_equal_those_of_transformers(tied: bool) -> None:
    torch = pytest.importorskip("torch")
    config = dataclasses.replace(CONFIG, tie_embeddings=tied)
    graphdef, params = lively(config)
    tokens, length = some_tokens(3, 40), 40
    real = np.ones((3, length), bool)
    real[1, 25:] = False  # padding on the right
    real[2, :11] = False  # padding on the left
    positions = np.maximum(np.cumsum(real, axis=1) - 1, 0)
    positions[0] += 300
    mask = causal(3, length) & real[:, None, :]
    logits, _ = run(graphdef, params, tokens, positions, mask)
    with torch.no_grad():
        expected = torch_twin(config, params)(
            torch.tensor(tokens).long(),
            attention_mask=torch.tensor(real).long(),
            position_ids=torch.tensor(positions).long(),
        ).logits.numpy()
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(logits[real], expected[real], atol=2e-5)


@pytest.mark.parametrize(
    "change",
    [{}, {"num_kv_heads": 4}, {"qk_norm": False}, {"moe": MoeConfig(6, 2, 32, True, dense_layers=(0,))}],
    ids=["few heads", "many heads", "llama", "experts"],
)
def test_decoding_through_the_cache_equals_the_full_forward(change: dict[str, Any]) -> None:
    """Prompts of unequal length in padded chunks, then token by token; both ways of attending to a cache."""
    config = dataclasses.replace(CONFIG, **change)
    graphdef, params = lively(config)
    tokens, prompts, chunk, keys = some_tokens(3, 30), np.array([5, 13, 8], np.int32), 8, 32
    expected = full_logits(graphdef, params, tokens)
    cache = init_cache(config, 3, 40, jnp.float32)

    def feed(part: np.ndarray, start: np.ndarray, cache: Any) -> tuple[np.ndarray, Any]:
        positions = start[:, None] + np.arange(part.shape[1], dtype=np.int32)
        mask = np.arange(keys) <= positions[:, :, None]
        logits, cache = run(graphdef, params, part, positions, mask, cache, start)
        return np.asarray(logits), cache

    padded = np.where(np.arange(2 * chunk) < prompts[:, None], tokens[:, : 2 * chunk], 7).astype(np.int32)
    for start in (0, chunk):
        got, cache = feed(padded[:, start : start + chunk], np.full(3, start, np.int32), cache)
        for b, prompt in enumerate(prompts):
            whole = slice(0, max(0, min(chunk, prompt - start)))
            np.testing.assert_allclose(got[b, whole], expected[b, start : start + chunk][whole], atol=1e-5)
    for step in range(12):
        now = prompts + np.int32(step)
        got, cache = feed(tokens[np.arange(3), now][:, None], now, cache)
        np.testing.assert_allclose(got[:, 0], expected[np.arange(3), now], atol=1e-5)


def test_writes_beyond_the_capacity_are_dropped() -> None:
    cached, new = by_head(*2 * [jnp.arange(12.0).reshape(2, 6, 1, 1)]), -jnp.ones((2, 3, 1, 1))
    for written in qwen3.write_cache(cached, new, new, jnp.array([4, 6])):
        np.testing.assert_array_equal(written.reshape(2, 6), [[0, 1, 2, 3, -1, -1], [6, 7, 8, 9, 10, 11]])


def test_a_packed_tree_equals_its_paths() -> None:
    """Two trees in one row: each token's logits are those of its own root-to-leaf path alone."""
    graphdef, params = lively()
    parents = [-1, 0, 1, 2, 1, 4, 0, 6, -1, 8, 9, 8, -2, -2]  # -1: a root, -2: padding
    length = len(parents)
    paths = [[i] for i in range(length)]
    subtree_end = np.arange(length) + 1
    for i, parent in enumerate(parents):
        if parent >= 0:
            paths[i] = [*paths[parent], i]
        for ancestor in paths[i]:
            subtree_end[ancestor] = max(subtree_end[ancestor], i + 1)
    tokens = some_tokens(1, length)
    positions = np.array([[len(path) - 1 for path in paths]], np.int32)
    packed, _ = run(graphdef, params, tokens, positions, Tree(jnp.asarray(subtree_end)[None]))
    alone = np.zeros((length, max(map(len, paths))), np.int32)
    for i, path in enumerate(paths):
        alone[i, : len(path)] = tokens[0, path]
    expected = full_logits(graphdef, params, alone)[np.arange(length), positions[0]]
    np.testing.assert_allclose(packed[0], expected, atol=1e-5)


def gradient_of(config: Qwen3Config, remat: bool, length: int = 12) -> tuple[Any, nnx.State]:
    """The gradient of some loss of two rows as a compiled function, and parameters for it."""
    graphdef, params = lively(config)
    tokens = some_tokens(2, length)

    def loss(params: nnx.State) -> jax.Array:
        hidden, _ = apply(
            graphdef, params, jnp.asarray(tokens), jnp.asarray(rows(2, length)), jnp.asarray(causal(2, length)),
            remat=remat,
        )  # fmt: skip
        return jax.nn.logsumexp(compute_logits(graphdef, params, hidden), axis=-1).sum()

    return jax.jit(jax.grad(loss)), params


EXPERTS = MoeConfig(4, 2, 16, norm_topk_prob=True, dense_layers=(0, 3))
"""With five layers: dense, two of experts, dense, one of experts."""


@pytest.mark.parametrize("config", [CONFIG, dataclasses.replace(CONFIG, num_layers=5, moe=EXPERTS)])
def test_rematerialisation_changes_no_gradient(config: Qwen3Config) -> None:
    (plain, params), (again, _) = (gradient_of(config, remat) for remat in (False, True))
    gradient = plain(params)
    assert all(float(jnp.abs(x).max()) > 0 for x in jax.tree.leaves(gradient))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), gradient, again(params))


def test_with_rematerialisation_layers_that_are_alike_are_compiled_once_and_leave_their_inputs() -> None:
    sizes, temporaries = [], []
    for layers in (3, 7):
        gradient, params = gradient_of(dataclasses.replace(CONFIG, num_layers=layers), remat=True, length=256)
        compiled = gradient.lower(params).compile()
        sizes.append(compiled.as_text().count(" dot("))
        temporaries.append(compiled.memory_analysis().temp_size_in_bytes)
    assert sizes[0] == sizes[1] > 0
    weights = sum(x.nbytes for x in jax.tree.leaves(params["layers"][0]))
    inputs = 2 * 256 * CONFIG.hidden_size * 4
    a_layer = (temporaries[1] - temporaries[0]) / 4
    assert a_layer < 2.5 * weights + 1.5 * inputs, "a copy of its weights, one of their gradient, and its input"


def test_rematerialisation_is_for_calls_without_a_cache() -> None:
    graphdef, params = lively()
    with pytest.raises(ValueError, match="a cache was given with remat"):
        apply(
            graphdef, params, jnp.zeros((1, 1), jnp.int32), jnp.zeros((1, 1), jnp.int32), jnp.ones((1, 1, 4), bool),
            init_cache(CONFIG, 1, 4, jnp.float32), jnp.zeros(1, jnp.int32), remat=True,
        )  # fmt: skip


def test_bfloat16_parameters_give_bfloat16_hidden_states_and_float32_logits() -> None:
    graphdef, params = lively()
    tokens = some_tokens(2, 12)
    half = jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)
    hidden, _ = jax.eval_shape(partial(apply, graphdef), half, tokens, rows(2, 12), causal(2, 12))
    logits = full_logits(graphdef, half, tokens)
    assert hidden.dtype == jnp.bfloat16
    assert logits.dtype == jnp.float32
    np.testing.assert_allclose(logits, full_logits(graphdef, params, tokens), atol=0.15)


def test_shapes_that_do_not_fit_are_named() -> None:
    graphdef, params = lively()
    tokens, positions = some_tokens(2, 3), rows(2, 3)
    cache = init_cache(CONFIG, 2, 8, jnp.float32)
    with pytest.raises(ValueError, match=r"mask \(3, 3\) do not fit"):
        run(graphdef, params, tokens, positions, causal(1, 3)[0])
    with pytest.raises(ValueError, match="must have 3 keys, it has 4"):
        run(graphdef, params, tokens, positions, np.ones((2, 3, 4), bool))
    with pytest.raises(ValueError, match="without write_at"):
        run(graphdef, params, tokens, positions, causal(2, 3), cache)
    with pytest.raises(ValueError, match="9 keys, the cache holds only 8"):
        run(graphdef, params, tokens, positions, np.ones((2, 3, 9), bool), cache, np.zeros(2, np.int32))


def test_abstract_matches_a_real_model() -> None:
    graphdef, params = split(Qwen3(CONFIG, rngs=nnx.Rngs(0), dtype=jnp.bfloat16))
    abstract_graphdef, shapes = qwen3.abstract(CONFIG, jnp.bfloat16)
    assert abstract_graphdef == graphdef
    assert jax.tree.map(lambda x: (x.shape, x.dtype), shapes) == jax.tree.map(lambda x: (x.shape, x.dtype), params)


def test_partition_specs_split_matrices_over_both_axes() -> None:
    _, shapes = qwen3.abstract(CONFIG)
    specs = qwen3.partition_specs(shapes, AbstractMesh((4, 2), ("fsdp", "tensor")))
    assert jax.tree.structure(specs) == jax.tree.structure(shapes)
    for path, spec in jax.tree_util.tree_leaves_with_path(specs):
        name = qwen3.parameter_name(path)
        inward = name.endswith(("o_proj", "down_proj", "embed_tokens"))
        matrix = PartitionSpec("tensor", "fsdp") if inward else PartitionSpec("fsdp", "tensor")
        assert spec == (PartitionSpec() if name.endswith("norm") else matrix), name


def test_a_mesh_that_does_not_divide_is_refused_unless_told_otherwise() -> None:
    _, shapes = qwen3.abstract(dataclasses.replace(CONFIG, vocab_size=97))
    mesh = AbstractMesh((2, 4), ("fsdp", "tensor"))
    with pytest.raises(ValueError, match=r"embed_tokens \(97, 64\): 97 is not divisible by the 4 devices"):
        qwen3.partition_specs(shapes, mesh)
    specs: Any = qwen3.partition_specs(shapes, mesh, replicate_indivisible=True)
    assert specs["embed_tokens"].get_value() == PartitionSpec(None, "fsdp")
    with pytest.raises(ValueError, match="'tensor', but the mesh has only the axes"):
        qwen3.partition_specs(shapes, AbstractMesh((8,), ("fsdp",)))


SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from test_qwen3 import CONFIG, full_logits, init_cache, lively, qwen3, rows, run, some_tokens
assert jax.device_count() == 8
graphdef, params = lively()
tokens = some_tokens(8, 20)
expected = full_logits(graphdef, params, tokens)
for shape in ((8, 1), (4, 2), (2, 4)):
    mesh = jax.make_mesh(shape, ("fsdp", "tensor"), axis_types=(AxisType.Auto,) * 2)
    sharded = jax.device_put(params, qwen3.shardings(params, mesh))
    spread = sharded["layers"][0]["mlp"]["gate_proj"]["weight"].get_value()
    assert spread.addressable_shards[0].data.size * 8 == spread.size
    batch = jax.device_put(tokens, NamedSharding(mesh, PartitionSpec("fsdp")))
    np.testing.assert_allclose(full_logits(graphdef, sharded, batch), expected, atol=1e-5)
    cache, start = init_cache(CONFIG, 8, 24, jnp.float32), np.zeros(8, np.int32)
    seen = np.arange(24) <= rows(8, 20)[:, :, None]
    _, cache = run(graphdef, sharded, batch[:, :-1], rows(8, 19), seen[:, :-1], cache, start)
    decoded, _ = run(graphdef, sharded, batch[:, -1:], rows(8, 20)[:, -1:], seen[:, -1:], cache, start + 19)
    np.testing.assert_allclose(decoded[:, 0], expected[:, -1], atol=1e-5)
    print("equal on", shape)
"""


def test_sharded_logits_equal_unsharded_ones() -> None:
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_COMPILATION_CACHE_DIR": jax.config.values["jax_compilation_cache_dir"] or "",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(Path(__file__).parent)]),
    }
    done = subprocess.run([sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("equal on") == 3


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({}, "Qwen3Config"),
        ({"qk_norm": False}, "LlamaConfig"),
        ({"moe": MoeConfig(6, 2, 32, True, sparse_step=2, dense_layers=(1,))}, "Qwen3MoeConfig"),
    ],
)
def test_config_survives_the_way_out_and_in(change: dict[str, Any], name: str) -> None:
    config = dataclasses.replace(CONFIG, **change)
    assert Qwen3Config.from_dict(config.to_dict()) == config
    theirs = getattr(pytest.importorskip("transformers"), name).from_dict(config.to_dict())
    assert Qwen3Config.from_dict(theirs.to_dict()) == config


def test_the_published_configs_of_other_architectures_are_read() -> None:
    """The keys of HuggingFaceTB/SmolLM2-135M-Instruct and Qwen/Qwen3-30B-A3B that matter here, as on the hub."""
    smol = {
        "model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "max_position_embeddings": 8192,
        "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "rms_norm_eps": 1e-05,
        "rope_scaling": None, "rope_theta": 100000, "tie_word_embeddings": True, "vocab_size": 49152,
        "attention_bias": False, "mlp_bias": False, "hidden_act": "silu",
    }  # fmt: skip
    expected = Qwen3Config(49152, 576, 1536, 30, 9, 3, 64, 1e5, 1e-5, True, 8192, qk_norm=False)
    assert Qwen3Config.from_dict(smol) == expected
    sparse = {
        "model_type": "qwen3_moe", "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048,
        "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
        "moe_intermediate_size": 768, "norm_topk_prob": True, "num_attention_heads": 32, "num_experts": 128,
        "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4, "rope_theta": 1000000.0,
        "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 151936,
    }  # fmt: skip
    experts = MoeConfig(128, 8, 768, norm_topk_prob=True)
    expected = Qwen3Config(151936, 2048, 6144, 48, 32, 4, 128, 1e6, 1e-6, False, 40960, moe=experts)
    assert Qwen3Config.from_dict(sparse) == expected


def test_rope_theta_is_read_from_either_place() -> None:
    both = CONFIG.to_dict()
    older = {k: v for k, v in both.items() if k != "rope_parameters"} | {"rope_scaling": None}
    newer = {k: v for k, v in both.items() if k != "rope_theta"}
    assert Qwen3Config.from_dict(older).rope_theta == Qwen3Config.from_dict(newer).rope_theta == 5e6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mistral"}, "model_type='mistral'"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"attention_bias": True}, "attention_bias=True"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope_scaling asks for rope type 'yarn'"),
        (
            {"rope_parameters": {"rope_type": "linear"}},
            "rope_parameters asks for rope type 'linear'",
        ),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types="),
        ({"use_sliding_window": True, "sliding_window": 128, "max_window_layers": 1}, "use_sliding_window=True"),
        ({"rope_parameters": None, "rope_theta": None}, "no 'rope_theta'"),
        ({"rope_parameters": None, "rope_theta": 10**400}, "expected a number above 0"),
        ({"hidden_size": None}, "no 'hidden_size'"),
        ({"num_key_value_heads": 3}, "num_heads=4 is not a multiple of num_kv_heads=3"),
        ({"head_dim": 15}, "head_dim=15 is odd"),
        ({"model_type": "llama", "mlp_bias": True}, "mlp_bias=True"),
        ({"model_type": "llama", "rope_scaling": {"rope_type": "llama3"}}, "rope_scaling asks for rope type 'llama3'"),
        ({"model_type": "qwen3_moe"}, "no 'num_experts'"),
        (
            {"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 5, "moe_intermediate_size": 8},
            "5 experts per token of 4 experts; expected 1 to all",
        ),
    ],
)
def test_unsupported_configs_are_refused_by_the_name_of_their_key(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Qwen3Config.from_dict(CONFIG.to_dict() | change)


def test_experts_without_query_and_key_norms_are_refused() -> None:
    with pytest.raises(ValueError, match="neither Qwen3-MoE nor Llama is such a model"):
        dataclasses.replace(CONFIG, qk_norm=False, moe=MoeConfig(4, 2, 8, True))


def test_a_sliding_window_that_no_layer_uses_is_accepted() -> None:
    unused = {"use_sliding_window": True, "sliding_window": 128, "max_window_layers": 2}
    assert Qwen3Config.from_dict(CONFIG.to_dict() | unused) == CONFIG
