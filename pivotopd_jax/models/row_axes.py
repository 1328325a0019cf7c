"""Where activations lie on a mesh: with the rows that they belong to."""

from __future__ import annotations

import math

import jax
from jax.sharding import PartitionSpec

ROW_AXES = ("fsdp", "expert")
"""Axes of the mesh that rows are spread over."""


def keep_rows(x: jax.Array) -> jax.Array:
    """`x [rows, ...]` with its first axis spread over `ROW_AXES` of the mesh of `jax.set_mesh`; other axes are free.

    Weights lie over "fsdp", too. Left to itself, XLA spares itself their gathering: every device then computes with its
    part of each weight on the rows of all devices, and holds the activations of all. Without a mesh with these axes, or
    with rows that they do not divide, `x` is returned as it is.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if not set(ROW_AXES) <= set(mesh.axis_names):
        return x
    parts = math.prod(mesh.shape[axis] for axis in ROW_AXES)
    if parts == 1 or x.shape[0] % parts:
        return x
    free = [PartitionSpec.UNCONSTRAINED] * (x.ndim - 1)
    return jax.lax.with_sharding_constraint(x, PartitionSpec(ROW_AXES, *free))
