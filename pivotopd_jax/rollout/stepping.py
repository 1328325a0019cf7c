"""Environments that step on threads of their own while the policy decodes, in an order that no clock decides."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Stepping(Generic[Result]):
    """Work of which several pieces may be under way; to be used as a context.

    A piece is taken up one `taken` later than the one that follows its beginning, however long it lasts: the policy
    has a block to decode meanwhile, and what shares a batch with what is always the same. That keeps rounding the same,
    too, so that a run can be repeated bit by bit. The price is that a row rests for a block between its turns, and that
    an environment slower than a block is waited for.
    """

    def __init__(self, threads: int):
        """With 0 `threads` every piece is done at once, by whoever begins it.

        Raises:
            ValueError: less than 0 threads.
        """
        if threads < 0:
            raise ValueError(f"{threads} threads cannot step environments; expected 0 (none of their own) or more")
        self._pool = ThreadPoolExecutor(threads, "environments") if threads else None
        self._earlier: list[Future[Result]] = []
        self._latest: list[Future[Result]] = []

    def begin(self, work: Callable[[], Result]) -> None:
        """Begins a piece of work."""
        if self._pool:
            self._latest.append(self._pool.submit(work))
            return
        done: Future[Result] = Future()
        done.set_result(work())
        self._latest.append(done)

    def taken(self, *, waiting: bool) -> list[Result]:
        """Results in the order in which the work was begun; what work raised is raised here.

        Args:
            waiting: nothing else is to be done: take up all there is.
        """
        if waiting or self._pool is None:
            self._earlier, self._latest = self._earlier + self._latest, []
        results = [future.result() for future in self._earlier]
        self._earlier, self._latest = self._latest, []
        return results

    def __enter__(self) -> Stepping[Result]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)
