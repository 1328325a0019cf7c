"""SIGTERM, by which a scheduler says that it will take the machine away: the run saves what it has and ends well."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pivotopd_jax.processes import gather

_received: list[int] = []


class Preempted(SystemExit):
    """A run was told to end. Whoever does not catch it ends with status 0."""


@contextmanager
def noticed() -> Iterator[None]:
    """A block in which SIGTERM does nothing but make `check` raise; outside the main thread it ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _received.clear()
    before = signal.signal(signal.SIGTERM, lambda number, _: _received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def check() -> None:
    """Ends the run in all processes if one of them was told to end; all must call this.

    Raises:
        Preempted: one was.
    """
    if any(gather(bool(_received))):
        raise Preempted
