"""The Qwen3 decoder (Qwen3 technical report, arXiv 2505.09388, section 2) as a flax.nnx module.

Its configuration says whether layers have experts (models/moe.py), and whether queries and keys are normalised; a
decoder without these norms is a Llama (arXiv 2307.09288, section 2.2).

Outside this file a model is a pair `(graphdef, params)` made by `split` and used through the pure functions `apply` and
`compute_logits`. Parameters are named as in a HuggingFace checkpoint, matrices are stored `[in, out]`. Everything is
computed in the dtype of the parameters, except norms, rotary angles, attention weights and logits: those are float32.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from jax.typing import DTypeLike

from pivotopd_jax.models import moe
from pivotopd_jax.models.attention import Bias, Mask, Tree, attend, by_head, prepare
from pivotopd_jax.models.feed_forward import FeedForward, Projection, random_matrix
from pivotopd_jax.models.head import Head
from pivotopd_jax.models.qwen3_config import Qwen3Config
from pivotopd_jax.models.row_axes import ROW_AXES, keep_rows

Cache = tuple["KeyValue", ...]
"""Keys, stored rotated, and values of every layer, of the shapes that `attention.by_head` gives them."""

KeyValue = tuple[jax.Array, jax.Array]

PROJECTION_RULES: Mapping[str, PartitionSpec] = {
    "q_proj": PartitionSpec("fsdp", "tensor"),
    "k_proj": PartitionSpec("fsdp", "tensor"),
    "v_proj": PartitionSpec("fsdp", "tensor"),
    "o_proj": PartitionSpec("tensor", "fsdp"),
    "gate_proj": PartitionSpec("fsdp", "tensor"),
    "up_proj": PartitionSpec("fsdp", "tensor"),
    "down_proj": PartitionSpec("tensor", "fsdp"),
}
"""Mesh axes of the matrices that a model of models/lora.py may adapt, by name."""

PARTITION_RULES: Mapping[str, PartitionSpec] = {
    "embed_tokens": PartitionSpec("tensor", "fsdp"),
    "lm_head": PartitionSpec("fsdp", "tensor"),
    **PROJECTION_RULES,
    **{f"{name}.lora_a": PartitionSpec(rule[0], None) for name, rule in PROJECTION_RULES.items()},
    **{f"{name}.lora_b": PartitionSpec(None, rule[1]) for name, rule in PROJECTION_RULES.items()},
    "q_norm": PartitionSpec(),
    "k_norm": PartitionSpec(),
    "input_layernorm": PartitionSpec(),
    "post_attention_layernorm": PartitionSpec(),
    "norm": PartitionSpec(),
    **moe.PARTITION_RULES,
}
"""Mesh axes of each parameter, by the last part of its path, or the last two where there is such a rule."""


class Where(NamedTuple):
    """Where the tokens of a call stand: what all layers need to know besides the activations.

    Attributes:
        angles: cosines and sines from `rotary_angles`.
        bias: from `attention.prepare`.
        write_at: `[batch]` int32, first cache slot to write to; None without a cache.
    """

    angles: tuple[jax.Array, jax.Array]
    bias: Bias
    write_at: jax.Array | None


def _ones(size: int, dtype: DTypeLike) -> nnx.Param:
    return nnx.Param(jnp.ones((size,), dtype))


def rms_norm(x: jax.Array, weight: jax.Array, eps: float) -> jax.Array:
    """`x / sqrt(mean(x²) + eps) * weight` over the last axis; the statistics are float32, the result has x's dtype."""
    x32 = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(x32), axis=-1, keepdims=True) + eps)
    return (x32 * scale).astype(x.dtype) * weight


def rotary_angles(positions: jax.Array, head_dim: int, theta: float) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines `[batch, length, 1, head_dim / 2]` float32 of the rotary angles at `positions`."""
    # numpy in float32 follows the rounding of the reference implementation, to which published weights are fitted.
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    frequencies = np.float32(1.0) / np.power(np.float32(theta), exponents)
    angles = positions[:, :, None, None].astype(jnp.float32) * frequencies
    return jnp.cos(angles), jnp.sin(angles)


def rotate(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """Rotates `x [batch, length, heads, head_dim]`, whose first and second halves are the two coordinates."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    rotated = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return rotated.astype(x.dtype)


def write_cache(cached: KeyValue, key: jax.Array, value: jax.Array, write_at: jax.Array) -> KeyValue:
    """Puts `key` and `value`, `[batch, length, kv, dim]`, into slots `write_at[b]` and following of a layer's cache.

    Slots beyond the capacity are dropped. `write_at` `[batch]` int32 must not be negative.
    """
    batch, length = key.shape[:2]
    entries, slots = jnp.arange(batch)[:, None], write_at[:, None] + jnp.arange(length)
    keys, values = cached[0].at[entries, :, :, slots], cached[1].at[entries, :, slots]
    return (
        keys.set(key.astype(cached[0].dtype), mode="drop", unique_indices=True),
        values.set(value.astype(cached[1].dtype), mode="drop", unique_indices=True),
    )


class Attention(nnx.Module):
    """Self-attention, with normalised queries and keys unless the configuration says otherwise."""

    def __init__(self, config: Qwen3Config, *, rngs: nnx.Rngs, dtype: DTypeLike):
        self.config = config
        query_width, kv_width = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = Projection(rngs, (config.hidden_size, query_width), dtype)
        self.k_proj = Projection(rngs, (config.hidden_size, kv_width), dtype)
        self.v_proj = Projection(rngs, (config.hidden_size, kv_width), dtype)
        self.o_proj = Projection(rngs, (query_width, config.hidden_size), dtype)
        if config.qk_norm:
            self.q_norm = _ones(config.head_dim, dtype)
            self.k_norm = _ones(config.head_dim, dtype)

    def __call__(self, x: jax.Array, where: Where, cached: KeyValue | None) -> tuple[jax.Array, KeyValue | None]:
        """Attention output for `x [batch * length, hidden_size]`, and this layer's cache as written to."""
        batch, length = where.angles[0].shape[:2]
        query, key, value = self._project(x, where)
        if cached is not None and where.write_at is not None and isinstance(where.bias, jax.Array):
            cached, keys = write_cache(cached, key, value, where.write_at), where.bias.shape[2]
            key, value = cached[0][..., :keys].astype(x.dtype), cached[1][:, :, :keys].astype(x.dtype)
        else:
            key, value = by_head(key, value)
        return self.o_proj(attend(query, key, value, where.bias).reshape(batch * length, -1)), cached

    def _project(self, x: jax.Array, where: Where) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Rotated queries, rotated keys and values, each `[batch, length, heads, head_dim]`."""
        shape, eps = (*where.angles[0].shape[:2], -1, self.config.head_dim), self.config.rms_norm_eps
        query, key, value = (project(x).reshape(shape) for project in (self.q_proj, self.k_proj, self.v_proj))
        if self.config.qk_norm:
            query, key = rms_norm(query, self.q_norm[...], eps), rms_norm(key, self.k_norm[...], eps)
        return rotate(query, *where.angles), rotate(key, *where.angles), value


class DecoderLayer(nnx.Module):
    """Attention and feed-forward, each behind a norm and beside a residual connection."""

    def __init__(self, config: Qwen3Config, index: int, *, rngs: nnx.Rngs, dtype: DTypeLike):
        self.eps = config.rms_norm_eps
        self.input_layernorm = _ones(config.hidden_size, dtype)
        self.self_attn = Attention(config, rngs=rngs, dtype=dtype)
        self.post_attention_layernorm = _ones(config.hidden_size, dtype)
        sparse = config.moe is not None and config.moe.in_layer(index)
        self.mlp = (moe.SparseFeedForward if sparse else FeedForward)(config, rngs=rngs, dtype=dtype)

    def __call__(self, x: jax.Array, where: Where, cached: KeyValue | None) -> tuple[jax.Array, KeyValue | None]:
        attended, cached = self.self_attn(rms_norm(x, self.input_layernorm[...], self.eps), where, cached)
        x = x + attended
        return x + self.mlp(rms_norm(x, self.post_attention_layernorm[...], self.eps)), cached


def _looped(layers: Sequence[DecoderLayer], x: jax.Array, where: Where) -> jax.Array:
    """`x` after `layers`, of which only the inputs are kept for the backward pass.

    Layers that are alike are one loop over their stacked parameters. Unrolled, nothing keeps the compiler from
    recomputing several layers at a time, and it takes minutes for dozens of them.
    """
    for _, run in itertools.groupby(map(nnx.split, layers), lambda parts: _shapes(parts[1])):
        graphdefs, states = zip(*run, strict=True)

        def body(x: jax.Array, state: nnx.State, graphdef: nnx.GraphDef = graphdefs[0]) -> tuple[jax.Array, None]:
            return nnx.merge(graphdef, state)(x, where, None)[0], None

        x, _ = jax.lax.scan(jax.checkpoint(body, prevent_cse=False), x, _stacked(states))
    return x


def _shapes(params: nnx.State) -> Any:
    """Equal for the parameters of layers that are alike."""
    leaves, tree = jax.tree.flatten(params)
    return tree, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _stacked(states: Sequence[nnx.State]) -> nnx.State:
    """Parameters of layers along a first axis that lies on no mesh axis, the others where they lay."""
    stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *states)
    mesh = jax.sharding.get_abstract_mesh()
    if not set(ROW_AXES) <= set(mesh.axis_names):
        return stacked
    specs = partition_specs(states[0], mesh, replicate_indivisible=True)
    return jax.tree.map(
        lambda array, spec: jax.lax.with_sharding_constraint(array, PartitionSpec(None, *spec)), stacked, specs
    )


class Qwen3(nnx.Module):
    """The Qwen3 decoder."""

    def __init__(self, config: Qwen3Config, *, rngs: nnx.Rngs, dtype: DTypeLike = jnp.float32):
        """Random weights: matrices normal with standard deviation 0.02, norms one, all of `dtype`."""
        self.config = config
        self.embed_tokens = random_matrix(rngs, (config.vocab_size, config.hidden_size), dtype)
        self.layers = nnx.List(DecoderLayer(config, i, rngs=rngs, dtype=dtype) for i in range(config.num_layers))
        self.norm = _ones(config.hidden_size, dtype)
        if not config.tie_embeddings:
            self.lm_head = random_matrix(rngs, (config.hidden_size, config.vocab_size), dtype)

    def __call__(
        self,
        tokens: jax.Array,
        positions: jax.Array,
        mask: Mask,
        cache: Cache | None = None,
        write_at: jax.Array | None = None,
        *,
        remat: bool = False,
    ) -> tuple[jax.Array, Cache | None]:
        """Hidden states of `tokens`.

        Args:
            tokens: `[batch, length]` int32.
            positions: `[batch, length]` int32, for the rotary angles; need not be consecutive.
            mask: `[batch, length, keys]` bool: which key each query may attend to. Without a cache `keys == length`;
                with one, keys are its first `keys` slots. Or, without a cache, trees.
            cache: keys and values of earlier tokens. Those of all `tokens`, padding included, are written into it
                before attention; what lies beyond its capacity is dropped.
            write_at: `[batch]` int32, not negative: slot of the first token of each batch entry.
            remat: recompute each layer in the backward pass instead of keeping its activations, and compile layers
                that are alike once; without a cache.

        Returns:
            Hidden states after the final norm, `[batch, length, hidden_size]`, and the cache as written to, or None.

        Raises:
            ValueError: shapes that do not fit together.
        """
        _check_call(tokens, positions, mask, cache, write_at)
        if remat and cache is not None:
            raise ValueError("a cache was given with remat, which is for forward and backward passes without one")
        # Behind the barrier the angles are computed once; XLA would otherwise repeat them in every layer.
        angles = jax.lax.optimization_barrier(rotary_angles(positions, self.config.head_dim, self.config.rope_theta))
        where = Where(angles, prepare(mask), write_at)
        # Rows of one matrix, not [batch, length]: XLA's CPU backend takes twice as long for the gradients otherwise.
        x = keep_rows(self.embed_tokens[...][tokens.reshape(-1)])
        if remat:
            x, written = _looped(self.layers, x, where), []
        else:
            written = []
            for index, layer in enumerate(self.layers):
                x, cached = layer(x, where, None if cache is None else cache[index])
                written.append(cached)
        hidden = rms_norm(x, self.norm[...], self.config.rms_norm_eps).reshape(*tokens.shape, -1)
        return hidden, None if cache is None else tuple(written)

    def head(self) -> Head:
        """What makes next-token logits of hidden states."""
        tied = self.config.tie_embeddings
        return Head((self.embed_tokens if tied else self.lm_head)[...], tied)


def _check_call(
    tokens: jax.Array, positions: jax.Array, mask: Mask, cache: Cache | None, write_at: jax.Array | None
) -> None:
    if isinstance(mask, Tree):
        if cache is not None or not tokens.shape == positions.shape == mask.subtree_end.shape:
            raise ValueError(
                f"tokens {tokens.shape}, positions {positions.shape} and trees {mask.subtree_end.shape} do not fit; "
                "expected [batch, length] each, and no cache"
            )
        return
    if positions.shape != tokens.shape or mask.ndim != 3 or mask.shape[:2] != tokens.shape:
        raise ValueError(
            f"tokens {tokens.shape}, positions {positions.shape} and mask {mask.shape} do not fit; expected "
            "[batch, length], [batch, length] and [batch, length, keys]"
        )
    if cache is None:
        if mask.shape[2] != tokens.shape[1]:
            raise ValueError(f"without a cache the mask must have {tokens.shape[1]} keys, it has {mask.shape[2]}")
        return
    if write_at is None:
        raise ValueError("a cache was given without write_at, the slots to write to")
    if mask.shape[2] > capacity_of(cache):
        raise ValueError(f"the mask has {mask.shape[2]} keys, the cache holds only {capacity_of(cache)}")


def init_cache(config: Qwen3Config, batch: int, capacity: int, dtype: DTypeLike) -> Cache:
    """An empty cache of `capacity` slots (tokens) for each of `batch` sequences."""
    heads, size = config.num_kv_heads, config.head_dim
    key, value = (batch, heads, size, capacity), (batch, heads, capacity, size)
    return tuple((jnp.zeros(key, dtype), jnp.zeros(value, dtype)) for _ in range(config.num_layers))


def capacity_of(cache: Cache) -> int:
    """Slots (tokens) of each sequence."""
    return cache[0][1].shape[2]


def split(model: Qwen3) -> tuple[nnx.GraphDef, nnx.State]:
    """The hashable structure of a model and its parameters, for use with `apply` and `compute_logits`."""
    return nnx.split(model, nnx.Param)


def apply(
    graphdef: nnx.GraphDef,
    params: nnx.State,
    tokens: jax.Array,
    positions: jax.Array,
    mask: Mask,
    cache: Cache | None = None,
    write_at: jax.Array | None = None,
    *,
    remat: bool = False,
) -> tuple[jax.Array, Cache | None]:
    """`Qwen3.__call__` as a pure function of the parameters."""
    return nnx.merge(graphdef, params)(tokens, positions, mask, cache, write_at, remat=remat)


def compute_logits(graphdef: nnx.GraphDef, params: nnx.State, hidden: jax.Array) -> jax.Array:
    """Next-token logits `[..., vocab_size]` float32 of `hidden` `[..., hidden_size]`."""
    return output_head(graphdef, params).logits(hidden)


def output_head(graphdef: nnx.GraphDef, params: nnx.State) -> Head:
    """`Qwen3.head` as a pure function of the parameters."""
    return nnx.merge(graphdef, params).head()


def abstract(config: Qwen3Config, dtype: DTypeLike = jnp.float32) -> tuple[nnx.GraphDef, nnx.State]:
    """What `split` would return for a model of this configuration, with shapes and dtypes in place of arrays."""
    return split(nnx.eval_shape(lambda: Qwen3(config, rngs=nnx.Rngs(0), dtype=dtype)))


def parameter_name(path: tuple[Any, ...]) -> str:
    """Dotted name, like "layers.0.self_attn.q_proj", of the key path jax gives to a parameter of a `State`.

    Adapters have ".lora_a" or ".lora_b" after the name of their matrix; both parts of a quantised matrix have its name.
    """
    name = ".".join(str(part.key) for part in path if isinstance(part, jax.tree_util.DictKey))
    return re.sub(r"\.weight(\.array\.(qvalue|scale))?$", "", name).replace(".weight_lora_", ".lora_")


def partition_specs(
    params: nnx.State, mesh: Mesh | AbstractMesh | None = None, *, replicate_indivisible: bool = False
) -> nnx.State:
    """Where each parameter lies on a mesh with axes "fsdp" and "tensor", and "expert" if the model has experts.

    Args:
        params: parameters or their shapes.
        mesh: if given, every sharded dimension is checked against it.
        replicate_indivisible: keep a dimension whole where the mesh axis does not divide it, instead of raising.

    Returns:
        A tree like `params` with a `PartitionSpec` in place of every array.

    Raises:
        ValueError: a dimension is not divisible by its mesh axis, or the mesh has no such axis.
    """

    def spec(path: tuple[Any, ...], array: jax.Array) -> PartitionSpec:
        name = parameter_name(path)
        parts = name.split(".")
        rule = next(PARTITION_RULES[end] for end in (".".join(parts[-2:]), parts[-1]) if end in PARTITION_RULES)
        return rule if mesh is None else _fit(name, array.shape, rule, mesh, replicate_indivisible)

    return jax.tree_util.tree_map_with_path(spec, params)


def _fit(
    name: str, shape: tuple[int, ...], rule: PartitionSpec, mesh: Mesh | AbstractMesh, replicate_indivisible: bool
) -> PartitionSpec:
    """The part of `rule` that divides `shape`."""
    axes: list[str | None] = []
    for size, axis in zip(shape, rule, strict=False):
        if axis is None:
            axes.append(None)
            continue
        if axis not in mesh.shape:
            raise ValueError(f"{name} is to be sharded over {axis!r}, but the mesh has only the axes {mesh.axis_names}")
        divides = size % mesh.shape[axis] == 0
        if not divides and not replicate_indivisible:
            raise ValueError(
                f"{name} {shape}: {size} is not divisible by the {mesh.shape[axis]} devices of mesh axis {axis!r}; "
                "choose another mesh or pass replicate_indivisible=True"
            )
        axes.append(axis if divides else None)
    return PartitionSpec(*axes)


def shardings(params: nnx.State, mesh: Mesh, *, replicate_indivisible: bool = False) -> nnx.State:
    """`partition_specs` as `NamedSharding`s on `mesh`, for `jax.device_put` and `jax.jit`."""
    specs = partition_specs(params, mesh, replicate_indivisible=replicate_indivisible)
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
