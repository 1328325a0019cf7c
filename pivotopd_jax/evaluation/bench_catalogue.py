"""What a catalogue of the full size costs: made once from synthetic products in WebShop's schema, then shared."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pivotopd_jax.envs.webshop.stored import store

FULL_SIZE = 1_181_436
"""Products of WebShop's full item file."""
VOCABULARY = 60_000
SEARCHES = 300

# What a process has to itself: pages of mapped files belong to the machine, however few processes map them.
_PROCESS = """
import json, sys, time
from pathlib import Path
from pivotopd_jax.envs.webshop.retrieval import Index
from pivotopd_jax.envs.webshop.shop import Shop
from pivotopd_jax.envs.webshop.stored import StoredProducts
def own_megabytes():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:")) / 1024
before = own_megabytes()
directory, queries = Path(sys.argv[1]), json.loads(sys.argv[2])
products, index = StoredProducts(directory), Index.load(directory, "lucene")
[index.search(query) for query in queries[:20]]
start = time.process_time()
found = [index.search(query) for query in queries]
seconds = time.process_time() - start
for hits in found:
    [products[position].title for position in hits[:10]]
print(json.dumps([own_megabytes() - before, len(queries) / seconds, sum(map(bool, found))]))
"""


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
        queries = [" ".join(_words(draw, 6)) for _ in range(SEARCHES)]
        opened = [_open(directory, queries) for _ in range(2)][-1]
        size = sum(file.stat().st_size for file in directory.iterdir())
    return {
        "products": products,
        "make_seconds": seconds,
        "disk_gb": size / 1e9,
        "process_mb": opened[0],
        "searches_per_second": opened[1],
        "searches_with_hits": opened[2],
    }


def synthetic_rows(count: int) -> Iterator[dict[str, Any]]:
    """Rows as of an item file; words are as unequally frequent as those of a language (Zipf)."""
    draw = random.Random(1)
    for number in range(count):
        yield {
            "asin": f"B{number:09d}",
            "name": " ".join(_words(draw, 12)),
            "full_description": " ".join(_words(draw, 30)),
            "small_description": [" ".join(_words(draw, 8)) for _ in range(3)],
            "category": "garden",
            "query": " ".join(_words(draw, 2)),
            "product_category": f"Home › Shelf {number % 500} › Board {number % 5000}",
            "pricing": f"${draw.randint(5, 90)}.99",
            "customization_options": {"color": [{"value": word} for word in _words(draw, 3)]},
        }


def _words(draw: random.Random, count: int) -> list[str]:
    return [_word(int(VOCABULARY ** draw.random())) for _ in range(count)]


@cache
def _word(rank: int) -> str:
    """A pronounceable word for each rank, short ones first."""
    text = ""
    while rank >= 0:
        text += "bdfgklmnprstvz"[rank % 14] + "aeiou"[rank // 14 % 5]
        rank = rank // 70 - 1
    return text


def _open(directory: Path, queries: list[str]) -> list[float]:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _PROCESS, str(directory), json.dumps(queries)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"the catalogue could not be opened by another process: {done.stderr[-300:]}")
    return json.loads(done.stdout)
