"""A world whose environments fail as a test says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from pivotopd_jax.envs.guard import GuardedEnv, GuardedWorld
from pivotopd_jax.records import Task

Fails = Callable[[str, Any], None]
"""(name of a method of an environment, its argument) → raises or sleeps where the call should fail."""


class Faulty:
    """Another world, whose environments ask `fails` before every call."""

    def __init__(self, world: Any, fails: Fails):
        self.name, self.kinds, self.planner = world.name, world.kinds, world.planner
        self._world, self._fails = world, fails

    def tasks(self, split: str) -> Sequence[Task]:
        return self._world.tasks(split)

    def make(self, *, again: bool = False) -> Any:
        """`again`: for the second try of a call, at which a `Once` does not fail."""
        env, fails = self._world.make(), self._fails
        spared = again and isinstance(fails, Once)

        class Env:
            def __getattr__(self, name: str) -> Any:
                def call(*given: Any) -> Any:
                    nonlocal spared
                    if not spared:
                        fails(name, given[0] if given else None)
                    # A second try is one call, and before it the way back to where the first one was made.
                    spared = spared and name in ("restore", "snapshot")
                    return getattr(env, name)(*given)

                return call

        return Env()


class Once:
    """Fails at some of the calls to `methods`, counted from 0 over all environments, and never at a second try."""

    def __init__(self, at: set[int], fail: Callable[[], None], methods: tuple[str, ...] = ("reset", "step")):
        self.at, self.fail, self.methods = set(at), fail, methods
        self.calls, self._lock = 0, threading.Lock()

    def __call__(self, name: str, given: Any) -> None:
        if name not in self.methods:
            return
        with self._lock:
            now, self.calls = self.calls, self.calls + 1
            failing = now in self.at
            self.at.discard(now)
        if failing:
            self.fail()


class _Guarded(GuardedWorld):
    """Tells the faulty world inside which environments are made for a second try: all but the first in one place."""

    def __init__(self, world: Faulty, *, deadline_seconds: float):
        super().__init__(world, deadline_seconds=deadline_seconds)
        self._faulty = world

    def make(self) -> GuardedEnv:
        made = count()
        return GuardedEnv(lambda: self._faulty.make(again=next(made) > 0), self._outcome)


def crash() -> None:
    raise OSError("the environment broke")


def hang() -> None:
    time.sleep(1.5)


def guarded(world: Any, fails: Fails, seconds: float = 30.0) -> GuardedWorld:
    return _Guarded(Faulty(world, fails), deadline_seconds=seconds)
