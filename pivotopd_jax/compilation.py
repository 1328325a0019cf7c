"""Counts the programs that JAX builds, from the events that it reports.

A program is built when a function is called with shapes that it has not been called with in this process: it is traced
and lowered, which no cache spares, and then compiled or read from JAX's persistent cache. An operation outside `jit` is
a program, too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from jax import monitoring

STAGES = tuple(
    f"/jax/core/compile/{stage}_duration" for stage in ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile")
)
BUILT, FROM_CACHE = STAGES[-1], "/jax/compilation_cache/cache_hits"


class Compiled(NamedTuple):
    """What was built in some stretch of time.

    Attributes:
        programs: number of them.
        cached: how many of them were read from the persistent cache in place of being compiled.
        seconds: of tracing, lowering, compiling and reading.
    """

    programs: int = 0
    cached: int = 0
    seconds: float = 0.0

    def since(self, earlier: Compiled) -> Compiled:
        """What came after `earlier`, both counted from the same moment."""
        return Compiled(self.programs - earlier.programs, self.cached - earlier.cached, self.seconds - earlier.seconds)


@dataclass
class _Count:
    programs: Counter[str] = field(default_factory=Counter)
    cached: int = 0
    seconds: float = 0.0

    def hear_duration(self, event: str, duration_secs: float, **about: Any) -> None:
        if event in STAGES:
            self.seconds += duration_secs
        if event == BUILT:
            self.programs[about["fun_name"].removeprefix("jit(").removesuffix(")")] += 1

    def hear(self, event: str, **_: Any) -> None:
        self.cached += event == FROM_CACHE


@cache
def _count() -> _Count:
    count = _Count()
    monitoring.register_event_duration_secs_listener(count.hear_duration)
    monitoring.register_event_listener(count.hear)
    return count


def compiled() -> Compiled:
    """What this process has built since the first call of `compiled` or `programs`."""
    count = _count()
    return Compiled(count.programs.total(), count.cached, count.seconds)


def programs() -> Counter[str]:
    """How many programs each function has made, by its name, since that call."""
    return Counter(_count().programs)
