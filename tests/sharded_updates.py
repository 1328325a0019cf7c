"""One update in two processes with four devices each: `sharded_updates.py FOLDER`; writes what came of it there.

Not a test: tests/learner/test_placing.py starts it, and takes the same update on one device.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx
from jax.experimental import multihost_utils

from pivotopd_jax.learner.learner import Learner, make_mesh
from pivotopd_jax.learner.objective import UpdateOptions
from pivotopd_jax.learner.placing import check_mesh, local_copy, own_mesh
from pivotopd_jax.models.qwen3 import Qwen3, Qwen3Config, shardings, split
from pivotopd_jax.models.qwen3_config import MoeConfig
from pivotopd_jax.processes import ProcessFailure, draw, gather, join, own, place_of, share_of, together
from pivotopd_jax.records import Row
from pivotopd_jax.rollout.rows import Counts, batch_rows, check_lengths, counts_of

DENSE = Qwen3Config(40, 16, 32, 2, 2, 2, 8, 1e4, 1e-6, True, 128)
EXPERTS = replace(DENSE, moe=MoeConfig(8, 2, 12, norm_topk_prob=True, dense_layers=(1,)))
LENGTH = 32
MESHES = ((8, 1, 1), (2, 4, 1), (2, 2, 2))
"""Devices of the axes fsdp, tensor and expert."""
REFUSED = ((1, 8, 1), (2, 2, 1), (1, 1, 1), (1, 2, 4))
"""Meshes whose rows two processes with four devices each cannot share equally."""
CASES = {"even": [range(0, 6), range(6, 13)], "uneven": [range(0, 1), range(1, 13)], "none": [range(0), range(13)]}
"""Which of the rows each of two processes has."""


def all_rows() -> list[Row]:
    random = np.random.default_rng(3)

    def ids(size: int) -> np.ndarray:
        return random.integers(1, 40, size).astype(np.int32)

    return [Row("rollout", i, 0, 0, ids(5 + i), ids(1 + i % 5)) for i in range(13)]


def made_batch(indices: Sequence[int], counts: Counts) -> tuple[Any, Any]:
    """The batch of some of the rows, each with its own advantage and log-probs, and its packing."""
    drawn = np.random.default_rng(4).normal(size=(3, 13))
    batch, packed = batch_rows([all_rows()[i] for i in indices], length=LENGTH, counts=counts)
    advantages, old, reference = (packed.scatter(list(values[list(indices)])) for values in drawn)
    moved = batch._replace(advantages=advantages, old_log_probs=(old - 4) * batch.mask)
    return moved._replace(reference_log_probs=(reference - 4) * batch.mask), packed


def whole(tree: Any) -> list[np.ndarray]:
    """The leaves of a tree of global arrays."""
    return [multihost_utils.process_allgather(leaf, tiled=True) for leaf in jax.tree.leaves(tree)]


def config_for(mesh: Sequence[int]) -> Qwen3Config:
    """A model with experts where the mesh has devices for them."""
    return EXPERTS if mesh[2] > 1 else DENSE


def updated(config: Qwen3Config, mesh: Any, indices: Sequence[int], micro_batch_tokens: int) -> dict[str, np.ndarray]:
    """Loss, metrics and gradient of one update on all processes' rows, and the scores of this one's."""
    graphdef, local = split(Qwen3(config, rngs=nnx.Rngs(0)))
    params = jax.tree.map(
        lambda x, where: jax.make_array_from_callback(x.shape, where, lambda place: np.asarray(x)[place]),
        local, shardings(local, mesh, replicate_indivisible=True),
    )  # fmt: skip
    options = UpdateOptions(kl_coefficient=0.1)
    # With plain gradient descent at rate 1 the gradient is what the parameters lose.
    learner = Learner(graphdef, optax.sgd(1.0), mesh, micro_batch_tokens=micro_batch_tokens, options=options)
    batch, packed = made_batch(indices, counts_of(all_rows()))
    scores = packed.gather(learner.score(params, packed))
    state, metrics = learner.update(learner.init(params), batch)
    found = {f"metric/{name}": np.asarray(value) for name, value in metrics.items()}
    for number, (before, after) in enumerate(zip(whole(params), whole(state.params), strict=True)):
        found[f"gradient/{number}"] = before - after
    found |= {f"score/{i}": values for i, values in zip(indices, scores, strict=True)}
    for tensor in (1, 4) if jax.local_device_count() == 4 else (1,):
        copied = [np.asarray(leaf) for leaf in jax.tree.leaves(local_copy(params, mesh, own_mesh(mesh, tensor)))]
        assert all(np.array_equal(a, b) for a, b in zip(copied, jax.tree.leaves(local), strict=True))
    return found


def refused_row() -> str:
    """What a process says when the second one has a row that fits nowhere."""
    rows = all_rows()
    if jax.process_index() == 1:
        rows[7] = replace(rows[7], response_ids=np.ones(LENGTH, np.int32))
    try:
        with together():
            check_lengths(rows, LENGTH)
            batch_rows(rows, length=LENGTH)
    except (ValueError, ProcessFailure) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def refused_mesh(fsdp: int, tensor: int, expert: int) -> str:
    try:
        check_mesh(make_mesh(fsdp, tensor, expert))
    except ValueError as error:
        return str(error)
    return "nothing"


def exchanged() -> dict[str, Any]:
    """What two processes with 2 and 5 items of 7 make of them."""
    index = jax.process_index()
    count = (2, 5)[index]
    return {
        "gathered": gather({"process": index, "text": "Ω" * 40 * index}),
        "place": place_of(count),
        "drawn": draw(count, 3, seed=5),
        "own": [*own("abcde"), *share_of(5)],
    }


def main(folder: Path) -> None:
    join()
    index, results = jax.process_index(), {}
    for mesh in MESHES:
        for case in CASES if mesh == MESHES[0] else ["uneven"]:
            found = updated(config_for(mesh), make_mesh(*mesh), CASES[case][index], micro_batch_tokens=2 * LENGTH)
            prefix = f"{'x'.join(map(str, mesh))}/{case}"
            results |= {f"{prefix}/{name}": value for name, value in found.items()}
    results["said"] = np.asarray([refused_row(), repr(exchanged())])
    results["meshes"] = np.asarray([refused_mesh(*mesh) for mesh in (*REFUSED, *MESHES)])
    np.savez(folder / f"{index}_of_2.npz", **results)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
