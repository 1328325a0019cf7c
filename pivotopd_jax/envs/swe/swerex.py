"""A sandbox behind a server of swe-rex: the repository lies in a container somewhere, in which such a server runs.

It speaks the two requests of swe-rex that it needs, so that the package is not. The container keeps one working tree,
which is set back before each command, one command at a time; processes that are new after a command are ended. Whoever
attacks the server from inside spoils that container, and no other: have one a task.
"""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from pivotopd_jax.envs.swe.boxed import GRACE, TIMED_OUT, OutputReader
from pivotopd_jax.envs.swe.containers import COMMIT, TOP
from pivotopd_jax.envs.swe.sandbox import NO_FILES, SHOWN, Limits, Ran, SandboxUnavailable, Tree

PLACE = "/tmp/pivotopd"

_RUNNER = """
exec 3>&1 2>/dev/null
rm -f /inputs/* && mkdir -p /inputs
for file in $PLACE/*.b64; do name="${file##*/}"; base64 -d "$file" > "/inputs/${name%.b64}"; rm "$file"; done
git reset -q --hard pivotopd-start && git clean -fdxq || exit 1
[ ! -s /inputs/tree ] || git apply --whitespace=nowarn /inputs/tree || exit 1
before=" $(cd /proc && echo [0-9]*) "
timeout -s KILL "$1" setsid -w bash -c "$2" </dev/null >$PLACE/output 2>&1 3>&-
status=$?
for process in $(cd /proc && echo [0-9]*); do
    case "$before" in *" $process "*) ;; *) [ "$process" = $$ ] || kill -KILL "$process" ;; esac
done
git add -A -f && changed="$(git write-tree)" || exit 1
echo "$status" "$(stat -c %s $PLACE/output)"
head -c "$3" $PLACE/output | base64 -w 0; echo
tail -c "$3" $PLACE/output | base64 -w 0; echo
git diff --binary --no-color --no-ext-diff --no-textconv pivotopd-start "$changed" | base64 -w 0
""".replace("$PLACE", PLACE)


class RemoteSandbox:
    """Implements `sandbox.Sandbox` with a server of swe-rex whose container has the repository in `TOP`."""

    start: Tree = b""

    def __init__(
        self, address: str, *, token: str = "", limits: Limits | None = None, breaking: str = "", grace: float = GRACE
    ) -> None:
        """Starts nothing; the server is there.

        Args:
            address: of the server.
            token: its password.
            limits: only the seconds are kept to here.
            breaking: patch that has to be applied to its repository at first; "" for none.
            grace: seconds that it may take beside a command's own.

        Raises:
            ValueError: the address cannot be one, or holds a password.
        """
        _check_address(address)
        self._limits, self._grace = limits or Limits(), grace
        self._client = httpx.Client(base_url=address, headers={"X-API-Key": token} if token else {})
        self._breaking = breaking
        self._busy, self._ready = threading.Lock(), False

    def run(
        self, tree: Tree, command: str, *, seconds: float | None = None, shown: int = SHOWN,
        files: Mapping[str, bytes] = NO_FILES,
    ) -> Ran:  # fmt: skip
        most, started = seconds or self._limits.seconds, time.monotonic()
        with self._busy:
            if not self._ready:
                self._execute(["bash", "-c", COMMIT, "commit", self._breaking], self._grace)
                self._ready = True
            for name, content in {**files, "tree": tree}.items():
                text = base64.b64encode(content).decode()
                self._ask("write_file", {"path": f"{PLACE}/{name}.b64", "content": text}, self._grace)
            line = ["bash", "-c", _RUNNER, "runner", str(most), command, str(4 * shown)]
            answer = self._execute(line, most + self._grace)
        return read_answer(answer, tree, shown, most, time.monotonic() - started)

    def difference(self, tree: Tree) -> bytes:
        return tree

    def _execute(self, line: list[str], seconds: float) -> Mapping[str, Any]:
        return self._ask("execute", {"command": line, "timeout": seconds, "cwd": TOP}, seconds + self._grace)

    def _ask(self, what: str, content: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """One request.

        Raises:
            SandboxUnavailable: the server does not answer, or not as it should.
        """
        try:
            reply = self._client.post(f"/{what}", json=content, timeout=seconds)
            reply.raise_for_status()
            answer = reply.json()
        except (httpx.HTTPError, ValueError) as error:
            raise SandboxUnavailable(
                f"the swe-rex server at {self._client.base_url} failed ({type(error).__name__}: {error}); start it anew"
            ) from error
        if not isinstance(answer, dict):
            raise SandboxUnavailable(f"the swe-rex server at {self._client.base_url} sent no JSON object")
        return answer


def _check_address(address: str) -> None:
    if "@" in address:  # also where a password is not written as an address wants it
        raise ValueError("config.world.server holds a password; set the environment variable SWEREX_TOKEN instead")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"config.world.server leads to {address!r}; expected something like 'http://127.0.0.1:8000'")


def read_answer(answer: Mapping[str, Any], before: Tree, shown: int, most: float, took: float) -> Ran:
    """What a run came to; what the container sent is untrusted."""
    reader = OutputReader(shown)
    try:
        first, head, tail, patch = str(answer["stdout"]).split("\n")
        status, size = map(int, first.split())
        begins, ends, tree = (base64.b64decode(text, validate=True) for text in (head, tail, patch))
    except (KeyError, ValueError, binascii.Error):
        return Ran(reader.output(), -1, before, "lost", took, "its working tree could not be kept")
    left = max(0, size - len(begins))  # what of the output is not in its beginning
    reader.add(begins)
    reader.skip(max(0, left - len(ends)))
    reader.add(ends[max(0, len(ends) - left) :])
    ended = "timeout" if status in TIMED_OUT and took >= most else "ended"
    return Ran(reader.output(), status, before if tree == before else tree, ended, took)
