"""Where arrays lie when many processes share one mesh: rows come from each, parameters belong to all."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pivotopd_jax.models.qwen3 import partition_specs
from pivotopd_jax.models.row_axes import ROW_AXES


def row_parts(mesh: Mesh) -> int:
    """Into how many parts rows are cut."""
    return math.prod(mesh.shape[axis] for axis in ROW_AXES)


def processes_of(mesh: Mesh) -> int:
    """How many processes own devices of `mesh`."""
    return len({device.process_index for device in mesh.devices.flat})


def check_mesh(mesh: Mesh) -> None:
    """Makes sure that all processes have an equal part of the rows.

    Raises:
        ValueError: they have not; says what they have and what would do.
    """
    axes = [mesh.axis_names.index(axis) for axis in ROW_AXES]
    parts = np.moveaxis(mesh.devices, axes, range(len(axes))).reshape(row_parts(mesh), -1)
    owners = Counter(tuple(sorted({device.process_index for device in part})) for part in parts)
    expected = {(process,): len(parts) / jax.process_count() for process in range(jax.process_count())}
    if owners != expected:
        shape = " × ".join(f"{name} {size}" for name, size in mesh.shape.items())
        raise ValueError(
            f"a mesh of {shape} does not divide evenly among {jax.process_count()} processes with "
            f"{jax.local_device_count()} devices each; expected the {jax.device_count()} devices of all, and the axis "
            "tensor within one process: set config.learner.fsdp, tensor and expert"
        )


def own_rows(array: jax.Array, sharding: NamedSharding) -> np.ndarray:
    """The rows of a global array that this process gave, whatever layout it came out of a computation in."""
    shards = jax.device_put(array, sharding).addressable_shards
    parts = {shard.index[0].start or 0: shard.data for shard in shards}
    return np.concatenate([jax.device_get(parts[start]) for start in sorted(parts)])


def own_mesh(mesh: Mesh, tensor: int) -> Mesh | None:
    """This process's own devices of `mesh`, with `tensor` of them along that axis and the others along "fsdp".

    For sampling, which every process does by itself. None if `mesh` is one device.

    Raises:
        ValueError: `tensor` does not divide the number of own devices.
    """
    if mesh.devices.size == 1:
        return None
    own = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
    if tensor < 1 or len(own) % tensor:
        raise ValueError(
            f"config.sampler.tensor is {tensor}, which does not divide the {len(own)} devices that this process has "
            "for sampling; choose a divisor of that"
        )
    sizes = {"tensor": tensor, "fsdp": len(own) // tensor}
    return Mesh(np.asarray(own).reshape([sizes.get(name, 1) for name in mesh.axis_names]), mesh.axis_names)


def local_copy(params: Any, mesh: Mesh, here: Mesh | None) -> Any:
    """The whole of `params`, which lie on `mesh`, on the devices of `here`, cut along "tensor" as far as they allow.

    Along "fsdp" lies a copy on every device: a weight cut along that axis, too, would have to be fetched, or its
    products summed up, for every token. Each call moves all parameters over the network once to every process, and a
    copy takes the memory of the whole model on `tensor` devices, beside their part of the sharded parameters.

    Args:
        params: on `mesh`.
        mesh: of all processes.
        here: from `own_mesh`; if it is None, `params` themselves are returned.
    """
    if here is None:
        return params
    specs = partition_specs(params, replicate_indivisible=True, mesh=here)
    specs = jax.tree.map(lambda spec: PartitionSpec(*("tensor" if a == "tensor" else None for a in spec)), specs)

    def copied(array: jax.Array, spec: PartitionSpec) -> jax.Array:
        # One array at a time: only that one is ever whole on a device. What follows its gathering is local.
        parts = [shard.data for shard in jax.device_put(array, whole).addressable_shards]
        gathered = jax.make_array_from_single_device_arrays(array.shape, NamedSharding(here, PartitionSpec()), parts)
        return jax.device_put(gathered, NamedSharding(here, spec))

    whole = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(copied, params, specs)
