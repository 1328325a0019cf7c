"""Replies kept on disk under the content of their requests, so that a run that goes on asks nothing twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pivotopd_jax.files import write_json


def content_address(request: Mapping[str, Any]) -> str:
    """The same for equal JSON, in whatever order its keys come: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


class ReplyCache:
    """Maps requests to replies, both JSON.

    A file is written beside its place and then renamed: an interrupted run leaves whole files only, and many processes
    may share a directory.

    Attributes:
        directory: where the files lie, one a reply; made when the first is kept.
    """

    def __init__(self, directory: Path):
        self.directory = directory

    def get(self, request: Mapping[str, Any]) -> Any | None:
        """The reply kept for `request`; None if there is none, or if its file is damaged (it is then asked again)."""
        try:
            return json.loads(self._path(request).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError, RecursionError):
            return None

    def put(self, request: Mapping[str, Any], reply: Any) -> None:
        """Keeps `reply`, in place of an earlier one.

        Raises:
            OSError: it cannot be written.
        """
        write_json(self._path(request), reply)

    def _path(self, request: Mapping[str, Any]) -> Path:
        name = content_address(request)
        return self.directory / name[:2] / f"{name[2:]}.json"
