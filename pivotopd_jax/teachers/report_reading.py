"""Reads what a teacher answered. A reply is untrusted text: nothing in it can raise, or lead out of the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from pivotopd_jax.prompts.actions import MAX_ACTION_CHARACTERS, normalise, parse_action
from pivotopd_jax.teachers.plain_words import is_plain, one_line
from pivotopd_jax.teachers.protocol import Remark, Report

MAX_REPLY_CHARACTERS = 100_000
MAX_WORDS_BYTES = 1000

# [0-9], not \d: int() and \d know the digits of every script, and a step is written in one way only.
_STEP = re.compile(r"0|[1-9][0-9]{0,5}")
_STEP_ATTRIBUTE = re.compile(r"""\s{1,9}step\s?=\s?(?P<quote>["']?)(?P<step>[0-9]{1,6})(?P=quote)\s?""")
_FENCE, _OPEN_TAG, _CLOSE_TAG = "```", "<correct_action", "</correct_action>"


@dataclass(frozen=True)
class Wanted:
    """What a report was asked for; whatever goes beyond it does not count.

    Attributes:
        steps: those that the teacher was shown, 0-based.
        max_actions: most gold actions.
        lessons: whether lessons count.
        words_bytes: longest lesson or action, in bytes of UTF-8: it has to fit into a hint. An action that is longer
            does not count, a lesson is cut.
    """

    steps: Collection[int]
    max_actions: int
    lessons: bool
    words_bytes: int


def read_report(reply: str, wanted: Wanted) -> Report | None:
    """The report in `reply`.

    One JSON object {episode_summary, episode_lesson, step_lessons{index: text}}, fenced or, as structured outputs
    send it, bare; and gold actions as `<correct_action step="N">..</correct_action>` outside of it, or in its list
    `correct_actions` of {step, action}. Steps are 0-based. A step that is given two different actions is given none;
    of more actions than wanted the first count. Where no action is named only the lesson of the episode counts.

    Returns:
        None where there is no such object, or more than one: then nothing counts.
    """
    spoken = _spoken(reply)
    found = _only_object(spoken) if spoken is not None else None
    if found is None:
        return None
    record, around = found
    gold = _gold([*_tagged(around), *_listed(record.get("correct_actions"))], wanted)
    lessons = _step_lessons(record.get("step_lessons"), wanted) if gold and wanted.lessons else {}
    remarks = tuple(Remark(step, gold.get(step), lessons.get(step)) for step in sorted({*gold, *lessons}))
    lesson = one_line(record.get("episode_lesson"), wanted.words_bytes) if wanted.lessons else None
    return Report(remarks, lesson, one_line(record.get("episode_summary"), MAX_WORDS_BYTES))


def read_action(reply: str, words_bytes: int) -> str | None:
    """The one action of `reply`: `<action>..</action>`, or the "action" of a bare JSON object."""
    spoken = _spoken(reply)
    if spoken is None:
        return None
    record = _object(spoken)
    return _action(parse_action(spoken) if record is None else record.get("action"), words_bytes)


def _spoken(reply: str) -> str | None:
    """`reply` after its thinking part; None where that never ends, or where the reply is too long to be one."""
    if len(reply) > MAX_REPLY_CHARACTERS:
        return None
    spoken = reply.rpartition("</think>")[2]
    return None if "<think>" in spoken else spoken.strip()


def _only_object(spoken: str) -> tuple[dict[str, Any], str] | None:
    """The one JSON object of `spoken`, and the text around it."""
    bare = _object(spoken)
    if bare is not None:
        return bare, ""
    pieces = spoken.split(_FENCE)
    if len(pieces) % 2 == 0:  # a fence is still open
        return None
    fenced = [body for piece in pieces[1::2] if (body := piece.removeprefix("json").strip()).startswith("{")]
    record = _object(fenced[0]) if len(fenced) == 1 else None
    return None if record is None else (record, "\n".join(pieces[::2]))


def _object(text: str) -> dict[str, Any] | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _tagged(text: str) -> Iterator[tuple[int, object]]:
    """(step, action) of each whole `<correct_action>`; cut up by hand, since a pattern could take quadratic time."""
    for piece in text.split(_OPEN_TAG)[1:]:
        head, _, rest = piece.partition(">")
        body, closed, _ = rest.partition(_CLOSE_TAG)
        step = _STEP_ATTRIBUTE.fullmatch(head)
        if step and closed:
            yield int(step["step"]), parse_action(body) if "<action>" in body else body


def _listed(items: object) -> Iterator[tuple[int, object]]:
    """(step, action) of each well-formed item; True is an int to Python, and no step."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and type(item.get("step")) is int:
            yield item["step"], item.get("action")


def _gold(named: Collection[tuple[int, object]], wanted: Wanted) -> dict[int, str]:
    gold: dict[int, str] = {}
    contradicted: set[int] = set()
    for step, words in named:
        action = _action(words, wanted.words_bytes)
        if action is None or step not in wanted.steps:
            continue
        if normalise(gold.setdefault(step, action)) != normalise(action):
            contradicted.add(step)
    sound = [step for step in gold if step not in contradicted]
    return {step: gold[step] for step in sound[: wanted.max_actions]}


def _step_lessons(lessons: object, wanted: Wanted) -> dict[int, str]:
    read: dict[int, str] = {}
    for key, words in lessons.items() if isinstance(lessons, dict) else ():
        step = int(key) if _STEP.fullmatch(key) else None
        lesson = one_line(words, wanted.words_bytes)
        if step in wanted.steps and step is not None and lesson is not None:
            read[step] = lesson
    return read


def _action(words: object, words_bytes: int) -> str | None:
    """`words` as an action that can be said and hinted as it is; never cut, since half is another action."""
    action = words.strip() if isinstance(words, str) else ""
    fits = 0 < len(action) <= MAX_ACTION_CHARACTERS and is_plain(action) and len(action.encode()) <= words_bytes
    return action if fits and "<action>" not in action and "</action>" not in action else None
