"""Replies kept on disk under the content of their requests, so that a run that goes on asks nothing twice."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


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
        path = self._path(request)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".new")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(reply, file)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def _path(self, request: Mapping[str, Any]) -> Path:
        name = content_address(request)
        return self.directory / name[:2] / f"{name[2:]}.json"
