"""Faults put in on purpose: environments that crash and hang, and a scripted teacher that has outages."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from pivotopd_jax.envs.protocol import Env, Planner, Snapshot, World
from pivotopd_jax.records import Observation, StepResult, Task

GAP = (100, 500)
"""Calls between two passing faults: so many that a second try never meets another one."""

BROKEN_SHARE = 0.02
"""Of all tasks: their environments crash or hang at every try."""

Fault = Literal["", "crash", "hang"]


def broken(task: Task) -> Fault:
    """How the environment of a task always fails; "" for most tasks."""
    draw = random.Random(task.id).random()
    return "" if draw >= BROKEN_SHARE else "hang" if draw < BROKEN_SHARE / 4 else "crash"


class FaultyWorld:
    """Implements `envs.protocol.World`: another world, in which calls fail now and then, and `broken` tasks always.

    A call that hangs comes back after `hang_seconds`.
    """

    def __init__(self, world: World, *, hang_seconds: float, seed: int):
        self.name, self.kinds = world.name, world.kinds
        self._world, self._hang_seconds = world, hang_seconds
        self._chance, self._lock = random.Random(seed), threading.Lock()
        self._left = self._chance.randint(*GAP)

    @property
    def planner(self) -> Planner:
        return self._world.planner

    def tasks(self, split: str) -> Sequence[Task]:
        """Those of the world."""
        return self._world.tasks(split)

    def make(self) -> Env:
        """An environment that may fail."""
        return _FaultyEnv(self._world.make(), self)

    def fail_now_and_then(self) -> None:
        """To be called before every call to an environment."""
        with self._lock:
            self._left -= 1
            if self._left:
                return
            self._left = self._chance.randint(*GAP)
            fault = self._chance.choice(("crash", "crash", "hang"))
        self.fail(fault)

    def fail(self, fault: Fault) -> None:
        """Fails as told."""
        if fault == "hang":
            time.sleep(self._hang_seconds)
        if fault == "crash":
            raise OSError("a crash that was put in on purpose")


class _FaultyEnv:
    def __init__(self, env: Env, world: FaultyWorld):
        self._env, self._world = env, world

    def reset(self, task: Task) -> Observation:
        self._world.fail(broken(task))
        self._world.fail_now_and_then()
        return self._env.reset(task)

    def step(self, action: str) -> StepResult:
        self._world.fail_now_and_then()
        return self._env.step(action)

    def restore(self, snapshot: Snapshot) -> Observation:
        self._world.fail_now_and_then()
        return self._env.restore(snapshot)

    def accepts(self, action: str) -> bool:
        return self._env.accepts(action)

    def snapshot(self) -> Snapshot:
        return self._env.snapshot()


REPORT = """```json
{"episode_summary": "", "episode_lesson": "Look around first.", "step_lessons": {}}
```
<correct_action step="0">look</correct_action><correct_action step="2">inventory</correct_action>"""
ACTION = "<action>look</action>"

Outage = Literal["", "error", "hang up", "stall"]
OUTAGES: tuple[Outage, ...] = ("error", "hang up", "stall")


class ScriptedTeacher:
    """A server that speaks OpenAI's interface and always says the same.

    Attributes:
        pause: seconds before every reply.
        outage: what it does in place of answering.
        stall: seconds that a reply takes while it stalls.
        url: where it is.
    """

    def __init__(self, *, pause: float, stall: float):
        self.pause, self.stall = pause, stall
        self.outage: Outage = ""
        self.url = ""

    @contextmanager
    def serving(self) -> Iterator[ScriptedTeacher]:
        """Serves on the loopback address until the block ends."""
        handler = type("Handler", (_Handler,), {"teacher": self})
        server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    teacher: ScriptedTeacher

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self._reply(200, {"data": [{"id": "teacher", "max_model_len": 32768}]})

    def do_POST(self) -> None:
        body, outage = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.teacher.outage
        time.sleep(self.teacher.stall if outage == "stall" else self.teacher.pause)
        if outage == "hang up":
            self.close_connection = True
            return
        words = REPORT if "episode_summary" in body["messages"][-1]["content"] else ACTION
        choice = {"message": {"role": "assistant", "content": words}, "finish_reason": "stop"}
        self._reply(500 if outage == "error" else 200, {"choices": [choice]})

    def _reply(self, status: int, content: Any) -> None:
        sent = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)
