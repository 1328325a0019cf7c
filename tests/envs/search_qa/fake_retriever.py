"""A scripted retrieval server on the loopback address. Every fault can be put into its script."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from background_server import running


@dataclass(frozen=True)
class Answer:
    """What is sent.

    Attributes:
        body: JSON, or bytes sent as they are.
        status: of HTTP.
        wait: seconds before it is sent.
        drip: seconds between its bytes; 0 sends them at once.
        hang_up: close the connection instead.
    """

    body: Any = None
    status: int = 200
    wait: float = 0.0
    drip: float = 0.0
    hang_up: bool = False


@dataclass
class FakeRetriever:
    """Its script and what it was asked.

    Attributes:
        answers: given in turn; the last one again and again.
        asked: bodies of requests.
        paths: of requests.
    """

    answers: deque[Answer]
    url: str = ""
    asked: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def serving(*answers: Answer) -> Iterator[FakeRetriever]:
    """Serves the script until the block ends."""
    fake, stopping = FakeRetriever(deque(answers)), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            fake.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            fake.paths.append(self.path)
            answer = fake.answers.popleft() if len(fake.answers) > 1 else fake.answers[0]
            stopping.wait(answer.wait)
            if answer.hang_up:
                return
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self._send(content, answer.drip)

        def _send(self, content: bytes, drip: float) -> None:
            try:
                for start in range(0, len(content), 1 if drip else len(content) or 1):
                    self.wfile.write(content[start : start + 1] if drip else content)
                    self.wfile.flush()
                    if stopping.wait(drip):
                        return
            except OSError:
                return  # the client has gone

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    with running(server):
        try:
            yield fake
        finally:
            stopping.set()


def item(id: Any = "1", contents: Any = '"A"\nb', score: Any = 1.5) -> dict[str, Any]:
    """One passage of a result, as Search-R1 sends it."""
    return {"document": {"id": id, "contents": contents}, "score": score}
