"""What an update holds and how long it takes: logits in chunks against all at once, trees against padded rows.

Times are processor times where the processor computes: neighbours do not slow them much. Memory is what XLA plans for
intermediate results, and by how much the process really grows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp

from pivotopd_jax.losses.divergences import kl_divergence
from pivotopd_jax.models.head import LOGITS_AT_ONCE, Head, chosen_log_probs, chunked_sum

VOCABULARY = 151_936
"""Outcomes of Qwen3's head."""

Sum = Callable[..., Any]
"""(`at_once`, head, hidden states, the rest) → a sum over tokens."""


def bench_head(
    tokens: int = 1024,
    width: int = 256,
    *,
    vocabulary: int = VOCABULARY,
    at_once: int = LOGITS_AT_ONCE,
    repeats: int = 5,
) -> dict[str, Any]:
    """Log-probs, and KL from a teacher with a head of its own, both with gradients by hidden states and head.

    Returns:
        For each of the two what `_compare` measured; and the sizes.
    """
    keys = jax.random.split(jax.random.key(0), 6)
    head, teacher = (Head(0.1 * jax.random.normal(key, (vocabulary, width)), True) for key in keys[:2])
    hidden, seen = (jax.random.normal(key, (tokens, width)) for key in keys[2:4])
    chosen, weights = jax.random.randint(keys[4], (tokens,), 0, vocabulary), jax.random.normal(keys[5], (tokens,))
    return {
        "tokens": tokens,
        "width": width,
        "vocabulary": vocabulary,
        "chunk_logits": at_once,
        "log_probs": _compare(_log_prob_sum, at_once, repeats, head, hidden, (chosen, weights), None),
        "kl": _compare(_kl_sum, at_once, repeats, head, hidden, (seen, weights), teacher),
    }


def _log_prob_sum(at_once: int, head: Head, hidden: jax.Array, each: Any, given: None) -> jax.Array:
    def of_chunk(logits: jax.Array, each: Any, _: None) -> tuple[jax.Array, None]:
        return jnp.sum(each[1] * chosen_log_probs(logits, each[0])), None

    return chunked_sum(of_chunk, head, hidden, each, given, at_once=at_once)[0]


def _kl_sum(at_once: int, head: Head, hidden: jax.Array, each: Any, given: Head) -> jax.Array:
    def of_chunk(logits: jax.Array, each: Any, teacher: Head) -> tuple[jax.Array, None]:
        return jnp.sum(each[1] * kl_divergence(teacher.logits(each[0]), logits)), None

    return chunked_sum(of_chunk, head, hidden, each, given, at_once=at_once)[0]


def _compare(function: Sum, at_once: int, repeats: int, *arguments: Any) -> dict[str, Any]:
    """Value and gradients of `function` in chunks and whole, taking turns.

    Returns:
        Of each "planned_mb" and "grown_mb" (None where nothing tells), and "seconds", the median of `repeats` runs
        after a first one; then the ratios of chunks to whole, and the largest difference of the gradients, relative to
        the largest entry.
    """
    whole = arguments[1].shape[0] * arguments[0].vocabulary
    programs = {
        name: jax.jit(jax.value_and_grad(partial(function, size), argnums=(0, 1))).lower(*arguments).compile()
        for name, size in (("chunked", at_once), ("full", whole))
    }
    runs = {name: partial(program, *arguments) for name, program in programs.items()}
    found: dict[str, Any] = {
        name: {"planned_mb": planned_megabytes(program), "grown_mb": grown_megabytes(runs[name])}
        for name, program in programs.items()
    }
    for name, seconds in median_seconds(runs, repeats).items():
        found[name]["seconds"] = seconds
    ratios = {f"{what}_ratio": _ratio(found, what) for what in ("planned_mb", "grown_mb", "seconds")}
    return {**found, **ratios, "difference": _difference(runs["chunked"]()[1], runs["full"]()[1])}


def _ratio(found: Mapping[str, Any], what: str) -> float | None:
    chunked, full = found["chunked"][what], found["full"][what]
    # In a process that was larger before, neither makes it grow.
    return chunked / full if chunked is not None and full else None


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
