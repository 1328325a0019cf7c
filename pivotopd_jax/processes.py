"""Several processes that train one student together (`jax.distributed`), and what they have to tell one another.

Each has a share of the tasks of every step and keeps to itself what comes of them: environments, the teacher's answers,
rows. Numbers that must be those of all are exchanged here as JSON. Whatever says "all processes" waits for the others:
all must call it, in the same order. With one process nothing waits and nothing is divided.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

Made = TypeVar("Made")

COORDINATOR, COUNT, INDEX = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"


class ProcessFailure(RuntimeError):
    """Another process of this run has failed; says which one and why."""


def join() -> None:
    """Makes this process one of those of its run; to be called before JAX does anything else.

    Slurm, GKE, TPU and MPI jobs are found out by JAX itself. Elsewhere three environment variables say it:
    JAX_COORDINATOR_ADDRESS (host:port of the first process), JAX_NUM_PROCESSES and JAX_PROCESS_ID (from 0).

    Raises:
        ValueError: neither is there, or a variable is not what it should be.
    """
    # On CPUs two programs that run at once would mix up what they send.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    given = {name: os.environ[name] for name in (COORDINATOR, COUNT, INDEX) if name in os.environ}
    if given.keys() & {COUNT, INDEX}:
        _join_given(given)
    else:
        _join_found()
    # Connects them while they are side by side: on CPUs a process that came half a minute later would find no one.
    gather(None)


def _join_given(given: Mapping[str, str]) -> None:
    if len(given) < 3 or not given[COUNT].isdecimal() or not given[INDEX].isdecimal():
        raise ValueError(
            f"of {COORDINATOR}, {COUNT} and {INDEX} there is {given}; expected an address host:port, the number of "
            "processes, and this one's number, counted from 0 (or none of them, on a cluster that JAX knows)"
        )
    # Without detection all devices that this process sees are its own.
    jax.distributed.initialize(
        num_processes=int(given[COUNT]), process_id=int(given[INDEX]), cluster_detection_method="deactivate"
    )


def _join_found() -> None:
    try:
        jax.distributed.initialize()
    except ValueError as error:
        raise ValueError(
            f"this process was told to join others, and JAX knows no cluster here ({error}); set {COORDINATOR}, "
            f"{COUNT} and {INDEX}, or start it without --distributed"
        ) from error


def is_first() -> bool:
    """Whether this is the process that writes and prints."""
    return jax.process_index() == 0


def say(line: str) -> None:
    """Prints `line` once for all processes."""
    if is_first():
        print(line)


def gather(value: Any) -> list[Any]:
    """`value`, anything that JSON knows, of all processes in their order."""
    text = json.dumps(value)
    if jax.process_count() == 1:
        return [json.loads(text)]
    sizes = multihost_utils.process_allgather(np.int32(len(text)))
    # A power of two, so that few shapes are compiled.
    padded = np.zeros(1 << int(sizes.max() - 1).bit_length(), np.uint8)
    padded[: len(text)] = np.frombuffer(text.encode("ascii"), np.uint8)
    texts = multihost_utils.process_allgather(padded)
    return [json.loads(bytes(text[:size])) for text, size in zip(texts, sizes, strict=True)]


def summed(values: Mapping[str, float]) -> dict[str, float]:
    """The sums by name over all processes; a name need not occur in each."""
    total: Counter[str] = Counter()
    for part in gather(dict(values)):
        total.update(part)
    return dict(total)


@contextmanager
def together() -> Iterator[None]:
    """A block that all processes must get through before any goes on: where it fails in one, it is over in all.

    The block itself must not wait for other processes; one that failed before would never come.

    Raises:
        ProcessFailure: the block went well here and failed elsewhere.
    """
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    reasons = gather(failure and f"{type(failure).__name__}: {failure}")
    if failure is not None:
        raise failure
    failed = [f"process {index}: {reason}" for index, reason in enumerate(reasons) if reason]
    if failed:
        raise ProcessFailure("; ".join(failed))


def in_turn(make: Callable[[], Made]) -> Made:
    """What `make` returns, called in the first process before it is in the others: they find what it left on disk."""
    made: list[Made] = []
    for first in (True, False):
        with together():
            if is_first() == first:
                made.append(make())
    return made[0]


def share_of(count: int) -> range:
    """Which of `count` items in a row are this process's."""
    index, processes = jax.process_index(), jax.process_count()
    return range(index * count // processes, (index + 1) * count // processes)


def own(items: Sequence[Made]) -> Sequence[Made]:
    """This process's share of `items`."""
    return [items[place] for place in share_of(len(items))]


def place_of(count: int) -> tuple[int, int]:
    """How many items the processes before this one have, and how many all have, if this one has `count`."""
    counts = gather(count)
    return sum(counts[: jax.process_index()]), sum(counts)


def draw(count: int, limit: int, seed: int) -> list[int]:
    """Which of this process's `count` items are kept, in order, if at most `limit` of those of all processes are.

    They are drawn uniformly, and do not depend on how the items are divided.
    """
    first, total = place_of(count)
    kept = range(total)
    if total > limit:
        kept = sorted(np.random.default_rng(seed).choice(total, limit, replace=False).tolist())
    return [place - first for place in kept if first <= place < first + count]
