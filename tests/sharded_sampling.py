"""Samples on meshes of eight devices and on one: `sharded_sampling.py FILE`; writes what each gave there.

Not a test: tests/sampling/test_engine.py starts it, in a process that has so many devices.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh
from sharded_updates import DENSE

from pivotopd_jax.learner.learner import make_mesh
from pivotopd_jax.learner.placing import local_copy, own_mesh
from pivotopd_jax.models.qwen3 import Qwen3, shardings, split
from pivotopd_jax.sampling.engine import Sampler
from pivotopd_jax.sampling.policy import Request, Sample

CONFIG = replace(DENSE, num_layers=1)
LEARNER = (4, 2, 1)
"""The learner's devices along fsdp, tensor and expert."""
TENSOR = (1, 4)
"""Devices that share a copy of the weights in sampling; the model has two key/value heads."""


def samples(sampler: Sampler) -> list[Sample]:
    """Of more requests than slots, then of their sessions' next turns, some with a nucleus."""
    random = np.random.default_rng(5)
    held = {i: random.integers(7, 40, random.integers(3, 50)).astype(np.int32) for i in range(20)}
    held |= {i: held[0] for i in range(20, 24)}  # rollouts of one task
    found: list[Sample] = []
    for turn, top_p in ((0, 1.0), (1, 1.0), (2, 0.8)):
        session = list(held)[: (24, 24, 3)[turn]]
        requests = [Request(i, held[i], 100 * turn + i) for i in session]
        said = sampler.sample(requests, temperature=1.0, top_p=top_p)
        found += said
        for i, sample in zip(session, said, strict=True):
            more = random.integers(7, 40, random.integers(1, 20)).astype(np.int32)
            held[i] = np.concatenate([held[i], sample.response_ids, more])
    return found


def make(graphdef: Any, params: Any, mesh: Mesh | None) -> Sampler:
    return Sampler(CONFIG, graphdef, params, slots=16, capacity=160, max_new=6, end_ids=(3, 4, 5), chunk=16, mesh=mesh)


def main(file: Path) -> None:
    graphdef, params = split(Qwen3(CONFIG, rngs=nnx.Rngs(0)))
    params = jax.tree.map(lambda x: 8 * x if x.ndim > 1 else x, params)
    mesh = make_mesh(*LEARNER)
    spread = jax.device_put(params, shardings(params, mesh, replicate_indivisible=True))
    cases = {"one": (params, None), "as the learner's": (spread, mesh)}
    for tensor in TENSOR:
        here = own_mesh(mesh, tensor)
        cases[f"tensor {tensor}"] = (local_copy(spread, mesh, here), here)
    found = {}
    for name, (placed, where) in cases.items():
        sampler = make(graphdef, placed, where)
        for i, sample in enumerate(samples(sampler)):
            found[f"{name}/ids/{i}"], found[f"{name}/log_probs/{i}"] = sample.response_ids, sample.log_probs
        devices = {shard.device for array in jax.tree.leaves(sampler._cache) for shard in array.addressable_shards}
        found[f"{name}/devices"] = np.asarray(len(devices))
        found[f"{name}/part"] = np.asarray(sampler._cache[0][0].addressable_shards[0].data.shape)
    np.savez(file, **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
