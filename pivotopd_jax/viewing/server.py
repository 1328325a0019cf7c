"""Serves the reading room of a run: a page, its index, single trajectories and search, all of it read-only.

The page asks nobody but this server, and this server answers nobody but the user. It listens on this machine unless
told otherwise, and refuses requests that name another host: a web page might have pointed its own name here.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pivotopd_jax.viewing.log import OCCASIONS, TrajectoryLog

PAGES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    **{f"/{name}": (name, "text/javascript; charset=utf-8") for name in ("viewer.js", "turns.js", "text.js")},
    "/style.css": ("style.css", "text/css; charset=utf-8"),
}
MOST_FOUND = 1000
LONGEST_QUERY = 200
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def static(name: str) -> str:
    """The text of a file of the page."""
    return (resources.files("pivotopd_jax.viewing") / "static" / name).read_text(encoding="utf-8")


def make_server(log: TrajectoryLog, host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
    """A server of `log`, listening but not yet answering; port 0 takes a free one.

    Raises:
        ValueError: it cannot listen there.
    """

    class Handler(_Handler):
        pass

    Handler.log, Handler.host = log, host
    try:
        family = ipaddress.ip_address(host).version if _is_address(host) else 4
        server_class = _Server6 if family == 6 else _Server
        return server_class((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise ValueError(f"cannot listen on {host}, port {port}: {error}; choose another --port or --host") from None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A browser that no longer wants an answer is no news.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Server6(_Server):
    address_family = socket.AF_INET6


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_own_name(header: str | None, host: str) -> bool:
    """Whether a Host header names this server: as an address, as localhost, or as the name that it was told.

    Rebinding needs a name of the attacker's own, which is none of these.
    """
    if not header:
        return False
    try:
        named = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    return named in ("localhost", host.lower()) or _is_address(named)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def index(log: TrajectoryLog) -> dict[str, Any]:
    """All that the list of the page needs, in columns; strings that come often are given once."""
    tasks: dict[str, int] = {}
    kinds: dict[str, int] = {}
    rows = []
    for number, file in enumerate(log.files.values()):
        for e in file.entries:
            task, kind = tasks.setdefault(e.task, len(tasks)), kinds.setdefault(e.kind, len(kinds))
            rows.append((number, e.line, task, kind, e.group, int(e.won), e.score, e.turns, e.pivotal, e.recoveries))
    return {
        "run": log.directory.resolve().name,
        "files": [{"name": f.name, "occasion": OCCASIONS[f.occasion], "step": f.step} for f in log.files.values()],
        "tasks": list(tasks),
        "kinds": list(kinds),
        "rows": rows,
        "problems": [str(problem) for file in log.files.values() for problem in file.problems][:MOST_FOUND],
    }


class _Handler(BaseHTTPRequestHandler):
    log: TrajectoryLog
    host: str
    timeout = 30
    server_version = "pivotopd_jax"
    sys_version = ""

    def do_GET(self) -> None:
        if not is_own_name(self.headers.get("Host"), self.host):
            return self._error(
                HTTPStatus.MISDIRECTED_REQUEST,
                "this Host is not known here; open the page by its address, or start with --host=NAME",
            )
        address = urlsplit(self.path)
        if address.path in PAGES:
            name, kind = PAGES[address.path]
            return self._answer(HTTPStatus.OK, static(name).encode(), kind)
        routes = {"/api/index": self._index, "/api/trajectory": self._trajectory, "/api/search": self._search}
        if address.path not in routes:
            return self._error(HTTPStatus.NOT_FOUND, "there is nothing at this address")
        try:
            query = {key: values[-1] for key, values in parse_qs(address.query, max_num_fields=8).items()}
            self._json(HTTPStatus.OK, routes[address.path](query))
        except KeyError as error:
            self._error(HTTPStatus.NOT_FOUND, str(error.args[0]))
        except ValueError as error:
            self._error(HTTPStatus.BAD_REQUEST, str(error))

    def _index(self, query: dict[str, str]) -> Any:
        self.log.refresh()
        return index(self.log)

    def _trajectory(self, query: dict[str, str]) -> Any:
        line = query.get("line", "")
        if not line.isdecimal():
            raise ValueError("expected ?file=NAME&line=NUMBER")
        return self.log.read(query.get("file", ""), int(line))

    def _search(self, query: dict[str, str]) -> Any:
        text = query.get("text", "")
        if not 0 < len(text) <= LONGEST_QUERY:
            raise ValueError(f"expected ?text= of 1 to {LONGEST_QUERY} characters")
        found, complete = self.log.search(text, MOST_FOUND)
        return {"found": found, "complete": complete}

    def _json(self, status: HTTPStatus, content: Any) -> None:
        self._answer(status, json.dumps(content, separators=(",", ":"), allow_nan=False).encode(), "application/json")

    def _error(self, status: HTTPStatus, message: str) -> None:
        self._json(status, {"error": message})

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: requests are the user's own."""
