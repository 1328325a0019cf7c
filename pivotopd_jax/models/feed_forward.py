"""The gated feed-forward layer of a dense decoder, and how matrices begin."""

from __future__ import annotations

import jax
from flax import nnx
from jax.typing import DTypeLike

from pivotopd_jax.models.qwen3_config import INITIAL_STDDEV, Qwen3Config
from pivotopd_jax.models.row_axes import keep_rows


def random_matrix(rngs: nnx.Rngs, shape: tuple[int, ...], dtype: DTypeLike) -> nnx.Param:
    """A matrix, or a stack of them, normal with standard deviation 0.02."""
    return nnx.Param(INITIAL_STDDEV * jax.random.normal(rngs.params(), shape, dtype))


class FeedForward(nnx.Module):
    """SwiGLU."""

    def __init__(self, config: Qwen3Config, *, rngs: nnx.Rngs, dtype: DTypeLike):
        self.gate_proj = random_matrix(rngs, (config.hidden_size, config.intermediate_size), dtype)
        self.up_proj = random_matrix(rngs, (config.hidden_size, config.intermediate_size), dtype)
        self.down_proj = random_matrix(rngs, (config.intermediate_size, config.hidden_size), dtype)

    def __call__(self, x: jax.Array) -> jax.Array:
        hidden = jax.nn.silu(keep_rows(x @ self.gate_proj[...])) * keep_rows(x @ self.up_proj[...])
        return keep_rows(hidden @ self.down_proj[...])
