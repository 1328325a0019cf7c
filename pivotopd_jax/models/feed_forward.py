"""The gated feed-forward layer of a dense decoder, and how matrices begin."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from pivotopd_jax.models.qwen3_config import INITIAL_STDDEV, Qwen3Config
from pivotopd_jax.models.row_axes import keep_rows


def random_matrix(rngs: nnx.Rngs, shape: tuple[int, ...], dtype: DTypeLike) -> nnx.Param:
    """A matrix, or a stack of them, normal with standard deviation 0.02."""
    return nnx.Param(INITIAL_STDDEV * jax.random.normal(rngs.params(), shape, dtype))


class Projection(nnx.Module):
    """Multiplies by a matrix.

    A module of its own, which calls `jnp.dot` by that name: so qwix can see what it adapts (models/lora.py). It knows
    matrices by the module that they are used in, and by their shapes.
    """

    def __init__(self, rngs: nnx.Rngs, shape: tuple[int, int], dtype: DTypeLike):
        self.weight = random_matrix(rngs, shape, dtype)

    def __call__(self, x: jax.Array) -> jax.Array:
        """`[..., out]` of `x [..., in]`."""
        return keep_rows(jnp.dot(x, self.weight[...]))


class FeedForward(nnx.Module):
    """SwiGLU."""

    def __init__(self, config: Qwen3Config, *, rngs: nnx.Rngs, dtype: DTypeLike):
        self.gate_proj = Projection(rngs, (config.hidden_size, config.intermediate_size), dtype)
        self.up_proj = Projection(rngs, (config.hidden_size, config.intermediate_size), dtype)
        self.down_proj = Projection(rngs, (config.intermediate_size, config.hidden_size), dtype)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.down_proj(jax.nn.silu(self.gate_proj(x)) * self.up_proj(x))
