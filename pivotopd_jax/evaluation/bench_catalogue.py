"""What a catalogue of the full size costs: made once from synthetic products in WebShop's schema, then shared."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pivotopd_jax.envs.webshop.retrieval import Index
from pivotopd_jax.envs.webshop.stored import StoredProducts, store
from pivotopd_jax.evaluation.bench_process import opened_elsewhere

FULL_SIZE = 1_181_436
"""Products of WebShop's full item file."""
VOCABULARY = 60_000
SEARCHES = 300


def bench_catalogue(products: int = FULL_SIZE) -> dict[str, Any]:
    """Makes a catalogue of `products` and opens it in two processes, one after the other.

    Returns:
        Seconds to make it, its gigabytes on disk, and of the second process: megabytes that it has to itself, and new
        searches a second of processor time, each of six words.
    """
    with TemporaryDirectory() as place:
        directory, draw = Path(place) / "kept", random.Random(0)
        start = time.perf_counter()
        store(directory, synthetic_rows(products), {}, "lucene", seed=0)
        seconds = time.perf_counter() - start
        queries = [" ".join(words(draw, 6)) for _ in range(SEARCHES)]
        opened = [opened_elsewhere(open_catalogue, directory, queries) for _ in range(2)][-1]
        size = sum(file.stat().st_size for file in directory.iterdir())
    return {
        "products": products,
        "make_seconds": seconds,
        "disk_gb": size / 1e9,
        **opened,
    }


def open_catalogue(directory: Path) -> tuple[Callable[[str], Sequence[int]], Callable[[int], str]]:
    """How a kept catalogue is searched, and how a title is read."""
    products, index = StoredProducts(directory), Index.load(directory, "lucene")
    return index.search, lambda position: products[position].title


def synthetic_rows(count: int) -> Iterator[dict[str, Any]]:
    """Rows as of an item file; words are as unequally frequent as those of a language (Zipf)."""
    draw = random.Random(1)
    for number in range(count):
        yield {
            "asin": f"B{number:09d}",
            "name": " ".join(words(draw, 12)),
            "full_description": " ".join(words(draw, 30)),
            "small_description": [" ".join(words(draw, 8)) for _ in range(3)],
            "category": "garden",
            "query": " ".join(words(draw, 2)),
            "product_category": f"Home › Shelf {number % 500} › Board {number % 5000}",
            "pricing": f"${draw.randint(5, 90)}.99",
            "customization_options": {"color": [{"value": word} for word in words(draw, 3)]},
        }


def words(draw: random.Random, count: int) -> list[str]:
    """Made-up words, as unequally frequent as those of a language (Zipf)."""
    return [_word(int(VOCABULARY ** draw.random())) for _ in range(count)]


@cache
def _word(rank: int) -> str:
    """A pronounceable word for each rank, short ones first."""
    text = ""
    while rank >= 0:
        text += "bdfgklmnprstvz"[rank % 14] + "aeiou"[rank // 14 % 5]
        rank = rank // 70 - 1
    return text
