"""What the measuring scripts share: files of a case, medians, the line of JSON. Needs numpy and nothing else."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np


def measure(function: Callable[[], Any], *, rounds: int, warm_up: int = 2) -> dict[str, float]:
    """Median seconds of a call: by the wall clock, and of the processor (all threads), which neighbours disturb less.

    Args:
        function: returns when its work is done.
        rounds: measured calls.
        warm_up: calls before them, for compilation.
    """
    for _ in range(warm_up):
        function()
    spent = []
    for _ in range(rounds):
        start = time.perf_counter(), time.process_time()
        function()
        spent.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return medians(spent)


def medians(spent: Sequence[tuple[float, float]]) -> dict[str, float]:
    """The medians of (wall clock, processor) seconds."""
    wall, processor = zip(*spent, strict=True)
    return {"seconds": median(wall), "processor_seconds": median(processor), "rounds": len(spent)}


def quickest(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The measurement with the least processor seconds."""
    return min(found, key=lambda each: each["processor_seconds"])


def read_case(directory: str) -> tuple[Path, dict[str, Any]]:
    """The directory of a case and its settings."""
    path = Path(directory)
    return path, json.loads((path / "settings.json").read_text(encoding="utf-8"))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file by name."""
    with np.load(path) as file:
        return dict(file)


def unpad(tokens: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    """`tokens [rows, longest]` as lists of `lengths [rows]` ids."""
    return [row[:length].tolist() for row, length in zip(tokens, lengths, strict=True)]


def pad_left(rows: Sequence[Sequence[int]], pad: int) -> np.ndarray:
    """`[rows, longest]` int64 with `pad` before the ids of each row."""
    longest = max(map(len, rows))
    return np.asarray([[pad] * (longest - len(row)) + list(row) for row in rows])


def report(packages: Sequence[str], results: dict[str, Any]) -> None:
    """Prints `results` with the versions of `packages`, as the last line."""
    print(json.dumps({"versions": {name: version(name) for name in packages}, **results}))


def multi_turn(
    sample: Callable[[list[list[int]], int], list[list[int]]], arrays: dict[str, np.ndarray], new_tokens: int
) -> None:
    """Answers prompts, each prolonged after every turn by the answer and by what is shown then.

    Args:
        sample: (prompts, new tokens) → answers.
        arrays: of prompts.npz.
        new_tokens: of an answer.
    """
    prompts = unpad(arrays["tokens"], arrays["lengths"])
    answers = sample(prompts, new_tokens)
    for shown, lengths in zip(arrays["observations"], arrays["observation_lengths"], strict=True):
        parts = zip(prompts, answers, unpad(shown, lengths), strict=True)
        prompts = [prompt + answer + more for prompt, answer, more in parts]
        answers = sample(prompts, new_tokens)


def pin(threads: int) -> None:
    """Gives this process, and those that it starts, `threads` cores and no accelerator.

    To be called before JAX is imported; XLA makes as many threads as there are cores that it may run on.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ |= {"OMP_NUM_THREADS": str(threads), "JAX_PLATFORMS": "cpu"}
    if (load := os.getloadavg()[0]) > 0.5:
        print(
            f"warning: the load is {load:.1f}: other programs are running, and seconds by the wall clock are not to be "
            "trusted; processor_seconds are disturbed less",
            file=sys.stderr,
        )
