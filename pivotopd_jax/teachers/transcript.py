"""Writes a trajectory out for a teacher, cut to a number of tokens; what was cut is said in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pivotopd_jax.records import Trajectory, Turn
from pivotopd_jax.teachers.plain_words import without_marks

SHORT_CHARACTERS = 400

_WORD = re.compile(r"[A-Za-z]+")
_SEPARATE_SPACE = re.compile(r" (?=\d)|[\t\r\n]")


def token_bound(text: str) -> int:
    """More tokens than `text` has for the teachers that we know, without asking for their tokenizers.

    Four letters of a word a token, every digit, sign and byte of another script one of its own.
    """
    words = _WORD.findall(text)
    letters = sum(map(len, words))
    spaces = text.count(" ")
    rest = len(text.encode("utf-8", "replace")) - letters - spaces
    return sum(-(-len(word) // 4) for word in words) + rest + len(_SEPARATE_SPACE.findall(text))


@dataclass(frozen=True)
class Written:
    """A trajectory in words.

    Attributes:
        text: the steps in order, the last observation, and before them what was left out.
        steps: 0-based steps that it shows.
    """

    text: str
    steps: tuple[int, ...]


def write_trajectory(trajectory: Trajectory, most_tokens: int) -> Written:
    """`trajectory` with as much detail as fits into `most_tokens` tokens.

    First the lists of possible actions and the agent's thoughts go, then long texts are shortened, then steps are left
    out from the middle. The first and the last step always stay.
    """
    every = tuple(range(len(trajectory.turns)))
    for notice, step in _DETAILS:
        written = _write(trajectory, every, step, [notice] if notice else [])
        if token_bound(written.text) <= most_tokens:
            return written
    return _ends(trajectory, most_tokens)


def _ends(trajectory: Trajectory, most_tokens: int) -> Written:
    """Short forms of as many steps from both ends as fit."""
    count = len(trajectory.turns)
    notice, step = _DETAILS[-1]
    low, high = 2, count
    while low < high:  # the greatest number of steps that fits
        kept = (low + high + 1) // 2
        text = _write(trajectory, _outer(count, kept), step, [notice, _gap(count, kept)]).text
        low, high = (kept, high) if token_bound(text) <= most_tokens else (low, kept - 1)
    return _write(trajectory, _outer(count, low), step, [notice, _gap(count, low)])


def _outer(count: int, kept: int) -> tuple[int, ...]:
    """`kept` of `count` steps, half of them from each end."""
    head = -(-kept // 2)
    return (*range(min(head, count)), *range(max(head, count - (kept - head)), count))


def _gap(count: int, kept: int) -> str:
    left_out = sorted(set(range(count)) - set(_outer(count, kept)))
    return f"Steps {left_out[0]} to {left_out[-1]} are left out for length." if left_out else ""


def _write(trajectory: Trajectory, steps: tuple[int, ...], step: Callable[[Turn], str], notices: list[str]) -> Written:
    parts = [notice for notice in notices if notice]
    parts += [f"Step {index}\n{step(trajectory.turns[index])}" for index in steps]
    parts.append(f"After the last step the agent saw: {_short(trajectory.final.text)}")
    return Written(without_marks("\n\n".join(parts)), steps)


def _full_step(turn: Turn) -> str:
    admissible = turn.observation.admissible
    possible = f"\nPossible actions: {'; '.join(admissible)}" if admissible else ""
    return f"The agent saw: {turn.observation.text}{possible}\nIt answered: {turn.response}\n{_outcome(turn)}"


def _plain_step(turn: Turn) -> str:
    return f"The agent saw: {turn.observation.text}\n{_outcome(turn)}"


def _short_step(turn: Turn) -> str:
    return f"The agent saw: {_short(turn.observation.text)}\n{_outcome(turn)}"


def _outcome(turn: Turn) -> str:
    if turn.action is None:
        return "It named no action."
    return f"Its action: {turn.action}" + ("" if turn.accepted else " (nothing happened)")


def _short(text: str) -> str:
    if len(text) <= SHORT_CHARACTERS:
        return text
    half = SHORT_CHARACTERS // 2
    return f"{text[:half]} [.. {len(text) - 2 * half} characters left out ..] {text[-half:]}"


_DETAILS = (
    ("", _full_step),
    ("For length, the possible actions and the agent's thoughts are left out.", _plain_step),
    ("For length, the possible actions, the agent's thoughts and the middle of long texts are left out.", _short_step),
)
"""(what is said of it, how a step is written), from most detail to least."""
