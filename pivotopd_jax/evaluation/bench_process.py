"""What opening and searching an index costs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Opener = Callable[[Path], tuple[Callable[[str], Sequence[Any]], Callable[[Any], str]]]
"""Opens a directory; gives how it is searched and how a hit is read."""

# What a process has to itself: pages of mapped files belong to the machine, however few processes map them.
_PROCESS = """
import importlib, json, sys, time
from pathlib import Path
def own_megabytes():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:")) / 1024
module, name, directory, queries = sys.argv[1:]
opener, queries = getattr(importlib.import_module(module), name), json.loads(queries)
before = own_megabytes()
search, read = opener(Path(directory))
[search(query) for query in queries[:20]]
queries = queries[20:]
start = time.process_time()
found = [search(query) for query in queries]
seconds = time.process_time() - start
for hits in found:
    [read(hit) for hit in hits[:10]]
print(json.dumps([own_megabytes() - before, len(queries) / seconds, sum(map(bool, map(len, found)))]))
"""


def opened_elsewhere(opener: Opener, directory: Path, queries: Sequence[str]) -> dict[str, float]:
    """Opens `directory` in another process and searches there; the first 20 queries only to warm up.

    Returns:
        Megabytes that the process has to itself, besides what it imports; searches a second of processor time; searches
        that found anything.

    Raises:
        ValueError: the other process failed.
    """
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _PROCESS, opener.__module__, opener.__name__, str(directory), json.dumps(queries)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{directory} could not be opened by another process: {done.stderr[-300:]}")
    return dict(zip(("process_mb", "searches_per_second", "searches_with_hits"), json.loads(done.stdout), strict=True))
