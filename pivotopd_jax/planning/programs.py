"""The learner's programs compiled for a mesh that is only described: bytes that they hold on each device.

The compiler is that of TPUs, which needs none of them (the package `libtpu`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh
from jax.typing import DTypeLike

from pivotopd_jax.learner.learner import Learner, make_optimizer
from pivotopd_jax.models.qwen3 import abstract, partition_specs
from pivotopd_jax.models.qwen3_config import Qwen3Config

AXES = ("fsdp", "tensor", "expert")


class Memory(NamedTuple):
    """Bytes of a program on one device.

    Attributes:
        arguments: held before it and while it runs.
        temporaries: held while it runs.
    """

    arguments: float
    temporaries: float


def mesh_shape(text: str) -> tuple[int, int, int]:
    """The devices of each axis that "FSDPxTENSORxEXPERT" says; the last may be left out.

    Raises:
        ValueError: it says something else.
    """
    sizes = text.split("x")
    if len(sizes) not in (2, 3) or not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise ValueError(f"a mesh of {text!r}; expected FSDPxTENSOR or FSDPxTENSORxEXPERT, like 16x1x1")
    fsdp, tensor, *expert = map(int, sizes)
    return fsdp, tensor, expert[0] if expert else 1


def described_mesh(topology: str, shape: tuple[int, int, int]) -> Mesh:
    """A mesh of `shape` of the devices of a TPU topology like "v5e:4x4".

    Raises:
        ValueError: there is no such topology, no compiler for it, or it has another number of devices.
    """
    from jax.experimental import topologies

    try:
        devices = topologies.get_topology_desc(topology, platform="tpu").devices
    except Exception as error:  # whatever the plugin raises
        raise ValueError(
            f"no compiler for topology {topology!r}: {str(error).splitlines()[0]}; install it with pip install -r "
            "requirements-plan.txt, and name one like v5e:4x4, v5p:2x2x4 or v6e:4x4"
        ) from error
    if len(devices) != math.prod(shape):
        raise ValueError(
            f"a mesh of {'x'.join(map(str, shape))} has {math.prod(shape)} devices, topology {topology} {len(devices)}"
        )
    return Mesh(np.asarray(devices).reshape(shape), AXES, axis_types=(AxisType.Auto,) * 3)


def compiled_memory(
    config: Any, model: Qwen3Config, mesh: Mesh, report: Callable[[str], None] = lambda _: None
) -> dict[str, Memory]:
    """Bytes on a device of the learner's programs by name.

    Args:
        config: `learner` says rows, micro-batches and dtype.
        model: the student's sizes.
        mesh: from `described_mesh`.
        report: told in one line what has been compiled.
    """
    graphdef, params = abstract(model)
    optimizer = make_optimizer(config.ppo.learning_rate, warmup_steps=0, max_grad_norm=config.ppo.max_grad_norm)
    learner = Learner(
        graphdef, optimizer, mesh, micro_batch_tokens=config.learner.micro_batch_tokens, remat=config.learner.remat,
        dtype=config.learner.dtype,
    )  # fmt: skip
    found = {}
    for name, lowered in learner.lower(params, config.learner.row_tokens).items():
        stats: Any = lowered.compile().memory_analysis()
        found[name] = Memory(stats.argument_size_in_bytes, stats.temp_size_in_bytes)
        report(f"compiled {name}: {found[name].temporaries / 1e9:.2f} GB of temporaries")
    return found


def parameter_bytes(model: Qwen3Config, mesh: Mesh | AbstractMesh, dtype: DTypeLike) -> int:
    """Bytes of the parameters on one device of `mesh`."""
    params = abstract(model, dtype)[1]
    specs = partition_specs(params, mesh, replicate_indivisible=True)

    def bytes_of(array: Any, spec: Any) -> int:
        return math.prod(array.shape) * jnp.dtype(dtype).itemsize // math.prod(mesh.shape[a] for a in spec if a)

    return sum(jax.tree.leaves(jax.tree.map(bytes_of, params, specs)))
