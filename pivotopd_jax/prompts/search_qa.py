"""The words of search-based question answering, in both prompt styles, and the tags that carry its actions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pivotopd_jax.prompts.actions import format_action, is_one_line, without_thinking
from pivotopd_jax.records import Observation, Turn

ASKED = "Question: "
FORMAT = (
    "Think about the next step between <think> and </think>, then give exactly one of <search>query</search>, which "
    "shows the passages that fit best, and <answer>text</answer>, which ends the task; an answer is a few words."
)

_TAG = re.compile(r"</?(?:search|answer|action)>")
_TAGGED = re.compile(r"<(search|answer|action)>(.*?)</\1>", re.DOTALL)
_CANONICAL = re.compile(r"(search|answer)\[(.*)\]", re.DOTALL)


def _canonical(action: str) -> tuple[str, str] | None:
    """Verb and argument of "search[..]" or "answer[..]"; None for anything else."""
    found = _CANONICAL.fullmatch(action.strip())
    return (found[1], found[2].strip()) if found else None


class SearchQAWording:
    """Implements `prompts.prompter.Wording`."""

    phrases: Sequence[str] = (
        ASKED, "<information>\n", "\n</information>", "<search>", "</search>", "<answer>", "</answer>",
    )  # fmt: skip

    def opening(self, observation: Observation) -> str:
        return observation.text

    def following(self, observation: Observation) -> str:
        return observation.text

    def admissible(self, actions: Sequence[str]) -> str:
        """Queries and answers are free: whatever is suggested, these two lines stand for all."""
        del actions
        return "\nAdmissible actions:\n<search>your query</search>\n<answer>your answer</answer>"

    def task(self, first: Observation) -> str:
        return first.text.removeprefix(ASKED) if first.text.startswith(ASKED) else ""

    def gist(self, action: str) -> str | None:
        """Names are of one question only; that one searches, and then answers, is not."""
        verb, _ = _canonical(action) or ("", "")
        return {"search": "search for what the question still needs", "answer": "answer it"}.get(verb)

    def windowed(self, first: Observation, history: Sequence[tuple[int, Turn]], observation: Observation) -> str:
        lines = ["You answer a question by searching for passages.", f"{ASKED}{self.task(first)}"]
        if history:
            lines.append("The latest steps:")
        for index, turn in history:
            said = "nothing that can be done" if turn.action is None else self.format(turn.action)
            if index > 0:  # the question stands above already
                lines.append(f"[{index + 1}] saw: {turn.observation.text}")
            lines.append(f"[{index + 1}] did: {said}")
        lines += [f"Now you see: {observation.text}"] if history else []
        return "\n".join([*lines, FORMAT])

    def parse(self, response: str) -> str | None:
        """`search[..]` or `answer[..]`: exactly one tag, once, outside the thinking part, on one line.

        `<action>search[..]</action>` and `<action>answer[..]</action>` are understood, too.

        Returns:
            None when there is no such tag, more than one, or one whose text is not as `actions.is_one_line` wants it.
        """
        spoken = without_thinking(response)
        if spoken is None or len(_TAG.findall(spoken)) != 2:
            return None
        found = _TAGGED.search(spoken)
        parts = found and (_canonical(found[2]) if found[1] == "action" else (found[1], found[2].strip()))
        return f"{parts[0]}[{parts[1]}]" if parts and is_one_line(parts[1]) else None

    def format(self, action: str) -> str:
        """In the tag of its own verb; what is no action of this world stays recognisably none."""
        parts = _canonical(action)
        return format_action(action) if parts is None else f"<{parts[0]}>{parts[1]}</{parts[0]}>"
