"""Broken documents for fuzzing: a good one with a few things wrong, as JSON or as bytes; and what its reader may do.

FUZZ_TIMES=100 makes every test of this folder run a hundred times its usual number of examples, drawn anew.
"""

from __future__ import annotations

import copy
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

Read = TypeVar("Read")

TIMES = int(os.environ.get("FUZZ_TIMES", "0"))
CPU_SECONDS = 20.0
"""Most that one example may take, in seconds of this process: waiting, or a busy machine, does not count."""
LONGEST_MESSAGE = 10_000
"""Characters: a name that is as long as that may be repeated, the content of a file may not."""

DEEP = "\ue000deep"
"""Stands for more brackets than a parser will follow, until the document is text."""

NUMBERS = (0, -1, 1, 3, 0.5, -0.0, 1e308, float("nan"), float("inf"), -float("inf"), 2**31, 2**63, -(2**64), 10**400)
TEXTS = (
    "", " ", "\n", "\x00", "a\nb", "\ud800", "\u2028", "\u202e", "𝕏é", "-", "../../x", "/", "1e999", "[", "{", "%s{0}",
    "x" * 3000,
)  # fmt: skip
ODD: tuple[Any, ...] = (
    *NUMBERS, *TEXTS, None, True, False, [], {}, [[]], [None], {"": {}}, {"a": [1, "b"]}, [1, "a", None, {}], DEEP,
)  # fmt: skip
"""Values that a field of a document may be given instead of its own."""


def fuzz(examples: int) -> settings:
    """The same `examples` in every run; or, with FUZZ_TIMES, so many times more, and others each time."""
    return settings(
        max_examples=examples * max(TIMES, 1), derandomize=not TIMES, deadline=None, database=None, print_blob=True,
        suppress_health_check=[*HealthCheck],  # type: ignore[arg-type]
    )  # fmt: skip


def read_or_refused(reader: Callable[[], Read], *errors: type[Exception]) -> Read | None:
    """What `reader` returns; None if it raised one of exactly these `errors`, with a message of one line.

    Anything else that it raises fails the test, and so does more than `CPU_SECONDS`.
    """
    with _no_hang():
        try:
            return reader()
        except errors as error:
            refusal = error
    assert type(refusal) in errors, f"{type(refusal).__name__} instead of {errors}: {refusal}"
    message = str(refusal)
    assert message.strip()
    assert len(message.splitlines()) == 1, message
    assert len(message) <= LONGEST_MESSAGE, f"a message of {len(message)} characters: {message[:200]}"
    return None


@contextmanager
def _no_hang() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise AssertionError(f"it took more than {CPU_SECONDS:g} s of this process")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything in `value`, containers before what they hold."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


@st.composite
def broken(draw: st.DrawFn, document: Any, most: int = 3) -> Any:
    """`document` of JSON with up to `most` things wrong: a part missing, doubled, renamed, or of another type."""
    whole = [copy.deepcopy(document)]
    for _ in range(draw(st.integers(0, most))):
        places = list(_places(whole))
        container, key = places[draw(st.integers(0, len(places) - 1))]
        kind = draw(st.sampled_from(("other", "other", "other", "drop", "double", "more")))
        if kind == "other":
            container[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif kind == "drop" and container is not whole:
            del container[key]
        elif kind == "double" and isinstance(container, list) and container is not whole:
            container.insert(key, copy.deepcopy(container[key]))
        elif isinstance(container, dict):
            container[draw(st.sampled_from(("", "a", "__class__", "\ud800")))] = copy.deepcopy(
                draw(st.sampled_from(ODD))
            )
    return whole[0]


def as_json(document: Any) -> bytes:
    """`document` as JSON; what a parser cannot follow is put in for `DEEP`."""
    deep = "[" * 100_000 + "]" * 100_000
    return json.dumps(document).replace(json.dumps(DEEP), deep).encode()


def as_lines(rows: Any) -> bytes:
    """`rows` as JSON lines."""
    return b"\n".join(map(as_json, rows if isinstance(rows, list) else [rows])) + b"\n"


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """`content` as it was, or cut short, overwritten in places, or in another encoding."""
    kind = draw(st.sampled_from(("whole", "whole", "cut", "bytes", "bytes", "zeros", "twice", "utf-16", "utf-8-sig")))
    if kind == "cut":
        return content[: draw(st.integers(0, max(0, len(content) - 1)))]
    if kind == "bytes":
        changed = bytearray(content)
        for _ in range(draw(st.integers(1, 4)) if changed else 0):
            changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
        return bytes(changed)
    if kind == "zeros":
        at = draw(st.integers(0, len(content)))
        return content[:at] + b"\x00" * draw(st.integers(1, 9)) + content[at:]
    if kind == "twice":
        return content + content
    if kind in ("utf-16", "utf-8-sig"):
        return content.decode("utf-8", "replace").encode(kind)
    return content


def files(document: Any, text: Callable[[Any], bytes] = as_json) -> st.SearchStrategy[bytes]:
    """Contents of a file that should hold `document`."""
    return broken(document).flatmap(lambda changed: damaged(text(changed)))


def words(pieces: Sequence[str], most: int = 12) -> st.SearchStrategy[str]:
    """Texts made of `pieces` and of anything else."""
    return st.lists(st.one_of(st.sampled_from(pieces), st.text(max_size=4)), max_size=most).map("".join)
