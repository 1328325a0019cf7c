"""Low-rank adapters (LoRA, arXiv 2106.09685) on a frozen model, through qwix.

A matrix W `[in, out]` becomes W + (alpha / rank)·A·B with A `[in, rank]` random and B `[rank, out]` zero at first. Only
A and B are trained; every state of them is a policy of its own over one and the same base. The base may be held in 8
bits (QLoRA, arXiv 2305.14314): each column of W then is int8 with one scale.

qwix makes a subclass of the model that catches `jnp.dot` while it is traced, so that neither the model nor those who
apply it know of adapters. It finds matrices by the module they are in (`feed_forward.Projection`). Embeddings, heads,
routers and stacks of experts are neither adapted nor quantised.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import qwix
from flax import nnx

from pivotopd_jax.models.feed_forward import Projection
from pivotopd_jax.models.qwen3 import PROJECTION_RULES, parameter_name

BASE_DTYPES = ("", "int8")


@dataclass(frozen=True)
class Lora:
    """Which matrices are adapted, and how.

    Attributes:
        rank: columns of A, rows of B.
        alpha: A·B counts `alpha / rank`.
        targets: names of matrices, as "q_proj"; they are adapted in all layers.
        base_dtype: "int8" to quantise all projections of the base; "" leaves them as they are.

    Raises:
        ValueError: a value that cannot be used.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...]
    base_dtype: str = ""

    def __post_init__(self):
        if unknown := [name for name in self.targets if name not in PROJECTION_RULES]:
            raise ValueError(f"lora.targets has {unknown}; choose from {', '.join(PROJECTION_RULES)}")
        if self.rank < 1 or not self.targets or self.base_dtype not in BASE_DTYPES:
            raise ValueError(
                f"lora is rank {self.rank}, targets {self.targets}, base_dtype {self.base_dtype!r}; expected a rank of "
                f"at least 1, at least one target and one of {BASE_DTYPES}"
            )

    @property
    def scale(self) -> float:
        """What A·B counts."""
        return self.alpha / self.rank


class Adapted(NamedTuple):
    """A model with adapters.

    Attributes:
        graphdef: its structure; goes with `nnx.merge_state(adapters, base)`.
        adapters: every A and B.
        base: all other parameters.
    """

    graphdef: nnx.GraphDef
    adapters: nnx.State
    base: nnx.State


def adapt(
    graphdef: nnx.GraphDef, params: nnx.State, lora: Lora, place: Callable[[nnx.State], nnx.State], *, seed: int = 0
) -> Adapted:
    """Puts adapters on a model, which stays the same function until they are trained.

    Args:
        graphdef, params: as from `qwen3.split`.
        lora: how.
        place: from shapes of parameters to their shardings, as `partial(qwen3.shardings, mesh=mesh)`.
        seed: of every A.

    Returns:
        The model; its base is `params` itself, unless it is quantised.

    Raises:
        ValueError: the model has no matrix of such a name, or one that is too small for the rank.
    """
    structure, shapes, base_shapes = _structure(graphdef, params, lora)
    _check_rank(shapes, lora.rank)
    adapters = jax.jit(lambda: _fresh(shapes, seed), out_shardings=place(shapes))()
    if not lora.base_dtype:
        return Adapted(structure, adapters, params)

    def quantised(params: nnx.State) -> nnx.State:
        model = nnx.merge(structure, shapes, base_shapes)
        found = nnx.clone(base_shapes)
        nnx.replace_by_pure_dict(found, qwix.quantize_params(nnx.to_pure_dict(params), model))
        return found

    return Adapted(structure, adapters, jax.jit(quantised, out_shardings=place(base_shapes))(params))


def _structure(graphdef: nnx.GraphDef, params: nnx.State, lora: Lora) -> tuple[nnx.GraphDef, nnx.State, nnx.State]:
    """Of the adapted model: its structure, and the shapes of its adapters and of its base."""
    provider = _provider(lora)

    def build(params: nnx.State) -> tuple[nnx.GraphDef, nnx.State, nnx.State]:
        tokens, mask = jnp.zeros((1, 1), jnp.int32), jnp.ones((1, 1, 1), bool)
        model = nnx.merge(graphdef, params)
        adapted = qwix.apply_lora_to_model(model, provider, tokens, tokens, mask, rngs=_SameKey(0))
        structure, adapters, base = nnx.split(adapted, nnx.LoRAParam, ...)
        return structure, adapters, base

    found = jax.eval_shape(build, params)
    if unused := [rule.module_path for rule in provider.get_unused_rules() if isinstance(rule, qwix.LoraRule)]:
        raise ValueError(f"no matrix of the model is adapted by the lora.targets {unused}; stacks of experts cannot be")
    return found


class _SameKey(nnx.Rngs):
    """What qwix draws adapters with, where they are only shapes: counting its draws would be most of the tracing."""

    def params(self) -> jax.Array:
        return jax.random.key(0)


def _fresh(shapes: nnx.State, seed: int) -> nnx.State:
    """Every A uniform as He et al. (arXiv 1502.01852) have it, every B zero."""

    def drawn(path: tuple[Any, ...], shape: jax.ShapeDtypeStruct) -> jax.Array:
        name = parameter_name(path)
        if name.endswith("lora_b"):
            return jnp.zeros(shape.shape, shape.dtype)
        key = jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode()))
        return jax.nn.initializers.he_uniform()(key, shape.shape, shape.dtype)

    return jax.tree_util.tree_map_with_path(drawn, shapes)


def _provider(lora: Lora) -> qwix.LoraProvider:
    dtype: Any = lora.base_dtype or None
    rules: list[Any] = [
        qwix.LoraRule(module_path=f".*/{name}", rank=lora.rank, alpha=lora.alpha, weight_qtype=dtype)
        for name in lora.targets
    ]
    return qwix.LoraProvider([*rules, qwix.QuantizationRule(module_path=".*_proj", weight_qtype=dtype)])


def _check_rank(adapters: nnx.State, rank: int) -> None:
    # qwix knows a quantised matrix by its shape, which A and B must not have.
    for path, array in jax.tree_util.tree_leaves_with_path(adapters):
        if min(array.shape) < rank or max(array.shape) <= rank:
            raise ValueError(
                f"lora.rank is {rank}, and {parameter_name(path)} has shape {array.shape}; expected a rank below both "
                "dimensions of every adapted matrix"
            )


@partial(jax.jit, static_argnames=("graphdef", "lora"))
def merged(graphdef: nnx.GraphDef, params: nnx.State, lora: Lora) -> nnx.State:
    """Parameters of the plain model that is the same function: W + (alpha / rank)·A·B in place of W, A and B.

    Args:
        graphdef: of the adapted model.
        params: adapters and base.
        lora: as given to `adapt`.

    Returns:
        Parameters for `qwen3.apply` and `huggingface.save`, of the base's dtype before it was quantised.
    """
    model = nnx.merge(graphdef, params)
    for projection in [module for _, module in nnx.iter_modules(model) if isinstance(module, Projection)]:
        weight: Any = projection.weight[...]
        if not isinstance(weight, jax.Array):
            weight = qwix.dequantize(weight.array)
        if hasattr(projection, "weight_lora_a"):
            a, b = (getattr(projection, f"weight_lora_{part}")[...].astype(jnp.float32) for part in "ab")
            weight = (weight + lora.scale * jnp.dot(a, b)).astype(weight.dtype)
            del projection.weight_lora_a, projection.weight_lora_b
        projection.weight = nnx.Param(weight)
    return nnx.state(model, nnx.Param)
