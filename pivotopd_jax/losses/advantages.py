"""Group-relative advantages of whole trajectories."""

from __future__ import annotations

from typing import Literal

import chex
import jax
import jax.numpy as jnp

Normalization = Literal["mean_std", "mean"]


def group_advantages(
    returns: chex.Array,
    group_ids: chex.Array,
    *,
    normalization: Normalization = "mean_std",
    epsilon: float = 1e-6,
) -> jax.Array:
    """Compares each return with the others of its group.

    "mean_std" is GRPO (arXiv 2402.03300, section 4.1.2): `(return - mean) / (std + epsilon)` with the sample standard
    deviation (divisor n - 1). "mean" is Dr. GRPO (arXiv 2503.20783): the division is left out.

    Args:
        returns: `[n]` float, one outcome per trajectory.
        group_ids: `[n]` integer, any values; trajectories with the same id form a group.
        normalization: "mean_std" or "mean".
        epsilon: added to the standard deviation, in units of the return.

    Returns:
        `[n]` float advantages. Exactly 0 throughout a group whose returns are all equal, so also for a group of one.

    Raises:
        ValueError: unknown `normalization`.
    """
    chex.assert_rank([returns, group_ids], 1)
    chex.assert_equal_shape([returns, group_ids])
    chex.assert_type([returns, group_ids], [float, int])
    if normalization not in ("mean_std", "mean"):
        raise ValueError(f'normalization is {normalization!r}; expected "mean_std" or "mean"')
    size = group_ids.size
    groups = jnp.unique(group_ids, return_inverse=True, size=size)[1]
    returns = jnp.asarray(returns)

    def total(values: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(values, groups, num_segments=size)[groups]

    # Equal returns differ from their rounded mean by an ulp, which a tiny std would blow up. Measured from the group's
    # own maximum they are exactly 0, and so is their mean.
    below_maximum = returns - jax.ops.segment_max(returns, groups, num_segments=size)[groups]
    count = total(jnp.ones_like(returns))
    centred = below_maximum - total(below_maximum) / count
    if normalization == "mean":
        return centred
    deviation = jnp.sqrt(total(centred**2) / jnp.maximum(count - 1, 1))
    return centred / (deviation + epsilon)
