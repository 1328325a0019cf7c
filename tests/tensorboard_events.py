"""Reads the scalars of TensorBoard's event files, with what tensorboardX brings."""

from __future__ import annotations

from pathlib import Path

from tensorboardX.proto.event_pb2 import Event  # type: ignore[attr-defined]


def scalars(directory: Path) -> dict[tuple[str, int], float]:
    """Every scalar by name and step; a record is its length in 8 bytes, 4 of a checksum, its content, and 4 more."""
    found: dict[tuple[str, int], float] = {}
    for path in sorted(directory.iterdir()):
        data, at = path.read_bytes(), 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 8], "little")
            event = Event.FromString(data[at + 12 : at + 12 + length])
            found |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
            at += 16 + length
    return found
