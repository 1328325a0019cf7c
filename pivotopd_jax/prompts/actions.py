"""Reading an action out of a response. A response is untrusted text."""

from __future__ import annotations

import re

CUT = "\0"
"""Stands where a thinking part was; no action may hold it, nor does one that the student may give by other means."""

_THINK = re.compile(r"<think>.*?</think>", re.DOTALL)
_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)
MAX_ACTION_CHARACTERS = 400


def format_action(action: str) -> str:
    """The shortest response that carries `action` out."""
    return f"<action>{action}</action>"


def without_thinking(response: str) -> str | None:
    """What `response` says outside its thinking parts, each of which leaves a `CUT`: what stood around it stays apart.

    Returns:
        None where a thinking part is not whole.
    """
    spoken = _THINK.sub(CUT, response)
    return None if "<think>" in spoken or "</think>" in spoken else spoken


def is_one_line(action: str) -> bool:
    """Whether `action` is one line that is not empty, of at most `MAX_ACTION_CHARACTERS`, without a `CUT`."""
    return len(action.splitlines()) == 1 and len(action) <= MAX_ACTION_CHARACTERS and CUT not in action


def parse_action(response: str) -> str | None:
    """The one action of `response`: exactly one `<action>..</action>` outside the thinking part, on one line.

    Returns:
        The action with outer white space removed; None when there is none, more than one, or a malformed one.
    """
    spoken = without_thinking(response)
    if spoken is None or spoken.count("<action>") != 1 or spoken.count("</action>") != 1:
        return None
    found = _ACTION.search(spoken)
    action = found[1].strip() if found else ""
    return action if is_one_line(action) else None


def normalise(action: str) -> str:
    """Lower case with white space collapsed: the form in which two actions are compared."""
    return " ".join(action.lower().split())


def is_mismatch(action: str | None, gold: str) -> bool:
    """The mismatch check: no parsable action, or one that differs from the gold action (arXiv 2609.40285)."""
    return action is None or normalise(action) != normalise(gold)
