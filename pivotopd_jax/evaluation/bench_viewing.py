"""How long the reading room takes on a long run: a synthetic log of as many trajectories as the papers' runs play."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from pivotopd_jax.recording import write_trajectories
from pivotopd_jax.viewing.log import TrajectoryLog
from pivotopd_jax.viewing.server import make_server

STEPS, TRAJECTORIES, TURNS, TOKENS = 160, 128, 12, 40
WORDS = ("open", "close", "fridge", "drawer", "apple", "take", "from", "look", "nothing", "happens", "you", "see")
RARE = "a lamp that was named once"


def bench_viewing(steps: int = STEPS, trajectories: int = TRAJECTORIES) -> dict[str, Any]:
    """Writes a log of `steps` × `trajectories`, and reads it as the page does.

    Returns:
        "megabytes" of the log; seconds to index it, by the clock and of the processor ("index", "index_cpu"); to the
        list ("list", with its "list_megabytes"); to search for words that are nearly everywhere, and for some that are
        once in it; milliseconds to serve a trajectory, the median of 100.
    """
    with TemporaryDirectory() as place:
        run, draw = Path(place) / "run", random.Random(0)
        run.mkdir()
        for step in range(steps):
            write_trajectories(run, "step", step, synthetic(draw, trajectories, rare=step == steps - 1))
        size = sum(path.stat().st_size for path in run.glob("trajectories/*"))
        cpu = time.process_time()
        index, log = timed(lambda: TrajectoryLog(run))
        cpu = time.process_time() - cpu
        server = make_server(log)
        Thread(target=server.serve_forever, daemon=True).start()
        found = {"megabytes": size / 1e6, "index": index, "index_cpu": cpu} | _asked(
            server.server_address[1], steps, trajectories, draw
        )
        server.shutdown()
        server.server_close()
        return found


def _asked(port: int, steps: int, trajectories: int, draw: random.Random) -> dict[str, Any]:
    """What a browser would wait for."""

    def ask(address: str) -> bytes:
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", address)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise ValueError(f"{address} answered {answer.status}: {content!r}")
        return content

    listed, rows = timed(lambda: ask("/api/index"))
    places = [(draw.randrange(steps), 1 + draw.randrange(trajectories)) for _ in range(100)]
    one = [timed(lambda s=s, n=n: ask(f"/api/trajectory?file=step_{s:06d}&line={n}"))[0] for s, n in places]
    common, _ = timed(lambda: ask("/api/search?text=fridge"))
    rare, answer = timed(lambda: ask("/api/search?text=" + RARE.replace(" ", "%20")))
    return {
        "list": listed,
        "list_megabytes": len(rows) / 1e6,
        "trajectories": len(json.loads(rows)["rows"]),
        "milliseconds_a_trajectory": 1000 * median(one),
        "search_common": common,
        "search_rare": rare,
        "found_rare": len(json.loads(answer)["found"]),
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that `work` takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def synthetic(draw: random.Random, count: int, *, rare: bool) -> Iterator[dict[str, Any]]:
    """Records of the shape and the size that training writes; `rare` words are in the last of them."""

    def said(words: int) -> str:
        return " ".join(draw.choices(WORDS, k=words))

    def turn(pivotal: bool) -> dict[str, Any]:
        tokens = [f" {word}" for word in draw.choices(WORDS, k=TOKENS)]
        numbers = [round(draw.gauss(0, 1), 3) for _ in tokens]
        return {
            "observation": said(30), "response": "".join(tokens), "action": said(3), "accepted": True,
            "actor": "student", "log_prob": sum(numbers), "gold_action": said(3), "pivotal": pivotal,
            "prompt_kept": 200, "prompt": said(250), "tokens": tokens, "log_probs": numbers, "advantages": numbers,
            "reward_advantage": 0.5,
        }  # fmt: skip

    for i in range(count):
        turns = [turn(pivotal=k == 4) for k in range(TURNS)]
        recovery = {"after": 4, "turns": [{**turn(False), "named": said(3)} for _ in range(2)], "final": said(10)}
        yield {
            "task": f"task-{draw.randrange(4000)}", "kind": draw.choice(("Pick", "Look", "Heat")), "group": i // 8,
            "won": draw.random() < 0.5, "score": 0.0, "turns": turns,
            "final": RARE if rare and i == count - 1 else said(10), "recoveries": [recovery],
        }  # fmt: skip
