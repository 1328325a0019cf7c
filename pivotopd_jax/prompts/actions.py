"""Reading an action out of a response. A response is untrusted text."""

from __future__ import annotations

import re

_THINK = re.compile(r"<think>.*?</think>", re.DOTALL)
_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)
MAX_ACTION_CHARACTERS = 400


def format_action(action: str) -> str:
    """The shortest response that carries `action` out."""
    return f"<action>{action}</action>"


def parse_action(response: str) -> str | None:
    """The one action of `response`: exactly one `<action>..</action>` outside the thinking part, on one line.

    Returns:
        The action with outer white space removed; None when there is none, more than one, or a malformed one.
    """
    spoken = _THINK.sub("", response)
    if "<think>" in spoken or "</think>" in spoken:
        return None
    found = _ACTION.findall(spoken)
    if len(found) != 1 or spoken.count("<action>") != 1 or spoken.count("</action>") != 1:
        return None
    action = found[0].strip()
    return action if action and "\n" not in action and len(action) <= MAX_ACTION_CHARACTERS else None


def normalise(action: str) -> str:
    """Lower case with white space collapsed: the form in which two actions are compared."""
    return " ".join(action.lower().split())


def is_mismatch(action: str | None, gold: str) -> bool:
    """The mismatch check: no parsable action, or one that differs from the gold action (arXiv 2609.40285)."""
    return action is None or normalise(action) != normalise(gold)
