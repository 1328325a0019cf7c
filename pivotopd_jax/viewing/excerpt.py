"""Turns of a trajectory as HTML without a script, in the look of the reading room."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# What a screen would not show, or would let rearrange or hide the text around it; the same as in viewer.js.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
GREATEST = 1e9
"""An advantage or more than that is taken for a fault of the log."""
LONGEST = 3000
"""Characters of one text that are shown."""


def shown(text: str, longest: int = LONGEST) -> str:
    """`text` as HTML, control characters made visible, and cut after `longest` characters."""
    cut = len(text) - longest
    parts, start = [], 0
    for found in HIDDEN.finditer(text[:longest]):
        parts += [html.escape(text[start : found.start()]), f'<span class="control">{_name(ord(found[0]))}</span>']
        start = found.end()
    parts.append(html.escape(text[start:longest]))
    return "".join(parts) + (f' <span class="quiet">… {cut:,} more characters</span>' if cut > 0 else "")


def _name(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"U+{code:04X}"


def excerpt(record: Mapping[str, Any]) -> str:
    """The pivotal turns of a trajectory, each with the turn before, what came after, and its recovery beside that."""
    turns = record["turns"]
    most = _largest(record)
    branches = record.get("recoveries", [])
    tried = {branch["after"]: branch for branch in branches if isinstance(branch.get("after"), int)}
    parts, last = [], -1
    for number in [i for i, turn in enumerate(turns) if turn.get("pivotal") is True]:
        branch = tried.get(number)
        length = len(branch["turns"]) if branch else 0
        if number <= last:
            continue
        for i in range(max(last + 1, number - 1), number + 1):
            parts.append(_turn(turns[i], i, most))
        after = [_turn(turns[i], i, most) for i in range(number + 1, min(number + 1 + length, len(turns)))]
        recovery = [_recovery(turn, number + 1 + k, most) for k, turn in enumerate(branch["turns"])] if branch else []
        parts += _side_by_side(after, recovery, branch)
        last = number + length
    return f'<div class="turns">{"".join(parts)}</div>'


def _side_by_side(after: Sequence[str], recovery: Sequence[str], branch: Mapping[str, Any] | None) -> Iterator[str]:
    if branch is None:
        yield from after
        return
    yield '<div class="pair columns"><span><b>what happened</b></span><span><b>recovery</b></span></div>'
    then = _text("observation", branch.get("final"))
    end = f'<section class="turn recovery"><header><b>then</b></header>{then}</section>'
    left, right = [*after, ""], [*recovery, end]
    for i in range(max(len(left), len(right))):
        pair = [cards[i] if i < len(cards) and cards[i] else "<div></div>" for cards in (left, right)]
        yield f'<div class="pair">{"".join(pair)}</div>'


def _text(style: str, text: Any) -> str:
    return f'<p class="text {style}">{shown(str(text or ""))}</p>'


def _turn(turn: Mapping[str, Any], number: int, most: float) -> str:
    pivotal = turn.get("pivotal") is True
    badge = '<span class="badge pivotal">pivotal</span>' if pivotal else ""
    gold = ""
    if turn.get("gold_action"):
        title = "the teacher would have done" if pivotal else "the teacher, too:"
        gold = f'<span class="quiet">{title}</span>{_action("gold", turn["gold_action"])}'
    lesson = f'<p class="lesson">{shown(str(turn["lesson"]))}</p>' if turn.get("lesson") else ""
    content = _said(turn, most) + f'<div class="acted">{_acted(turn)}{gold}</div>{lesson}'
    style = "turn pivotal" if pivotal else "turn"
    return f'<section class="{style}"><header><b>turn {number + 1}</b>{badge}</header>{content}</section>'


def _recovery(turn: Mapping[str, Any], number: int, most: float) -> str:
    hinted = f'<span class="quiet">hinted</span>{_action("gold", turn.get("named"))}<span class="quiet">→</span>'
    head = f'<header><b>turn {number + 1}</b><span class="badge recovery">recovery</span></header>'
    acted = f'<div class="acted">{hinted}{_acted(turn)}</div>'
    return f'<section class="turn recovery">{head}{_said(turn, most)}{acted}</section>'


def _acted(turn: Mapping[str, Any]) -> str:
    if turn.get("action") is None:
        return _action("missing", "no action")
    if turn.get("accepted") is False:
        return _action("rejected", turn["action"]) + '<span class="quiet">not carried out</span>'
    return _action("", turn["action"])


def _action(style: str, action: Any) -> str:
    return f'<span class="action {style}">{shown(str(action))}</span>'


def _said(turn: Mapping[str, Any], most: float) -> str:
    return _text("observation", turn.get("observation")) + f'<p class="text response">{_response(turn, most)}</p>'


def _response(turn: Mapping[str, Any], most: float) -> str:
    tokens, values = turn.get("tokens"), credits(turn)
    if not isinstance(tokens, list) or len(tokens) != len(values):
        return shown(str(turn.get("response") or ""))
    return "".join(
        f'<span class="token {shade(value, most)}" title="{value:+.3g}">{shown(str(token))}</span>'
        for token, value in zip(tokens, values, strict=True)
    )


def credits(turn: Mapping[str, Any]) -> list[float]:
    """The advantages of the tokens of a turn, less what they all have from the reward."""
    shared = turn.get("reward_advantage")
    shared = shared if _is_number(shared) else 0.0
    values = turn.get("advantages")
    if not isinstance(values, list) or not all(map(_is_number, values)):
        return []
    return [0.0 if abs(value - shared) < 1e-6 else value - shared for value in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < GREATEST


def _largest(record: Mapping[str, Any]) -> float:
    turns = [*record["turns"], *(turn for branch in record.get("recoveries", []) for turn in branch["turns"])]
    return max((abs(value) for turn in turns for value in credits(turn)), default=0.0)


def shade(value: float, most: float) -> str:
    """The class of style.css that colours a token: p1 to p5, n1 to n5, or none."""
    if not value or not most:
        return ""
    return ("p" if value > 0 else "n") + str(min(5, max(1, math.ceil(5 * abs(value) / most))))
