"""The words of ALFWorld, in both prompt styles. The engine's text is passed on as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pivotopd_jax.prompts.actions import format_action, parse_action
from pivotopd_jax.records import Observation, Turn

BANNER = "-= Welcome to TextWorld, ALFRED! =-\n\n"
FORMAT = (
    "Think about the next step between <think> and </think>, then give exactly one admissible action "
    "between <action> and </action>."
)
SEARCHING = ("go to ", "open ", "close ", "examine ", "look", "inventory", "help")
"""Beginnings of commands that look for things; where a thing lies is another matter in every game."""

_NUMBER = re.compile(r" \d+")
_SOURCE = re.compile(r"^(take .+?) from .+$")


class AlfWorldWording:
    """Implements `prompts.prompter.Wording`."""

    phrases: Sequence[str] = ("\n\nYour task is to: ",)

    parse = staticmethod(parse_action)
    format = staticmethod(format_action)

    def opening(self, observation: Observation) -> str:
        return observation.text.removeprefix(BANNER)

    def following(self, observation: Observation) -> str:
        return observation.text

    def admissible(self, actions: Sequence[str]) -> str:
        return "\nAdmissible actions:" + "".join(f"\n{action}" for action in actions)

    def task(self, first: Observation) -> str:
        return first.text.rpartition("Your task is to: ")[2].strip()

    def gist(self, action: str) -> str | None:
        """ "take mug 2 from desk 1" is "take mug"; going, opening and looking have none."""
        if action.startswith(SEARCHING):
            return None
        return _SOURCE.sub(r"\1", _NUMBER.sub("", action))

    def windowed(self, first: Observation, history: Sequence[tuple[int, Turn]], observation: Observation) -> str:
        lines = ["You act in a household through text commands.", f"Task: {self.task(first)}"]
        if history:
            lines.append("The latest steps:")
        for index, turn in history:
            lines += [f"[{index + 1}] saw: {turn.observation.text.removeprefix(BANNER)}", f"did: {turn.action}"]
        lines += [f"Now you see: {observation.text.removeprefix(BANNER)}", FORMAT]
        return "\n".join(lines)
