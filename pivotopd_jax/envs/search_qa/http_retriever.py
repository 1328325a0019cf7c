"""Retrieval over HTTP: one client for Search-R1's servers and for verl-agent's, with a deadline and bounded retries.

What a server sends is untrusted: nothing is kept of a reply that is not exactly what the protocol says.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeGuard
from urllib.parse import urlsplit

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_before_delay, wait_random_exponential

from pivotopd_jax.background import wait_for
from pivotopd_jax.envs.search_qa.passages import Passage
from pivotopd_jax.envs.search_qa.retrieval import Hit

MAX_REPLY_BYTES = 1_000_000
"""Longest reply, for each query in the request."""
MAX_SCORE = 1e30
"""What is larger, or not a number, is no score."""


class RetrieverFailure(RuntimeError):
    """The retriever did not answer, or answered something else than passages.

    Attributes:
        final: another try would end the same way.
    """

    def __init__(self, words: str, *, final: bool = False) -> None:
        super().__init__(words)
        self.final = final


@dataclass(frozen=True)
class HttpRetriever:
    """Implements `retrieval.Retriever`; any number of threads may use it.

    Attributes:
        url: of the server; without a path, `/retrieve` is asked.
        schema: "queries", as Search-R1 sends them, all in one request; or "query", as verl-agent does, one a request.
        deadline_seconds: longest one request may take, retries included.
        retries: further tries after the first.
        retry_seconds: upper end of the first random wait before another try; it doubles each time.
        remembered: queries whose results are kept.
    """

    url: str
    schema: Literal["queries", "query"] = "queries"
    deadline_seconds: float = 30.0
    retries: int = 3
    retry_seconds: float = 0.5
    remembered: int = 4096

    def __post_init__(self) -> None:
        _check_address(self.url)
        if self.schema not in ("queries", "query"):
            raise ValueError(f"schema {self.schema!r} is not known; choose one of queries, query")
        if self.retries < 0 or self.deadline_seconds <= 0:
            raise ValueError(
                f"retries is {self.retries} and deadline_seconds {self.deadline_seconds}; expected at least 0 and more "
                "than 0"
            )

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `Retriever`.

        Raises:
            RetrieverFailure: no proper reply within the deadline and the retries.
        """
        return [list(hits) for hits in self._remembered(tuple(queries), k)]

    @cached_property
    def _remembered(self) -> Any:
        return lru_cache(maxsize=self.remembered)(self._search)

    def _search(self, queries: tuple[str, ...], k: int) -> list[list[Hit]]:
        options = {"topk": k, "return_scores": True}
        if self.schema == "query":
            return [hits for query in queries for hits in self._ask({"query": query, **options}, 1, k)]
        return self._ask({"queries": list(queries), **options}, len(queries), k) if queries else []

    def _ask(self, body: dict[str, Any], asked: int, k: int) -> list[list[Hit]]:
        end = time.monotonic() + self.deadline_seconds
        attempts = Retrying(
            stop=stop_after_attempt(1 + self.retries) | stop_before_delay(self.deadline_seconds),
            wait=wait_random_exponential(multiplier=self.retry_seconds, max=30),
            retry=retry_if_exception(lambda error: isinstance(error, RetrieverFailure) and not error.final),
            reraise=True,
        )
        try:
            return attempts(lambda: read_reply(self._post(body, asked, end), asked, k))
        except RetrieverFailure as failure:
            raise RetrieverFailure(
                f"the retriever at {self.url} failed: {failure} (tried {attempts.statistics['attempt_number']} times); "
                "see that it runs and speaks Search-R1's /retrieve",
                final=True,
            ) from failure

    def _post(self, body: dict[str, Any], asked: int, end: float) -> bytes:
        """One request; the bytes of its reply."""
        limit = asked * MAX_REPLY_BYTES
        try:
            status, content = wait_for(self._exchange(json.dumps(body), limit, end - time.monotonic()))
        except TimeoutError as error:
            raise RetrieverFailure(f"no reply within {self.deadline_seconds:g} s") from error
        except httpx.HTTPError as error:
            raise RetrieverFailure(f"{type(error).__name__}: {error}") from error
        if len(content) > limit:
            raise RetrieverFailure(f"its reply is longer than {limit:,} bytes", final=True)
        if status != 200:
            words = content[:200].decode(errors="replace")
            raise RetrieverFailure(f"status {status}, {words!r}", final=status < 500 and status != 429)
        return content

    async def _exchange(self, body: str, limit: int, seconds: float) -> tuple[int, bytes]:
        """Status and content of the reply to one POST; of a longer content, some bytes more than `limit`."""
        parts = urlsplit(self.url)
        url = self.url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/retrieve"
        headers, content = {"Content-Type": "application/json"}, bytearray()
        # httpx's own timeouts are between bytes: a server that sends one now and then would outlast them.
        async with asyncio.timeout(seconds), self._client.stream("POST", url, content=body, headers=headers) as reply:
            async for piece in reply.aiter_bytes():
                content += piece
                if len(content) > limit:
                    break
        return reply.status_code, bytes(content)

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=None)


def read_reply(content: bytes, asked: int, k: int) -> list[list[Hit]]:
    """The hits in a reply to `asked` queries for `k` passages each.

    Raises:
        RetrieverFailure: it is anything else.
    """
    try:
        result = json.loads(content)["result"]
    except (ValueError, RecursionError, KeyError, TypeError, IndexError) as error:
        raise RetrieverFailure(f"its reply of {len(content)} bytes is not JSON with a 'result'") from error
    if not isinstance(result, list) or len(result) != asked:
        raise RetrieverFailure(f"'result' does not have one list for each of {asked} queries")
    if not all(isinstance(found, list) and len(found) <= k for found in result):
        raise RetrieverFailure(f"'result' holds something else than lists of at most {k} passages")
    return [[_hit(item) for item in found] for found in result]


def _hit(item: Any) -> Hit:
    document, score = (item.get("document"), item.get("score")) if isinstance(item, dict) else (None, None)
    id, contents = (document.get("id"), document.get("contents")) if isinstance(document, dict) else (None, None)
    if not isinstance(contents, str) or not isinstance(id, str | int) or not _is_number(score):
        raise RetrieverFailure(f"{item!r:.120} is not a document with id, contents and a score")
    return Hit(Passage(str(id), contents), float(score))


def _is_number(score: Any) -> TypeGuard[float]:
    return isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < MAX_SCORE


def _check_address(url: str) -> None:
    if "@" in url:  # also where a password is not written as an address wants it
        raise ValueError("the retriever's address holds a password; expected one without")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(
            f"the retriever's address is {url!r}; expected something like 'http://127.0.0.1:8000/retrieve'"
        )
