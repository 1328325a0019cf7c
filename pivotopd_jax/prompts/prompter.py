"""Builds the token context of a turn, in one of two styles behind one interface.

`windowed` (the papers'): one user turn, rebuilt each time, with the last H turns and the admissible actions.
`transcript`: the whole episode as a growing chat, so that a cache of keys and values serves all its turns.

Where a context is too long, its oldest tokens go; in a transcript that keeps its task, whole turns go from between the
task and the latest turns, and it says how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.prompts.hints import is_privileged
from pivotopd_jax.records import Observation, Turn

LEFT_OUT = "\n\n[The first {count} turns are left out for length; the last of them showed this.]\n"


class PrivilegedPrompt(RuntimeError):
    """A hint was found in, or was cut from, a context where that must not happen."""


class Wording(Protocol):
    """The words of one environment.

    Attributes:
        phrases: strings that come in every episode; a small tokenizer gives each a token of its own.
    """

    phrases: Sequence[str]

    def opening(self, observation: Observation) -> str:
        """The first user turn of a transcript."""
        ...

    def following(self, observation: Observation) -> str:
        """A later user turn of a transcript."""
        ...

    def admissible(self, actions: Sequence[str]) -> str:
        """The list of actions, as appended to a user turn."""
        ...

    def task(self, first: Observation) -> str:
        """What is to be done, as the first observation states it."""
        ...

    def gist(self, action: str) -> str | None:
        """What of `action` holds in other games too, without names of instances; None if nothing does."""
        ...

    def windowed(self, first: Observation, history: Sequence[tuple[int, Turn]], observation: Observation) -> str:
        """The one user turn of the windowed style; `history` holds (0-based index, turn) of the turns shown."""
        ...

    def parse(self, response: str) -> str | None:
        """The one action of `response`, which is untrusted text; None if it names none, or several."""
        ...

    def format(self, action: str) -> str:
        """The shortest response that carries `action` out."""
        ...


@dataclass(frozen=True)
class Prompter:
    """Renders contexts for one environment and one tokenizer.

    Attributes:
        chat: the student's chat template and tokenizer.
        wording: the environment's words.
        style: "windowed" or "transcript".
        history_turns: turns shown in the windowed style.
        show_admissible: whether the present turn lists the admissible actions.
        prompt_tokens: longest context in tokens.
        keep_task: whether a transcript that is longer keeps its task; see the top of this file.
    """

    chat: Chat
    wording: Wording
    style: Literal["windowed", "transcript"]
    history_turns: int
    show_admissible: bool
    prompt_tokens: int
    keep_task: bool = False

    def context(self, history: Sequence[Turn], observation: Observation, hint: str = "") -> np.ndarray:
        """Context of the turn at which `observation` is shown after `history`.

        Args:
            history: the turns already played.
            observation: what is shown now.
            hint: privileged text, appended to the end of the user turn; empty for the student's own context.

        Returns:
            `[context_length]` int32.

        Raises:
            PrivilegedPrompt: truncation would have cut into the hint.
        """
        suffix = self._suffix(observation) + hint
        if self.style == "windowed":
            ids = self._windowed(history, observation, suffix)
        else:
            ids = self._transcript(history, observation, suffix)
        return self._truncate(ids, hint)

    def said(self, action: str) -> np.ndarray:
        """The shortest response that carries `action` out, `[response_length]` int32, with its end token."""
        return self.chat.encode(self.wording.format(action) + self.chat.template.end)

    def words(self, history: Sequence[Turn], observation: Observation) -> str:
        """What `context` shows without a hint, as words: no chat marks, and before truncation.

        For a teacher with another tokenizer that has to judge from what the student sees.
        """
        suffix = self._suffix(observation)
        if self.style == "windowed":
            return self._windowed_words(history, observation) + suffix
        shown = [turn.observation for turn in history] + [observation]
        parts = [self.wording.opening(shown[0])]
        for turn, seen in zip(history, shown[1:], strict=True):
            parts += [turn.response, self.wording.following(seen)]
        return "\n".join(parts) + suffix

    def _suffix(self, observation: Observation) -> str:
        if not self.show_admissible or observation.admissible is None:
            return ""
        return self.wording.admissible(observation.admissible)

    def _windowed(self, history: Sequence[Turn], observation: Observation, suffix: str) -> np.ndarray:
        return self.chat.opening(self._windowed_words(history, observation) + suffix)

    def _windowed_words(self, history: Sequence[Turn], observation: Observation) -> str:
        first = history[0].observation if history else observation
        shown = list(enumerate(history))[max(0, len(history) - self.history_turns) :]
        return self.wording.windowed(first, shown, observation)

    def _transcript(self, history: Sequence[Turn], observation: Observation, suffix: str) -> np.ndarray:
        shown = [turn.observation for turn in history] + [observation]
        texts = [self.wording.opening(shown[0]), *map(self.wording.following, shown[1:])]
        texts[-1] += suffix
        pieces = [self.chat.opening(texts[0])]
        for turn, text in zip(history, texts[1:], strict=True):
            pieces.append(np.concatenate([turn.response_ids, self.chat.following(text, turn.response_ids)]))
        if self.keep_task and history and sum(map(len, pieces)) > self.prompt_tokens:
            pieces = self._latest(texts, pieces)
        return np.concatenate(pieces).astype(np.int32)

    def _latest(self, texts: Sequence[str], pieces: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The task, how many turns are left out after it, and the latest turns, as many as fit.

        Turns go by quarters of `prompt_tokens`, so that most contexts still begin with the one before them.
        """
        ends, quarter = np.cumsum([len(piece) for piece in pieces]), max(1, self.prompt_tokens // 4)
        last = len(pieces) - 1
        kept = list(pieces)
        for bound in range(quarter, int(ends[-1]) + quarter, quarter):
            first = min(last, int(np.searchsorted(ends, bound)) + 1)  # the first turn after `bound` tokens
            opening = texts[0] + LEFT_OUT.format(count=first) + texts[first]
            kept = [self.chat.opening(opening), *pieces[first + 1 :]]
            if sum(map(len, kept)) <= self.prompt_tokens:
                break
        return kept

    def _truncate(self, ids: np.ndarray, hint: str) -> np.ndarray:
        if len(ids) <= self.prompt_tokens:
            return ids
        kept = ids[len(ids) - self.prompt_tokens :]
        if hint and hint.strip() not in self.chat.decode(kept):
            raise PrivilegedPrompt(
                f"a hint of {len(hint)} characters does not survive truncation to {self.prompt_tokens} prompt tokens; "
                "raise config.prompt.prompt_tokens"
            )
        return kept

    def assert_unprivileged(self, ids: np.ndarray, said: Sequence[str] = ()) -> None:
        """Refuses a training prompt that holds a hint.

        Args:
            ids: `[context_length]` int32.
            said: the student's own earlier responses, which may say anything.

        Raises:
            PrivilegedPrompt: a hint stands in it, outside `said`.
        """
        text = self.chat.tokenizer.decode([int(i) for i in ids], skip_special_tokens=False)
        for response in filter(is_privileged, said):
            text = text.replace(response, "")
        if is_privileged(text):
            raise PrivilegedPrompt(f"a training prompt holds a privileged hint: …{text[-300:]!r}")
