"""What a run holds in arrays on all its devices together, with and without adapters; nothing is computed."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from pivotopd_jax.learner.learner import cast, make_mesh, make_optimizer
from pivotopd_jax.models.lora import Lora, adapt
from pivotopd_jax.models.published import PUBLISHED
from pivotopd_jax.models.qwen3 import PROJECTION_RULES, Qwen3Config, abstract, shardings


def bench_lora(config: Qwen3Config = PUBLISHED["Qwen/Qwen3-1.7B"], rank: int = 32) -> dict[str, Any]:
    """Gigabytes of a bfloat16 student that trains all weights, adapters of all projections, and those over int8.

    Activations, caches of the sampler and what XLA holds while it computes are not counted.
    """
    graphdef, params = abstract(config, jnp.bfloat16)
    found = {"rank": rank, "full": _held(params, nnx.State({}))}
    place = partial(shardings, mesh=make_mesh(), replicate_indivisible=True)
    for name, base_dtype in (("lora", ""), ("lora_int8", "int8")):
        lora = Lora(rank, 2.0 * rank, tuple(PROJECTION_RULES), base_dtype)
        adapters, base = jax.eval_shape(lambda p, lora=lora: tuple(adapt(graphdef, p, lora, place)[1:]), params)
        found[name] = _held(adapters, base)
    return found


def _held(trained: Any, base: Any) -> dict[str, float]:
    """Gigabytes of each part of a train state, of the reference beside it and of a gradient."""
    optimizer = make_optimizer(1e-6, warmup_steps=0, max_grad_norm=1.0)
    exact = jax.eval_shape(lambda t: cast(t, jnp.float32), trained)  # as the learner trains them
    parts = {
        "base": base,
        "trained": exact,
        "reference": trained,
        "optimizer": jax.eval_shape(optimizer.init, exact),
        "gradient": exact,
    }
    sizes = {name: sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(part)) / 1e9 for name, part in parts.items()}
    return {**sizes, "total": sum(sizes.values())}
