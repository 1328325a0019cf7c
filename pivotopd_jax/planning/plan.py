"""A plan: what one step takes on so many chips, by memory and by stage."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh

from pivotopd_jax.models.published import known_config
from pivotopd_jax.models.qwen3_config import Qwen3Config
from pivotopd_jax.planning.chips import CHIPS, Chip
from pivotopd_jax.planning.programs import AXES, Memory, compiled_memory, parameter_bytes
from pivotopd_jax.planning.workload import Lengths, Stage, operations, stages


@dataclass(frozen=True)
class Assumptions:
    """What a plan takes for granted.

    Attributes:
        lengths: mean lengths.
        utilisation: share of a chip's peak operations that matrix products reach (MFU).
        reading: share of the peak bandwidth that decoding reaches.
        chips_per_process: each process samples by itself, with the whole model on its own chips.
    """

    lengths: Lengths
    utilisation: float = 0.4
    reading: float = 0.6
    chips_per_process: int = 4


@dataclass(frozen=True)
class Planned:
    """One stage.

    Attributes:
        operations: of all chips.
        seconds: the longest of what follows, which may overlap.
        bound: which that is: "operations", "memory" (weights and cache read for every token) or "links" (weights
            gathered, gradients summed).
    """

    operations: float
    seconds: float
    bound: str


def memory_table(
    config: Any, model: Qwen3Config, mesh: Mesh | AbstractMesh, assumed: Assumptions, programs: dict[str, Memory]
) -> dict[str, float]:
    """Bytes on one device by what they hold; "in all" is the most that is held at once."""
    dtype = jnp.dtype(config.learner.dtype)
    trained = parameter_bytes(model, mesh, jnp.float32)
    own = AbstractMesh((1, assumed.chips_per_process, 1), AXES)
    found: dict[str, float] = {
        "trained weights, float32": trained,
        "gradient, float32": trained,
        "moments of Adam, float32": 2 * trained,
        f"reference, {dtype}": parameter_bytes(model, mesh, dtype),
        f"sampler's weights, {dtype}": parameter_bytes(model, own, dtype),
        "sampler's cache": cache_bytes(config, model, assumed.chips_per_process),
        "temporaries of the largest program": max(each.temporaries for each in programs.values()),
    }
    return {**found, "in all": sum(found.values())}


def cache_bytes(config: Any, model: Qwen3Config, chips: int) -> float:
    """Keys and values of all slots, on one of the `chips` of a process."""
    tokens = config.sampler.slots * (config.prompt.prompt_tokens + config.prompt.response_tokens)
    a_token = 2 * model.num_layers * model.num_kv_heads * model.head_dim * jnp.dtype(config.learner.dtype).itemsize
    return tokens * a_token / math.gcd(chips, model.num_kv_heads)


def stage_table(
    config: Any, model: Qwen3Config, mesh: Mesh | AbstractMesh, chip: Chip, assumed: Assumptions
) -> dict[str, Planned]:
    """The stages of a step on chips of one kind."""
    found = {}
    for name, stage in stages(config, assumed.lengths).items():
        count = operations(model, stage, remat=config.learner.remat)
        seconds = {
            "operations": count / (mesh.size * chip.flops * assumed.utilisation),
            "memory": _reading(config, model, mesh, chip, assumed, stage),
            "links": _gathering(config, model, mesh, chip, stage),
        }
        bound = max(seconds, key=lambda key: seconds[key])
        found[name] = Planned(count, seconds[bound], bound)
    return found


def _reading(
    config: Any, model: Qwen3Config, mesh: Mesh | AbstractMesh, chip: Chip, assumed: Assumptions, stage: Stage
) -> float:
    """Seconds of reading weights and cache for every sampled token, all slots at once."""
    if not stage.written:
        return 0.0
    processes = max(1, mesh.size // assumed.chips_per_process)
    steps = stage.written / processes / min(config.sampler.slots, stage.written)
    own = AbstractMesh((1, assumed.chips_per_process, 1), AXES)
    weights = parameter_bytes(model, own, jnp.dtype(config.learner.dtype))
    full = config.prompt.prompt_tokens + config.prompt.response_tokens
    cache = cache_bytes(config, model, assumed.chips_per_process) * min(1.0, stage.context / full)
    return steps * (weights + cache) / (chip.bandwidth * assumed.reading)


def _gathering(config: Any, model: Qwen3Config, mesh: Mesh | AbstractMesh, chip: Chip, stage: Stage) -> float:
    """Seconds of gathering weights for every micro-batch, twice to train it, and of summing float32 gradients."""
    rows = mesh.shape["fsdp"] * mesh.shape["expert"]
    if mesh.shape["fsdp"] == 1 or not (stage.trained or (stage.read and not stage.written)):
        return 0.0
    tokens = max(1, config.learner.micro_batch_tokens // (config.learner.row_tokens * rows)) * rows
    micro_batches = math.ceil((stage.trained + stage.read) / (tokens * config.learner.row_tokens))
    without = AbstractMesh((1, mesh.shape["tensor"], mesh.shape["expert"]), AXES)
    whole = parameter_bytes(model, without, jnp.dtype(config.learner.dtype))
    moved = 2 * whole + parameter_bytes(model, without, jnp.float32) if stage.trained else whole
    return micro_batches * moved / chip.link


def make_plan(
    config: Any, mesh: Mesh, chips: list[str], assumed: Assumptions, report: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """The plan of `config` on `mesh`: memory of a device, and for each kind of chip its stages.

    Raises:
        ValueError: nothing is known of the student, or of a chip.
    """
    if unknown := set(chips) - set(CHIPS):
        raise ValueError(f"no chip {', '.join(sorted(unknown))}; expected some of {', '.join(CHIPS)}")
    model = known_config(config.student)
    programs = compiled_memory(config, model, mesh, report)
    memory = memory_table(config, model, mesh, assumed, programs)
    return {
        "student": config.student,
        "mesh": dict(mesh.shape),
        "assumed": assumed,
        "memory": memory,
        "chips": {name: stage_table(config, model, mesh, CHIPS[name], assumed) for name in chips},
    }


def render(plan: dict[str, Any]) -> str:
    """The plan as Markdown."""
    lines = [f"## {plan['student']} on {' × '.join(f'{axis} {size}' for axis, size in plan['mesh'].items())}", ""]
    lengths = plan["assumed"].lengths
    lines += [
        f"Means: {lengths.turns:g} turns, {lengths.prompt:g} tokens of context, {lengths.response:g} of response, "
        f"{lengths.pivotal:g} pivotal turns an episode; {plan['assumed'].utilisation:.0%} of peak operations, "
        f"{plan['assumed'].reading:.0%} of peak bandwidth, {plan['assumed'].chips_per_process} chips a process.",
        "", "| on each device | GB |", "|---|---|",
        *(f"| {name} | {size / 1e9:.2f} |" for name, size in plan["memory"].items()),
    ]  # fmt: skip
    for name, planned in plan["chips"].items():
        lines += ["", *_render_chip(name, planned, plan["memory"]["in all"])]
    return "\n".join(lines)


def _render_chip(name: str, planned: dict[str, Planned], needed: float) -> list[str]:
    chip, whole = CHIPS[name], sum(each.seconds for each in planned.values())
    fits = "fits" if needed <= chip.memory else "DOES NOT FIT"
    longest = max(planned, key=lambda stage: planned[stage].seconds)
    rows = [
        f"| {stage} | {each.operations / 1e15:.2f} | {each.seconds:.1f} | {each.seconds / whole:.0%} | {each.bound} |"
        for stage, each in planned.items()
    ]
    return [
        f"**{name}** ({chip.memory / 1e9:g} GB: {fits}): {whole:.0f} s a step; bottleneck: {longest}, bound by "
        f"{planned[longest].bound}.",
        "", "| stage | PFLOP | s | share | bound by |", "|---|---|---|---|---|", *rows,
    ]  # fmt: skip
