"""Environments that may crash or hang: every call to one has a deadline and a second try.

The second try is made in a fresh environment, put back to the snapshot before the call. Snapshots are exact, so that
nothing has to be sampled again: what a retried episode is made of is bit by bit what it would have been.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from absl import logging

from pivotopd_jax.envs.protocol import Env, Planner, Snapshot, World
from pivotopd_jax.records import Observation, StepResult, Task

Call = Callable[[], Any]


class EnvironmentFailure(RuntimeError):
    """An environment failed twice at one call; says which one and why."""


class GuardedWorld:
    """Implements `envs.protocol.World`: another world, whose environments are guarded.

    A call runs on a thread of its own while the caller waits for it. A thread cannot be killed: one whose call does not
    come back is given up together with its environment, and ends when the call does. What hangs without letting other
    threads run (inside C code, say) holds up everything; such an environment belongs into a process of its own.
    """

    def __init__(self, world: World, *, deadline_seconds: float):
        """`deadline_seconds`: longest that one call to an environment may take.

        Raises:
            ValueError: it is not more than 0.
        """
        if not deadline_seconds > 0:
            raise ValueError(f"config.sampler.env_deadline_seconds is {deadline_seconds}; expected more than 0")
        self.name, self.kinds = world.name, world.kinds
        self._world, self._deadline_seconds = world, deadline_seconds
        self._failures, self._counting = Counter[str](), threading.Lock()

    @property
    def planner(self) -> Planner:
        return self._world.planner

    def tasks(self, split: str) -> Sequence[Task]:
        """Those of the world."""
        return self._world.tasks(split)

    def make(self) -> GuardedEnv:
        """A guarded environment; the one inside is made at its first call."""
        return GuardedEnv(self._world.make, self._outcome)

    @property
    def failures(self) -> Mapping[str, int]:
        """Calls since the start that "crashed" or "hung", first and second tries."""
        return dict(self._failures)

    def _outcome(self, call: Call) -> _Outcome:
        outcome = _within(self._deadline_seconds, call)
        if outcome.error is not None:
            with self._counting:
                self._failures["hung" if isinstance(outcome.error, _Hung) else "crashed"] += 1
        return outcome


class GuardedEnv:
    """Implements `envs.protocol.Env`. Every method may raise `EnvironmentFailure`; the episode is lost then."""

    def __init__(self, make: Callable[[], Env], outcome: Callable[[Call], _Outcome]):
        self._make, self._outcome = make, outcome
        self._env: Env | None = None
        self._snapshot: Snapshot | None = None

    def reset(self, task: Task) -> Observation:
        """See `Env`."""
        return self._moved(f"reset to task {task.id!r}", lambda env: env.reset(task), None)

    def restore(self, snapshot: Snapshot) -> Observation:
        """See `Env`."""
        return self._moved("restore", lambda env: env.restore(snapshot), None)

    def step(self, action: str) -> StepResult:
        """See `Env`."""
        return self._moved(f"step({action[:80]!r})", lambda env: env.step(action), self._snapshot)

    def accepts(self, action: str) -> bool:
        """See `Env`."""
        return self._tried(f"accepts({action[:80]!r})", lambda env: env.accepts(action), self._snapshot)

    def snapshot(self) -> Snapshot:
        """The state after the latest call."""
        if self._snapshot is None:
            raise RuntimeError("no episode is running; call reset(task) or restore(snapshot) first")
        return self._snapshot

    def _moved(self, what: str, call: Callable[[Env], Any], before: Snapshot | None) -> Any:
        """What a call returns that leads to another state; keeps that state."""
        result, self._snapshot = self._tried(what, lambda env: (call(env), env.snapshot()), before)
        return result

    def _tried(self, what: str, call: Callable[[Env], Any], before: Snapshot | None) -> Any:
        """What `call` returns at the first or second try; for the second the state is `before`, if there is one."""

        def first() -> tuple[Env, Any]:
            env = self._env or self._make()
            return env, call(env)

        def second() -> tuple[Env, Any]:
            env = self._make()
            if before is not None:
                env.restore(before)
            return env, call(env)

        outcome = self._outcome(first)
        if outcome.error is not None:
            logging.warning("an environment failed at %s: %s; it is tried once more", what, _words(outcome.error))
            outcome = self._outcome(second)
        if outcome.error is not None:
            raise EnvironmentFailure(
                f"an environment failed twice at {what}: {_words(outcome.error)}"
            ) from outcome.error
        self._env, result = outcome.result
        return result


class _Outcome(NamedTuple):
    """What came of a call: its result, or what it raised."""

    result: Any
    error: BaseException | None = None


class _Thread:
    """A thread that makes one call after the other, until it is dismissed."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._outcomes: SimpleQueue[_Outcome] = SimpleQueue()
        threading.Thread(target=self._work, name="environment", daemon=True).start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            self._outcomes.put(_made(call))

    def outcome(self, call: Call, seconds: float) -> _Outcome | None:
        """What comes of `call`; None if nothing does within `seconds`."""
        self._calls.put(call)
        try:
            return self._outcomes.get(timeout=seconds)
        except Empty:
            return None

    def dismiss(self) -> None:
        """Lets the thread end when its present call does."""
        self._calls.put(None)


_idle: SimpleQueue[_Thread] = SimpleQueue()
"""Threads of this process that have nothing to do: as many as were ever needed at once."""


def _within(seconds: float, call: Call) -> _Outcome:
    """What comes of `call` on a thread of its own; a TimeoutError if nothing does within `seconds`."""
    try:
        thread = _idle.get_nowait()
    except Empty:
        thread = _Thread()
    outcome = thread.outcome(call, seconds)
    if outcome is None:
        thread.dismiss()
        return _Outcome(None, _Hung(f"it did not answer within {seconds:g} s"))
    _idle.put(thread)
    return outcome


class _Hung(TimeoutError):
    """A call that did not come back."""


def _made(call: Call) -> _Outcome:
    try:
        return _Outcome(call())
    except BaseException as error:
        return _Outcome(None, error)


def _words(error: BaseException) -> str:
    return f"{'hung' if isinstance(error, _Hung) else type(error).__name__}: {error}"
