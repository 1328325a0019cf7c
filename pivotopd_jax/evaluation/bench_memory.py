"""What an update holds and how long it takes: logits in chunks against all at once, trees against padded rows.

Times are processor times where the processor computes: neighbours do not slow them much. Memory is what XLA plans for
intermediate results, and by how much a new process really grows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pivotopd_jax.losses.divergences import kl_divergence
from pivotopd_jax.models.head import LOGITS_AT_ONCE, Head, chosen_log_probs, chunked_sum


class Sizes(NamedTuple):
    """Of a batch, and of the head."""

    tokens: int
    width: int
    vocabulary: int


MEASURED = Sizes(2048, 256, 151_936)
"""As many outcomes as Qwen3's head has."""


def bench_head(sizes: Sizes = MEASURED, *, at_once: int = LOGITS_AT_ONCE, repeats: int = 5) -> dict[str, Any]:
    """Log-probs, and KL from a teacher with a head of its own, both with gradients by hidden states and head.

    Args:
        sizes: of everything.
        at_once: logits of a chunk.
        repeats: runs of each kind; their median counts.

    Returns:
        For each of the two what `_compare` measured; and the sizes.
    """
    measured = {name: _compare(name, sizes, at_once, repeats) for name in SUMS}
    return {**sizes._asdict(), "chunk_logits": at_once, **measured}


def _log_prob_sum(at_once: int, head: Head, hidden: jax.Array, each: Any, given: None) -> jax.Array:
    def of_chunk(logits: jax.Array, each: Any, _: None) -> tuple[jax.Array, None]:
        return jnp.sum(each[1] * chosen_log_probs(logits, each[0])), None

    return chunked_sum(of_chunk, head, hidden, each, given, at_once=at_once)[0]


def _kl_sum(at_once: int, head: Head, hidden: jax.Array, each: Any, given: Head) -> jax.Array:
    def of_chunk(logits: jax.Array, each: Any, teacher: Head) -> tuple[jax.Array, None]:
        return jnp.sum(each[1] * kl_divergence(teacher.logits(each[0]), logits)), None

    return chunked_sum(of_chunk, head, hidden, each, given, at_once=at_once)[0]


SUMS: Mapping[str, Callable[..., Any]] = {"log_probs": _log_prob_sum, "kl": _kl_sum}
"""(logits of a chunk, head, hidden states, what belongs to the tokens, the teacher's head) → a sum over tokens."""


def _program(name: str, sizes: Sizes, at_once: int) -> Callable[[], Any]:
    """Value and gradients of a sum, compiled; bound to random arguments."""
    keys = jax.random.split(jax.random.key(0), 6)
    shape = (sizes.vocabulary, sizes.width)
    head, teacher = (Head(0.1 * jax.random.normal(key, shape), True) for key in keys[:2])
    hidden, seen = (jax.random.normal(key, (sizes.tokens, sizes.width)) for key in keys[2:4])
    chosen = jax.random.randint(keys[4], (sizes.tokens,), 0, sizes.vocabulary)
    weights = jax.random.normal(keys[5], (sizes.tokens,))
    arguments = {
        "log_probs": (head, hidden, (chosen, weights), None),
        "kl": (head, hidden, (seen, weights), teacher),
    }[name]
    gradients = jax.jit(jax.value_and_grad(partial(SUMS[name], at_once), argnums=(0, 1)))
    return partial(gradients.lower(*arguments).compile(), *arguments)


def _growth(name: str, sizes: Sizes, at_once: int) -> float | None:
    """Megabytes by which a process grows that has never run anything else."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_growth_here, name, sizes, at_once).result()


def _growth_here(name: str, sizes: Sizes, at_once: int) -> float | None:
    return grown_megabytes(_program(name, sizes, at_once))


def _compare(name: str, sizes: Sizes, at_once: int, repeats: int) -> dict[str, Any]:
    """A sum and its gradients in chunks and whole, taking turns.

    Returns:
        Of each "planned_mb" and "grown_mb" (None where nothing tells), and "seconds", the median of `repeats` runs
        after a first one; then the ratios of chunks to whole, and the largest difference of the gradients, relative to
        the largest entry.
    """
    logits = {"chunked": at_once, "full": sizes.tokens * sizes.vocabulary}
    runs: dict[str, Any] = {kind: _program(name, sizes, count) for kind, count in logits.items()}
    found: dict[str, Any] = {
        kind: {"planned_mb": planned_megabytes(run.func), "grown_mb": _growth(name, sizes, logits[kind])}
        for kind, run in runs.items()
    }
    difference = _difference(*(run()[1] for run in runs.values()))
    for kind, seconds in median_seconds(runs, repeats).items():
        found[kind]["seconds"] = seconds
    ratios = {f"{what}_ratio": _ratio(found, what) for what in ("planned_mb", "grown_mb", "seconds")}
    return {**found, **ratios, "difference": difference}


def _ratio(found: Mapping[str, Any], what: str) -> float | None:
    chunked, full = found["chunked"][what], found["full"][what]
    return None if chunked is None or full is None else chunked / full


def _difference(found: Any, expected: Any) -> float:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return max(float(jnp.max(jnp.abs(left - right)) / jnp.max(jnp.abs(right))) for left, right in pairs)


def median_seconds(runs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median time of each of `runs`, which take turns, so that whatever else the machine does falls on all of them."""
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = clock()
            jax.block_until_ready(run())
            times[name].append(clock() - start)
    return {name: median(spent) for name, spent in times.items()}


def planned_megabytes(program: jax.stages.Compiled) -> float | None:
    """Intermediate results of a compiled program, in megabytes; None where XLA's backend does not tell."""
    analysis = program.memory_analysis()
    return None if analysis is None else analysis.temp_size_in_bytes / 1e6


def grown_megabytes(run: Callable[[], Any]) -> float | None:
    """By how much this process is at most larger during `run`, in megabytes; None on systems that do not tell.

    Results count, memory of an accelerator does not.
    """
    reset, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not reset.exists():
        return None

    def kilobytes(key: str) -> int:
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(key))

    reset.write_text("5")  # the peak is forgotten
    before = kilobytes("VmRSS:")
    jax.block_until_ready(run())
    return (kilobytes("VmHWM:") - before) * 1024 / 1e6
