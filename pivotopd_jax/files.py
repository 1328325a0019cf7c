"""Files that are whole or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(path: Path, content: Any, **options: Any) -> None:
    """Writes `content` as JSON and replaces `path` only when all is written; `options` are those of `json.dumps`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(content, **options))
    temporary.replace(path)
