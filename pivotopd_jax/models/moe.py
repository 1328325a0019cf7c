"""The mixture of experts of Qwen3-MoE (arXiv 2505.09388, section 2): many small feed-forward layers in place of one.

A router sends every token to its `experts_per_token` best experts. No expert has a capacity, so no token is dropped and
the result is exact: the rows of all tokens are sorted by expert and multiplied group by group (`jax.lax.ragged_dot`).
Where XLA has no kernel for that (on CPU) it multiplies every row with every expert, which is right but slow.

On a mesh with an axis "expert" each of its devices holds some of the experts. Within `jax.set_mesh` the devices of that
axis exchange their tokens, each applies its own experts to all of them, and the results are summed. Every device has
room for the worst case, in which all tokens choose its experts. Without `jax.set_mesh` XLA finds some way to compute on
sharded experts by itself, which is right but may gather all experts on every device.

There is no load-balancing loss: it belongs to pretraining, and these models are trained further for few steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AbstractMesh, PartitionSpec
from jax.typing import DTypeLike

from pivotopd_jax.models.feed_forward import random_matrix
from pivotopd_jax.models.qwen3_config import MoeConfig, Qwen3Config

PARTITION_RULES: Mapping[str, PartitionSpec] = {
    "gate": PartitionSpec("fsdp"),
    "experts.gate_proj": PartitionSpec("expert", "fsdp", "tensor"),
    "experts.up_proj": PartitionSpec("expert", "fsdp", "tensor"),
    "experts.down_proj": PartitionSpec("expert", "tensor", "fsdp"),
}
"""Mesh axes of each parameter, by the end of its path."""


class ExpertWeights(NamedTuple):
    """Stacks of matrices, one of each kind for every expert.

    Attributes:
        gate, up: `[experts, hidden_size, intermediate_size]`.
        down: `[experts, intermediate_size, hidden_size]`.
    """

    gate: jax.Array
    up: jax.Array
    down: jax.Array


class Experts(nnx.Module):
    """The experts of one layer."""

    def __init__(self, hidden_size: int, config: MoeConfig, *, rngs: nnx.Rngs, dtype: DTypeLike):
        inward = (config.num_experts, hidden_size, config.intermediate_size)
        self.gate_proj = random_matrix(rngs, inward, dtype)
        self.up_proj = random_matrix(rngs, inward, dtype)
        self.down_proj = random_matrix(rngs, (config.num_experts, config.intermediate_size, hidden_size), dtype)

    def weights(self) -> ExpertWeights:
        return ExpertWeights(self.gate_proj[...], self.up_proj[...], self.down_proj[...])


class SparseFeedForward(nnx.Module):
    """A router and its experts."""

    def __init__(self, config: Qwen3Config, *, rngs: nnx.Rngs, dtype: DTypeLike):
        if config.moe is None:
            raise ValueError("the configuration has no experts; expected Qwen3Config(..., moe=MoeConfig(...))")
        self.config = config.moe
        self.gate = random_matrix(rngs, (config.hidden_size, config.moe.num_experts), dtype)
        self.experts = Experts(config.hidden_size, config.moe, rngs=rngs, dtype=dtype)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Output for `x [tokens, hidden_size]`."""
        chosen, weights = route(x, self.gate[...], self.config)
        mesh = jax.sharding.get_abstract_mesh()
        if mesh.size > 1 and {"fsdp", "tensor", "expert"} <= set(mesh.axis_names):
            return _mix_on_mesh(x, chosen, weights, self.experts.weights(), mesh)
        return mix(x, chosen, weights, self.experts.weights())


def route(x: jax.Array, gate: jax.Array, config: MoeConfig) -> tuple[jax.Array, jax.Array]:
    """The experts of every token.

    Args:
        x: `[tokens, hidden_size]`.
        gate: `[hidden_size, num_experts]`.
        config: how many experts a token has, and whether their weights add up to 1.

    Returns:
        Indices of the experts, best first, `[tokens, experts_per_token]` int32, and their weights, alike, float32.
    """
    probabilities = jax.nn.softmax(jnp.matmul(x, gate, preferred_element_type=jnp.float32), axis=-1)
    weights, chosen = jax.lax.top_k(probabilities, config.experts_per_token)
    return chosen, weights / jnp.sum(weights, axis=-1, keepdims=True) if config.norm_topk_prob else weights


def mix(
    x: jax.Array, chosen: jax.Array, weights: jax.Array, experts: ExpertWeights, first: jax.Array | int = 0
) -> jax.Array:
    """The weighted sum of what its experts make of every token.

    Args:
        x: `[tokens, hidden_size]`.
        chosen, weights: as from `route`.
        experts: all of them, or some that follow each other; the others then count for nothing.
        first: index of the first of `experts`.

    Returns:
        `[tokens, hidden_size]`, of x's dtype.
    """
    count, choices = len(experts.gate), chosen.shape[1]
    expert = chosen.reshape(-1) - first
    expert = jnp.where((expert >= 0) & (expert < count), expert, count)  # rows of other experts come last
    # Not argsort: in jax 0.10.2 its result passes for equal on all devices of a mesh, and gradients come out wrong.
    expert, order = jnp.divmod(jnp.sort(expert * expert.size + jnp.arange(expert.size)), expert.size)
    sizes = jnp.bincount(expert, length=count)
    # What ragged_dot makes of rows beyond its groups is not defined, neither in the result nor in the gradient.
    ours = (expert < count)[:, None]
    rows = jnp.where(ours, x[order // choices], 0)
    hidden = jax.nn.silu(jax.lax.ragged_dot(rows, experts.gate, sizes)) * jax.lax.ragged_dot(rows, experts.up, sizes)
    rows = jnp.where(ours, jax.lax.ragged_dot(hidden, experts.down, sizes), 0)
    outputs = jnp.zeros_like(rows).at[order].set(rows, unique_indices=True).reshape(*chosen.shape, -1)
    return jnp.einsum("nkd,nk->nd", outputs, weights).astype(x.dtype)


def _mix_on_mesh(
    x: jax.Array, chosen: jax.Array, weights: jax.Array, experts: ExpertWeights, mesh: AbstractMesh
) -> jax.Array:
    """`mix` with tokens spread over "fsdp" and "expert", and experts over "expert" and "tensor", where these divide."""
    count, _, width = experts.gate.shape
    spread = len(x) % (mesh.shape["fsdp"] * mesh.shape["expert"]) == 0
    split = "expert" if count % mesh.shape["expert"] == 0 else None
    tensor = "tensor" if width % mesh.shape["tensor"] == 0 else None

    def local(x: jax.Array, chosen: jax.Array, weights: jax.Array, experts: ExpertWeights) -> jax.Array:
        if split and spread:
            x, chosen, weights = (jax.lax.all_gather(a, split, tiled=True) for a in (x, chosen, weights))
        first = jax.lax.axis_index(split) * len(experts.gate) if split else 0
        mixed = mix(x, chosen, weights, experts, first)
        mixed = jax.lax.psum(mixed, tensor) if tensor else mixed
        if split is None:
            return mixed
        return jax.lax.psum_scatter(mixed, split, tiled=True) if spread else jax.lax.psum(mixed, split)

    tokens = PartitionSpec(("fsdp", "expert") if spread else None)
    inward: Any = PartitionSpec(split, None, tensor)  # in the places of the arrays that they are of
    outward: Any = PartitionSpec(split, tensor, None)
    specs = (tokens, tokens, tokens, ExpertWeights(inward, inward, outward))
    return jax.shard_map(local, in_specs=specs, out_specs=tokens)(x, chosen, weights, experts)
