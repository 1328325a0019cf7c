"""What shopping costs: a random customer's steps, snapshots, plans, and the memory of a catalogue."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pivotopd_jax.envs.webshop.planner import WebShopPlanner
from pivotopd_jax.envs.webshop.world import WebShop
from pivotopd_jax.evaluation.bench_envs import (
    PARTS,
    planner_milliseconds,
    random_policy_steps_per_second,
    snapshot_restore_microseconds,
    start_snapshots,
)

GOALS = 500
"""Goals played: as many as the papers test on."""

# The peak that the system reports starts from the parent's, so the present size is read.
_MEMORY = """
import os, sys
from pivotopd_jax.envs.webshop import world
def megabytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
before = megabytes()
tasks = world.WebShop(sys.argv[1]).tasks("test")
tasks[0].source.shop.index.search("table")
print(megabytes() - before)
"""


def bench_webshop(data: str | None, seconds: float) -> dict[str, Any]:
    """Times WebShop on one core.

    Args:
        data: directory of WebShop's own files, or None for generated shops.
        seconds: how long the random customer plays: in `PARTS` parts, of which the fastest counts.
    """
    world = WebShop(data or "generated")
    tasks = world.tasks("test")[:GOALS]
    env, place = world.make(), tasks[0].source.shop
    queries = [task.source.goal.title for task in tasks]
    return {
        "goals": world.name,
        "tasks": len(tasks),
        "products": len(place.products),
        "steps_per_second": max(
            random_policy_steps_per_second(env, tasks, seconds / PARTS, seed=part) for part in range(PARTS)
        ),
        "snapshot_restore_us": snapshot_restore_microseconds(env, tasks[0]),
        "new_searches_per_second": _searches_per_second(place.index.search.__wrapped__, queries),
        "planner_starts": asdict(
            planner_milliseconds(start_snapshots(env, tasks[:100]), lambda: WebShopPlanner().distance)
        ),
        "catalogue_mb": _catalogue_megabytes(data or "generated"),
    }


def _searches_per_second(search: Any, queries: list[str]) -> float:
    """Searches without the memory of earlier ones."""
    chosen = random.Random(0).choices(queries, k=1000)
    start = time.process_time()
    for query in chosen:
        search(query)
    return len(chosen) / (time.process_time() - start)


def _catalogue_megabytes(source: str) -> float:
    """How much the memory of a fresh process grows when it loads the shop, its goals and its index."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _MEMORY, source]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"the catalogue's memory could not be measured: {done.stderr[-300:]}")
    return float(done.stdout)
