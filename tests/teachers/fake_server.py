"""A scripted OpenAI-compatible server on the loopback address. Every fault can be put into its script."""

from __future__ import annotations

import json
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from background_server import running

CHAT, COMPLETIONS, MODELS, TOKENIZE = "/v1/chat/completions", "/v1/completions", "/v1/models", "/tokenize"


@dataclass(frozen=True)
class Answer:
    """What is sent back in place of the ordinary answer.

    Attributes:
        status: of HTTP.
        body: JSON, or bytes sent as they are.
        wait: seconds before it is sent.
        hang_up: close the connection instead.
    """

    status: int = 200
    body: Any = None
    wait: float = 0.0
    hang_up: bool = False


def chat(words: Any, finish_reason: str = "stop") -> dict[str, Any]:
    """A chat completion."""
    return {"choices": [{"message": {"role": "assistant", "content": words}, "finish_reason": finish_reason}]}


def log_prob(token: int) -> float:
    """What the ordinary server gives a token: exact in binary."""
    return -(token % 8) / 4


def prompt_logprobs(prompt: list[int]) -> list[Any]:
    return [None, *({str(t): {"logprob": log_prob(t), "rank": 1}} for t in prompt[1:])]


@dataclass
class FakeServer:
    """Its script, and what it was asked.

    Attributes:
        words: the reply to a chat request, from its body.
        tokens: of a text, for /tokenize.
        models: served.
        structured: holds replies to `structured_outputs` (of which it knows "choice").
        strict: refuses fields that OpenAI's interface does not have.
        once: for each path, answers to be given first, one a request.
        always: for each path, the answer to every request, once `once` is used up.
        asked: (path, body) of all requests.
        headers: of all requests, in the same order.
        most_at_once: requests that were under way together.
    """

    words: Callable[[dict[str, Any]], Any] = lambda body: "nothing"
    tokens: Callable[[str], list[int]] = lambda text: list(text.encode())
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "teacher", "max_model_len": 32768}])
    structured: bool = False
    strict: bool = False
    once: dict[str, deque[Answer]] = field(default_factory=lambda: defaultdict(deque))
    always: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def bodies(self, path: str) -> list[Any]:
        return [body for asked, body in self.asked if asked == path]

    def answer(self, path: str, body: Any, headers: dict[str, str]) -> Answer:
        with self._lock:
            self.asked.append((path, body))
            self.headers.append(headers)
            if self.once[path]:
                return self.once[path].popleft()
        return self.always.get(path) or self._ordinary(path, body)

    @contextmanager
    def counted(self) -> Iterator[None]:
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        yield
        with self._lock:
            self._now -= 1

    def _ordinary(self, path: str, body: Any) -> Answer:
        if path == MODELS:
            return Answer(body={"data": self.models})
        if path == TOKENIZE:
            return Answer(body={"tokens": self.tokens(body["prompt"])})
        if path == COMPLETIONS:
            return Answer(body={"choices": [{"prompt_logprobs": prompt_logprobs(body["prompt"])}]})
        if path != CHAT:
            return Answer(404, {"error": {"message": "no such path"}})
        extra = {"structured_outputs", "chat_template_kwargs"} & body.keys()
        if self.strict and extra:
            return Answer(400, {"error": {"message": f"unknown fields {sorted(extra)}"}})
        choice = body.get("structured_outputs", {}).get("choice")
        return Answer(body=chat(choice[0] if choice and self.structured else self.words(body)))


def _handler(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Tests print nothing."""

        def do_GET(self) -> None:
            self._reply(None)

        def do_POST(self) -> None:
            self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _reply(self, body: Any) -> None:
            with fake.counted():
                answer = fake.answer(self.path, body, {k.lower(): v for k, v in self.headers.items()})
                if answer.wait:
                    stopping.wait(answer.wait)
            if answer.hang_up or stopping.is_set():  # a kept connection outlives the server
                self.close_connection = True
                return
            sent = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            try:
                self.send_response(answer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)
            except OSError:  # the client gave up waiting
                self.close_connection = True

    stopping = threading.Event()
    Handler.stopping = stopping  # type: ignore[attr-defined]
    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # of connections that wait; the default of 5 turns a burst of calls away

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def serving(fake: FakeServer, port: int = 0) -> Iterator[FakeServer]:
    """Serves until the block ends, at `fake.url`."""
    handler = _handler(fake)
    server = _Server(("127.0.0.1", port), handler)
    fake.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    with running(server):
        try:
            yield fake
        finally:
            handler.stopping.set()  # type: ignore[attr-defined]
