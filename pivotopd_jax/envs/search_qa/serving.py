"""A retrieval server, in the words of Search-R1 and of verl-agent: POST /retrieve.

Left out on purpose: authentication and TLS. It is meant for the loopback address or a private network.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pivotopd_jax.envs.search_qa.retrieval import Hit, Retriever

MAX_BODY_BYTES = 1_000_000
MAX_QUERIES = 1_024
MAX_TOP_K = 100
IDLE_SECONDS = 30.0
DEFAULT_TOP_K = 3


class BadRequest(Exception):
    """What was asked is not a request for passages; says what was expected."""


class RetrievalServer(ThreadingHTTPServer):
    """Serves one retriever, a thread a connection.

    Attributes:
        retriever: what answers.
    """

    daemon_threads = True

    def __init__(self, retriever: Retriever, host: str = "127.0.0.1", port: int = 0) -> None:
        """Binds the address; port 0 takes a free one. `serve_forever` serves.

        Raises:
            OSError: the address is taken.
        """
        super().__init__((host, port), _Handler)
        self.retriever = retriever

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/retrieve"


def answer(retriever: Retriever, body: Any) -> dict[str, Any]:
    """The reply to one request, as JSON.

    Args:
        retriever: what is asked.
        body: `queries` or a single `query`, with `topk` and `return_scores`.

    Raises:
        BadRequest: it is anything else.
    """
    if not isinstance(body, dict) or ("queries" in body) == ("query" in body):
        raise BadRequest("expected a JSON object with either 'queries' or 'query'")
    queries = body["queries"] if "queries" in body else [body["query"]]
    if not isinstance(queries, list) or len(queries) > MAX_QUERIES or not all(isinstance(q, str) for q in queries):
        raise BadRequest(f"expected at most {MAX_QUERIES} queries, each a text")
    k = DEFAULT_TOP_K if body.get("topk") is None else body["topk"]
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_TOP_K:
        raise BadRequest(f"topk is {k!r:.80}; expected 1 to {MAX_TOP_K}")
    scores = bool(body.get("return_scores", False))
    return {"result": [[_document(hit, scores) for hit in found] for found in retriever.search(queries, k)]}


def _document(hit: Hit, scores: bool) -> dict[str, Any]:
    document = {"id": hit.passage.id, "contents": hit.passage.contents}
    return {"document": document, "score": hit.score} if scores else document


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    timeout = IDLE_SECONDS
    server: RetrievalServer

    def do_POST(self) -> None:
        if self.path.rstrip("/") != "/retrieve":
            return self._send(404, {"error": f"no {self.path!r:.80} here; expected POST /retrieve"})
        try:
            self._send(200, answer(self.server.retriever, self._body()))
        except BadRequest as error:
            self._send(400, {"error": str(error)})

    def _body(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            raise BadRequest(f"Content-Length is {length!r:.80}; expected at most {MAX_BODY_BYTES}")
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise BadRequest("the body is not JSON") from None

    def _send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing of the requests it serves."""
