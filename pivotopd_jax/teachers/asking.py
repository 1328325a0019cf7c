"""Puts questions to a server, keeps the replies, and counts what came of each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from pivotopd_jax.teachers.abilities import reply_words
from pivotopd_jax.teachers.outcomes import Outcomes
from pivotopd_jax.teachers.reply_cache import ReplyCache, content_address
from pivotopd_jax.teachers.server import Call, CallFailed, Server

R = TypeVar("R")


class Asker:
    """Questions whose replies are words; any number of threads may ask at once.

    Attributes:
        server: that answers.
        cache: of replies, good and bad: a run that goes on meets the same ones.
        outcomes: by job.
    """

    def __init__(self, server: Server, cache: ReplyCache, outcomes: Outcomes):
        self.server, self.cache, self.outcomes = server, cache, outcomes
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Any]] = {}

    def ask(self, job: str, bodies: Sequence[dict[str, Any]], read: Callable[[int, str], R | None]) -> list[R | None]:
        """What `read` makes of the reply to each request; equal requests are sent once.

        Args:
            job: under which it is counted.
            bodies: of chat completions.
            read: from the index of a request and the words of its reply; None where they are not what was asked for.

        Returns:
            None for each request that failed or whose reply could not be read.

        Raises:
            TeacherFailure: too many of the latest requests of this job failed.
        """
        names = [content_address(body) for body in bodies]
        replies = {name: self.cache.get(body) for name, body in zip(names, bodies, strict=True)}
        missing = {name: body for name, body in zip(names, bodies, strict=True) if replies[name] is None}
        replies |= self._fetch(missing)
        results = []
        for index, name in enumerate(names):
            reply, good = replies[name], "ok" if name in missing else "cached"
            results.append(self.judge(job, reply, lambda r, index=index: _read_words(r, index, read), good))
        self.outcomes.check(job)
        return results

    def judge(self, job: str, reply: Any, read: Callable[[Any], R | None], good: str = "ok") -> R | None:
        """What `read` makes of `reply`, None if that is a failure; counted as `good`, "unreadable" or the failure."""
        if isinstance(reply, CallFailed):
            self.outcomes.add(job, reply.kind, reply.words)
            return None
        result = read(reply)
        self.outcomes.add(job, "unreadable" if result is None else good, "its reply is not what was asked for")
        return result

    def _fetch(self, bodies: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """Replies by name; what another thread is asking already is waited for, not asked again."""
        with self._lock:
            mine = {name: Future() for name in bodies if name not in self._under_way}
            found = {name: self._under_way[name] for name in bodies if name not in mine} | mine
            self._under_way |= mine
        try:
            for name, reply in zip(mine, self._send([bodies[name] for name in mine]), strict=True):
                mine[name].set_result(reply)
        except BaseException as error:
            for future in mine.values():
                future.set_exception(error)
            raise
        finally:
            with self._lock:
                for name in mine:
                    del self._under_way[name]
        return {name: future.result() for name, future in found.items()}

    def _send(self, bodies: list[dict[str, Any]]) -> list[Any]:
        """Asks anew; replies are kept as they come in, so that a crash loses none."""
        calls = [Call("/chat/completions", body) for body in bodies]
        sent = self.server.send(calls, lambda index, reply: self.cache.put(bodies[index], _essence(reply)))
        return [reply if isinstance(reply, CallFailed) else _essence(reply) for reply in sent]


def _essence(reply: Any) -> dict[str, str | None]:
    """What is kept of a chat completion: its words, null where it has none that count."""
    return {"words": reply_words(reply)}


def _read_words(reply: Any, index: int, read: Callable[[int, str], R | None]) -> R | None:
    words = reply.get("words") if isinstance(reply, dict) else None
    return read(index, words) if isinstance(words, str) else None
