"""Files that are whole or not there."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any


def write_json(path: Path, content: Any, **options: Any) -> None:
    """Writes `content` as JSON and replaces `path` only when all is written; `options` are those of `json.dumps`.

    Any number of processes may write the same file: the last one stands.
    """
    text = json.dumps(content, **options)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
