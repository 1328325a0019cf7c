"""What the privileged self-teacher is told, and how we notice when a response gives it away.

A hint is appended to the end of the user turn. It must never reach a prompt that is trained under.
"""

from __future__ import annotations

import re

HINT_OPENING = "\nA reasonable approach at this step: "
HINT_CLOSING = ". Reason from scratch in your own style; neither mention nor quote this."
LESSON_OPENING = "\nA lesson that applies here: "
REFLECTION = "\nSomething went wrong near this step. Think again about what the task needs before you act."
PRIVILEGED_MARKERS = (HINT_OPENING.strip(), LESSON_OPENING.strip(), REFLECTION.strip())

LEAK_PATTERNS = (
    r"\bhint(s|ed)?\b",
    r"\bsuggest(s|ed|ion|ions)\b",
    r"\b(provided|given|named|recommended) (approach|action|step)\b",
    r"\breasonable approach\b",
    r"\bas (I was )?(told|instructed|advised)\b",
)
"""Phrases by which a response acknowledges its hint; matched without regard to case."""

_LEAK = re.compile("|".join(LEAK_PATTERNS), re.IGNORECASE)


def action_hint(action: str) -> str:
    """h(a): names `action` as a reasonable approach and asks for own reasoning (arXiv 2609.40285, hinted context)."""
    return f"{HINT_OPENING}{action}{HINT_CLOSING}"


def lesson_hint(lesson: str) -> str:
    """The hint text of a lesson without a gold action."""
    return f"{LESSON_OPENING}{lesson}{HINT_CLOSING}"


def leaks_hint(response: str) -> bool:
    """Whether `response` acknowledges that it was hinted."""
    return _LEAK.search(response) is not None


def is_privileged(text: str) -> bool:
    """Whether `text` holds a hint, and so must not be a training prompt."""
    return any(marker in text for marker in PRIVILEGED_MARKERS)
