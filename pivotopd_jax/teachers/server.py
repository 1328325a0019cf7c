"""One OpenAI-compatible server: many calls at once up to a bound, each with a deadline and bounded retries.

What a server sends is untrusted: it is read here as JSON and nothing more; what the JSON means is for others to check.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from pivotopd_jax.background import wait_for

MAX_WORDS = 300
SHORTEST_KEY = 8
"""Characters of a key that is a secret."""

# Which account the user's environment names is for OpenAI alone to know.
_ANONYMOUS: Any = {"headers": {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}}


class CallFailed(Exception):
    """One call came to nothing.

    Attributes:
        kind: "timeout", "unreachable", "overloaded" (429), "server_error" (5xx), "garbled" (no JSON) or "refused"
            (any other status). All but the last are worth another try.
        words: why, at most 300 characters, without the key.
    """

    def __init__(self, kind: str, words: str):
        super().__init__(f"{kind}: {words}")
        self.kind, self.words = kind, words


@dataclass(frozen=True)
class Call:
    """One request.

    Attributes:
        path: "/chat/completions", or a whole URL.
        body: JSON to post; None for a GET.
    """

    path: str
    body: dict[str, Any] | None = None


@dataclass
class Server:
    """A server at one address; any number of threads may use it.

    Attributes:
        base_url: up to and including "/v1".
        model: name under which it serves the teacher.
        api_key: never shown; "" where the server wants none.
        deadline_seconds: longest one call may take, waiting for its turn and retries included.
        concurrency: calls under way at once, whoever sent them.
        retries: further tries after the first.
        retry_seconds: upper end of the first random wait before another try; it doubles each time.
        retried: tries beyond the first since the start.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    deadline_seconds: float = 120.0
    concurrency: int = 64
    retries: int = 3
    retry_seconds: float = 1.0
    retried: int = 0

    def __post_init__(self):
        check_address(self.base_url)
        if self.concurrency < 1 or self.retries < 0 or self.deadline_seconds <= 0:
            raise ValueError(
                f"config.teacher has concurrency {self.concurrency}, retries {self.retries} and deadline_seconds "
                f"{self.deadline_seconds}; expected at least 1, at least 0 and more than 0"
            )

    @property
    def root(self) -> str:
        """The address without "/v1": where vLLM keeps what OpenAI's interface does not have."""
        return self.base_url.rstrip("/").removesuffix("/v1")

    def send(self, calls: Sequence[Call], arrived: Callable[[int, Any], None] | None = None) -> list[Any]:
        """Sends all calls and waits for them, no longer than `deadline_seconds`.

        Args:
            calls: in any number.
            arrived: told of each JSON, with the index of its call, as it comes in.

        Returns:
            For each call the JSON that came back, or its `CallFailed`; nothing is raised for a call that fails.
        """
        return wait_for(self._send(calls, arrived)) if calls else []

    async def _send(self, calls: Sequence[Call], arrived: Callable[[int, Any], None] | None) -> list[Any]:
        async def told(index: int, call: Call) -> Any:
            reply = await self._within_deadline(call)
            if arrived is not None and not isinstance(reply, CallFailed):
                arrived(index, reply)
            return reply

        return await asyncio.gather(*(told(index, call) for index, call in enumerate(calls)))

    @cached_property
    def _gate(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self.concurrency)

    @cached_property
    def _client(self) -> openai.AsyncOpenAI:
        # Without a key of its own the client would take OPENAI_API_KEY, which is meant for another server.
        return openai.AsyncOpenAI(
            base_url=self.base_url, api_key=self.api_key or "none", max_retries=0, timeout=self.deadline_seconds
        )

    async def _within_deadline(self, call: Call) -> Any:
        try:
            async with asyncio.timeout(self.deadline_seconds), self._gate:
                return await self._with_retries(call)
        except TimeoutError:
            return CallFailed("timeout", f"no reply within {self.deadline_seconds:g} s, retries included")
        except CallFailed as failure:
            return failure

    async def _with_retries(self, call: Call) -> Any:
        attempts = AsyncRetrying(
            stop=stop_after_attempt(1 + self.retries),
            wait=wait_random_exponential(multiplier=self.retry_seconds, max=30),
            retry=retry_if_exception(lambda error: isinstance(error, CallFailed) and error.kind != "refused"),
            before_sleep=self._count_retry,
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                return await self._once(call)
        raise AssertionError("the last attempt returns or raises")

    def _count_retry(self, _: RetryCallState) -> None:
        self.retried += 1

    async def _once(self, call: Call) -> Any:
        try:
            if call.body is None:
                text = await self._client.get(call.path, cast_to=str, options=_ANONYMOUS)
            else:
                text = await self._client.post(call.path, cast_to=str, options=_ANONYMOUS, body=call.body)
        except openai.OpenAIError as error:
            # The client's own exceptions hold the request, and with it the key.
            raise CallFailed(_kind(error), self._without_key(str(error))) from None
        # What a server says is kept, and might repeat what it was told. "EMPTY" and the like are words, too.
        return _read_json(self._hidden(text) if len(self.api_key) >= SHORTEST_KEY else text)

    def _without_key(self, words: str) -> str:
        return " ".join(self._hidden(words).split())[:MAX_WORDS]

    def _hidden(self, words: str) -> str:
        return words.replace(self.api_key, "[key]") if self.api_key else words


def check_address(base_url: str) -> None:
    """Refuses an address that cannot be one, or that holds a password.

    Raises:
        ValueError: says what was expected.
    """
    if "@" in base_url:  # also where a password is not written as an address wants it
        raise ValueError(
            "config.teacher.base_url holds a password; name an environment variable in api_key_env instead"
        )
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"config.teacher.base_url is {base_url!r}; expected something like 'http://127.0.0.1:8000/v1'")


def _kind(error: openai.OpenAIError) -> str:
    if isinstance(error, openai.APITimeoutError):
        return "timeout"
    if isinstance(error, openai.APIConnectionError):
        return "unreachable"
    status = error.status_code if isinstance(error, openai.APIStatusError) else 400
    return "overloaded" if status == 429 else "server_error" if status >= 500 else "refused"


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise CallFailed("garbled", f"a body of {len(text)} characters is not JSON") from None
