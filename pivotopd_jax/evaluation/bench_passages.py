"""What a large corpus of passages costs: indexed once from synthetic passages, then shared."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pivotopd_jax.envs.search_qa.engine import TOP_K
from pivotopd_jax.envs.search_qa.passages import Passage, make_passage
from pivotopd_jax.envs.search_qa.retrieval import Hit
from pivotopd_jax.envs.search_qa.stored import build, open_index
from pivotopd_jax.evaluation.bench_catalogue import words
from pivotopd_jax.evaluation.bench_process import opened_elsewhere

PASSAGES = 1_000_000
WORDS = 100
"""Of a passage, as in the Wikipedia of Search-R1, which has 21,015,324 of them."""
SEARCHES = 300


def bench_passages(passages: int = PASSAGES) -> dict[str, Any]:
    """Indexes `passages` and opens the index in two processes, one after the other.

    Returns:
        Seconds to build 100,000 of them, the time in which they are made up subtracted; gigabytes on disk; and of the
        second process: megabytes that it has to itself, and new searches a second of processor time, each of six words.
    """
    with TemporaryDirectory() as place:
        directory, draw = Path(place) / "kept", random.Random(0)
        start = time.perf_counter()
        timed = Timed(synthetic_passages(passages))
        build(directory, timed)
        seconds = time.perf_counter() - start - timed.seconds
        queries = [" ".join(words(draw, 6)) for _ in range(SEARCHES)]
        opened = [opened_elsewhere(open_passages, directory, queries) for _ in range(2)][-1]
        size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    return {
        "passages": passages,
        "build_seconds_per_100k": seconds / passages * 1e5,
        "disk_gb": size / 1e9,
        **opened,
    }


class Timed(Iterator[Passage]):
    """Passages, and the seconds that making them took."""

    def __init__(self, passages: Iterator[Passage]) -> None:
        self._passages, self.seconds = passages, 0.0

    def __next__(self) -> Passage:
        start = time.perf_counter()
        try:
            return next(self._passages)
        finally:
            self.seconds += time.perf_counter() - start


def synthetic_passages(count: int) -> Iterator[Passage]:
    """Passages of `WORDS` words that are as unequally frequent as those of a language."""
    draw = random.Random(1)
    for number in range(count):
        yield make_passage(str(number), " ".join(words(draw, 3)), " ".join(words(draw, WORDS)))


def open_passages(directory: Path) -> tuple[Callable[[str], Sequence[Hit]], Callable[[Hit], str]]:
    """How passages are searched as an episode does, and how a title is read."""
    index = open_index(directory)
    return lambda query: index.search([query], TOP_K)[0], lambda hit: hit.passage.title
