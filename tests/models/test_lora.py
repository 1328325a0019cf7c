"""Adapters through qwix: the same function at first, a policy of their own afterwards, over one base."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from flax import nnx

from pivotopd_jax.learner.learner import make_mesh
from pivotopd_jax.models import huggingface, qwen3
from pivotopd_jax.models.lora import Adapted, Lora, adapt, merged
from pivotopd_jax.models.mini_tokenizer import build_tokenizer
from pivotopd_jax.models.peft import save_adapters
from pivotopd_jax.models.qwen3 import Qwen3Config
from pivotopd_jax.models.qwen3_config import MoeConfig

TOKENIZER = build_tokenizer(["go to shelf 1", "take apple 2 from shelf 1"])
CONFIG = Qwen3Config(288, 32, 48, 1, 4, 2, 8, 5e6, 1e-6, False, 128)
# The widths of k_proj and v_proj are equal, and so are those of q_proj and o_proj: qwix has to tell them apart.
LORA = Lora(3, 6.0, ("q_proj", "k_proj", "o_proj", "down_proj"))
TOKENS = np.random.default_rng(1).integers(0, 288, (2, 12)).astype(np.int32)

place = partial(qwen3.shardings, mesh=make_mesh(), replicate_indivisible=True)


def lively(shapes: nnx.State, seed: int = 0) -> nnx.State:
    """Random weights, norms included, large enough for logits of several units; an adapter's B, too."""
    noise = np.random.default_rng(seed)

    def draw(leaf: Any) -> jax.Array:
        mean, deviation = (0.0, 0.2) if len(leaf.shape) > 1 else (1.0, 0.3)
        return jnp.asarray(noise.normal(mean, deviation, leaf.shape), leaf.dtype)

    return jax.tree.map(draw, shapes)


def adapted(lora: Lora = LORA) -> tuple[nnx.GraphDef, nnx.State, Adapted]:
    """A plain model, and the same with adapters that have been trained."""
    graphdef, shapes = qwen3.abstract(CONFIG)
    params = lively(shapes)
    found = adapt(graphdef, params, lora, place)
    return graphdef, params, found._replace(adapters=lively(found.adapters, seed=1))


@partial(jax.jit, static_argnames=("graphdef", "remat"))
def logits(graphdef: nnx.GraphDef, params: nnx.State, remat: bool = False) -> jax.Array:
    length = TOKENS.shape[1]
    positions = jnp.broadcast_to(jnp.arange(length), TOKENS.shape)
    mask = jnp.broadcast_to(jnp.tril(jnp.ones((length, length), bool)), (len(TOKENS), length, length))
    hidden, _ = qwen3.apply(graphdef, params, jnp.asarray(TOKENS), positions, mask, remat=remat)
    return qwen3.compute_logits(graphdef, params, hidden)


def by_name(params: nnx.State) -> dict[str, np.ndarray]:
    return {qwen3.parameter_name(path): np.asarray(x) for path, x in jax.tree_util.tree_leaves_with_path(params)}


def test_fresh_adapters_change_nothing_and_copy_nothing() -> None:
    graphdef, shapes = qwen3.abstract(CONFIG)
    params = lively(shapes)
    found = adapt(graphdef, params, LORA, place, seed=3)
    whole = nnx.merge_state(found.adapters, found.base)
    with jax.disable_jit():  # compiled, the two are different programs, and rounded differently
        np.testing.assert_array_equal(logits(found.graphdef, whole), logits(graphdef, params))
    kept = {id(x) for x in jax.tree.leaves(whole)}
    assert all(id(x) in kept for x in jax.tree.leaves(params)), "the base is the model's own arrays"
    assert {name: x.shape for name, x in by_name(found.adapters).items()} == {
        "layers.0.mlp.down_proj.lora_a": (48, 3),
        "layers.0.mlp.down_proj.lora_b": (3, 32),
        "layers.0.self_attn.k_proj.lora_a": (32, 3),
        "layers.0.self_attn.k_proj.lora_b": (3, 16),
        "layers.0.self_attn.o_proj.lora_a": (32, 3),
        "layers.0.self_attn.o_proj.lora_b": (3, 32),
        "layers.0.self_attn.q_proj.lora_a": (32, 3),
        "layers.0.self_attn.q_proj.lora_b": (3, 32),
    }
    again, other = (by_name(adapt(graphdef, params, LORA, place, seed=seed).adapters) for seed in (3, 4))
    for name, value in by_name(found.adapters).items():
        np.testing.assert_array_equal(value, again[name])
        assert np.any(value) == name.endswith("a") == np.any(value != other[name])


@pytest.mark.parametrize("remat", [False, True])
def test_gradients_are_those_of_the_merged_matrices(remat: bool) -> None:
    """By the chain rule on W + (α/r)·A·B: ∂A = (α/r)·∂W·Bᵀ and ∂B = (α/r)·Aᵀ·∂W."""
    graphdef, params, found = adapted()
    weights = np.random.default_rng(2).normal(size=(*TOKENS.shape, CONFIG.vocab_size))

    def loss(graphdef: nnx.GraphDef, params: nnx.State) -> jax.Array:
        return jnp.mean(weights * logits(graphdef, params, remat))

    of_adapters = jax.jit(jax.grad(lambda a, b: loss(found.graphdef, nnx.merge_state(a, b))))
    got = by_name(of_adapters(found.adapters, found.base))
    values, base = by_name(found.adapters), by_name(params)
    plain = jax.tree_util.tree_map_with_path(
        lambda path, _: jnp.asarray(by_hand(base, values, qwen3.parameter_name(path))), params
    )
    of_matrices = by_name(jax.jit(jax.grad(partial(loss, graphdef)))(plain))
    assert len(got) == 2 * 4
    for name in {key.rsplit(".", 1)[0] for key in got}:
        a, b = values[f"{name}.lora_a"], values[f"{name}.lora_b"]
        expected = 2.0 * of_matrices[name] @ b.T, 2.0 * a.T @ of_matrices[name]
        for part, value in zip("ab", expected, strict=True):
            np.testing.assert_allclose(got[f"{name}.lora_{part}"], value, atol=1e-4 * np.abs(value).max())


def by_hand(base: dict[str, np.ndarray], adapters: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The matrix of that name with α / r = 2."""
    if f"{name}.lora_a" not in adapters:
        return base[name]
    return base[name] + 2.0 * adapters[f"{name}.lora_a"] @ adapters[f"{name}.lora_b"]


@pytest.mark.parametrize("base_dtype", ["", "int8"])
def test_merged_it_is_the_same_model_for_transformers_too(tmp_path: Path, base_dtype: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    lora = Lora(LORA.rank, LORA.alpha, LORA.targets, base_dtype)
    _, params, found = adapted(lora)
    whole = nnx.merge_state(found.adapters, found.base)
    huggingface.save(tmp_path, CONFIG, merged(found.graphdef, whole, lora), TOKENIZER)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    with torch.no_grad():
        expected = model(torch.tensor(TOKENS, dtype=torch.int64)).logits.numpy()
    np.testing.assert_allclose(logits(found.graphdef, whole), expected, atol=2e-5)
    if not base_dtype:
        written, values, base = huggingface.load(tmp_path)[2], by_name(found.adapters), by_name(params)
        for name, value in by_name(written).items():
            np.testing.assert_allclose(value, by_hand(base, values, name), atol=1e-6, err_msg=name)


def test_adapters_for_peft_give_the_merged_matrices(tmp_path: Path) -> None:
    """Merged as peft does: W + (lora_alpha / r)·B·A with W as HuggingFace stores it, `[out, in]`."""
    _, params, found = adapted()
    huggingface.save(tmp_path / "base", CONFIG, params, TOKENIZER)
    save_adapters(tmp_path / "adapters", found.adapters, LORA, base=str(tmp_path / "base"))
    whole = nnx.merge_state(found.adapters, found.base)
    huggingface.save(tmp_path / "merged", CONFIG, merged(found.graphdef, whole, LORA), TOKENIZER)
    base, expected = (safetensors.numpy.load_file(tmp_path / part / "model.safetensors") for part in ("base", "merged"))
    adapters = safetensors.numpy.load_file(tmp_path / "adapters" / "adapter_model.safetensors")
    settings = json.loads((tmp_path / "adapters" / "adapter_config.json").read_text())
    assert (settings["peft_type"], settings["target_modules"]) == ("LORA", list(LORA.targets))
    assert len(adapters) == 2 * 4
    for name, value in expected.items():
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        if any(name.endswith(f"{target}.weight") for target in settings["target_modules"]):
            product = adapters.pop(f"{stem}.lora_B.weight") @ adapters.pop(f"{stem}.lora_A.weight")
            base[name] = base[name] + settings["lora_alpha"] / settings["r"] * product
        np.testing.assert_allclose(base[name], value, atol=1e-6, err_msg=name)
    assert not adapters


def bytes_of(params: nnx.State) -> int:
    return sum(x.nbytes for x in jax.tree.leaves(params))


def test_a_base_in_8_bits_is_a_quarter_as_large_and_nearly_the_same() -> None:
    graphdef, params, found = adapted(Lora(3, 6.0, LORA.targets, "int8"))
    fresh = jax.tree.map(jnp.zeros_like, found.adapters)
    got = jax.nn.log_softmax(logits(found.graphdef, nnx.merge_state(fresh, found.base)))
    expected = jax.nn.log_softmax(logits(graphdef, params))
    likely = np.asarray(expected) > np.log(1e-3)
    drift = np.abs(np.asarray(got - expected))[likely]
    print(f"drift of log-probs above 0.1%: mean {drift.mean():.4f}, most {drift.max():.4f} nats")
    assert 0 < drift.mean() < 0.05
    # All projections, a byte each, with one float32 for each of the 32 + 2·16 + 32 + 2·48 + 32 columns.
    projections = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48
    assert bytes_of(params) - bytes_of(found.base) == 3 * projections - 4 * 224


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": ("q_proj", "lm_head")}, r"lora.targets has \['lm_head'\]; choose from q_proj, k_proj"),
        ({"targets": ()}, "expected a rank of at least 1, at least one target"),
        ({"rank": 0}, "expected a rank of at least 1"),
        ({"base_dtype": "int3"}, r"base_dtype 'int3'; expected .* one of \('', 'int8'\)"),
        ({"rank": 16}, r"lora.rank is 16, and layers.0.self_attn.k_proj.lora_b has shape \(16, 16\)"),
    ],
)
def test_what_cannot_be_used_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        adapt(*qwen3.abstract(CONFIG), Lora(**{"rank": 3, "alpha": 6.0, "targets": LORA.targets, **change}), place)


def test_stacks_of_experts_are_not_adapted() -> None:
    sparse = Qwen3Config(288, 32, 48, 1, 4, 2, 8, 5e6, 1e-6, False, 128, moe=MoeConfig(4, 2, 24, True))
    graphdef, shapes = qwen3.abstract(sparse)
    found = adapt(graphdef, lively(shapes), Lora(3, 6.0, ("q_proj",)), place)
    assert len(jax.tree.leaves(found.adapters)) == 2
    with pytest.raises(ValueError, match=r"lora.targets \['.*/up_proj'\]; stacks of experts cannot be"):
        adapt(graphdef, lively(shapes), Lora(3, 6.0, ("q_proj", "up_proj")), place)
