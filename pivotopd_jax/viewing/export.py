"""Trajectories as chats, one JSON object a line, for other viewers and programs; docs/viewing.md has the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pivotopd_jax.viewing.log import OCCASIONS, Entry, LogFile, TrajectoryLog

NOTED = ("action", "accepted", "actor", "log_prob", "gold_action", "lesson", "pivotal", "named", "reward_advantage")
"""What is passed on of a turn, if it is there."""


def export(log: TrajectoryLog, path: Path) -> int:
    """Writes all trajectories of `log` that can be read to `path`; returns how many these are."""
    count = 0
    with path.open("w", encoding="ascii") as file:
        for place in log.records():
            file.write(json.dumps(chat(log.directory.resolve().name, *place)) + "\n")
            count += 1
    return count


def chat(run: str, file: LogFile, entry: Entry, record: Mapping[str, Any]) -> dict[str, Any]:
    """One trajectory: observations as the user's messages, responses as the assistant's."""
    recoveries = [
        {"after": branch.get("after"), "messages": [*_messages(branch["turns"]), _shown(branch.get("final"))]}
        for branch in record.get("recoveries", [])
    ]
    return {
        "id": f"{run}/{file.name}/{entry.line}",
        "run": run,
        "occasion": OCCASIONS[file.occasion],
        "step": file.step,
        **{key: record.get(key) for key in ("task", "kind", "group", "won", "score")},
        "messages": [*_messages(record["turns"]), _shown(record.get("final"))],
        "recoveries": recoveries,
    }


def _messages(turns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for turn in turns:
        yield _shown(turn.get("observation"))
        noted = {key: turn[key] for key in NOTED if key in turn}
        yield {"role": "assistant", "content": turn.get("response"), "metadata": noted}


def _shown(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}
