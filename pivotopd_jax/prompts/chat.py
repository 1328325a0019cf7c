"""A tokenizer's chat template as four strings, so that a transcript can grow without re-tokenising what was sampled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

_CONTENT, _REPLY = "QcontentQ", "QreplyQ"
_PROBE = "one <two>\n\nthree: {4} [5], 6."


@dataclass(frozen=True)
class ChatTemplate:
    """Text around the user's words, rendered once from the tokenizer's own template.

    Attributes:
        opening: (before, after) of the first user turn; `after` ends where the assistant begins to write.
        following: (before, after) of a later user turn; `before` starts right after the assistant's last word.
        end: text of the token that ends an assistant turn; `following[0]` starts with it.
    """

    opening: tuple[str, str]
    following: tuple[str, str]
    end: str


def read_chat_template(tokenizer: Any) -> ChatTemplate:
    """Reads the chat template of `tokenizer`, thinking mode off.

    Raises:
        ValueError: there is no template, it does not end an assistant turn with the tokenizer's end token, or it
            rewrites the user's words.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError("the student's tokenizer has no chat template; expected one in tokenizer_config.json")

    def render(*contents: str) -> str:
        roles = ("user", "assistant", "user")
        messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]
        return tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )

    opening = _around(render(_CONTENT), _CONTENT)
    tail = render("Q", _REPLY, _CONTENT).partition(_REPLY)[2]
    following = _around(tail, _CONTENT)
    template = ChatTemplate(opening, following, tokenizer.eos_token)
    if not following[0].startswith(template.end):
        raise ValueError(f"the chat template ends an assistant turn with {following[0]!r}, not with {template.end!r}")
    if _PROBE.join(opening) != render(_PROBE):
        raise ValueError("the chat template rewrites the user's words; the transcript could not be kept as sampled")
    return template


def _around(text: str, content: str) -> tuple[str, str]:
    before, _, after = text.partition(content)
    return before, after


class Chat:
    """Turns user words into token ids of one chat turn.

    Attributes:
        tokenizer: the student's.
        end_ids: ids that end a response.
    """

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        self.template = read_chat_template(tokenizer)
        self.end_ids: frozenset[int] = frozenset({tokenizer.eos_token_id})
        marks = sorted((mark for mark in tokenizer.all_special_tokens if len(mark) > 1), key=len, reverse=True)
        self._marks = re.compile("|".join(map(re.escape, marks)))
        self.encode: Callable[[str], np.ndarray] = lru_cache(maxsize=200_000)(self._encode)
        self._following: Callable[[str, bool], np.ndarray] = lru_cache(maxsize=200_000)(self._encode_following)
        self._piece: Callable[[int], str] = lru_cache(maxsize=None)(lambda i: self._text([i]))

    def _encode(self, text: str) -> np.ndarray:
        # Half of a character, as JSON can write it, is none that a tokenizer takes.
        whole = text.encode("utf-8", "replace").decode("utf-8")
        ids = np.asarray(self.tokenizer.encode(whole, add_special_tokens=False), np.int32)
        ids.setflags(write=False)
        return ids

    def decode(self, ids: np.ndarray) -> str:
        """Text of sampled ids, end token dropped."""
        return self._text([int(i) for i in ids if int(i) not in self.end_ids])

    def _text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def pieces(self, ids: np.ndarray) -> list[str]:
        """The text of each of `ids` by itself, end token included; a character cut in two shows as "\ufffd" in both."""
        return [self._piece(int(i)) for i in ids]

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> np.ndarray:
        """Ids of a whole chat, `[length]` int32, up to where the assistant writes, thinking mode off.

        Args:
            messages: "role" and "content" of each.
        """
        return self._encode(
            self.tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        )

    def opening(self, content: str) -> np.ndarray:
        """Ids of a first user turn, up to where the assistant writes."""
        return self.encode(self._words(content).join(self.template.opening))

    def following(self, content: str, response_ids: np.ndarray) -> np.ndarray:
        """Ids of a user turn that follows `response_ids` (not repeated here)."""
        return self._following(content, len(response_ids) > 0 and int(response_ids[-1]) in self.end_ids)

    def _encode_following(self, content: str, ended: bool) -> np.ndarray:
        before, after = self.template.following
        if ended:
            before = before.removeprefix(self.template.end)
        return self._encode(before + self._words(content) + after)

    def _words(self, content: str) -> str:
        """`content` with the tokenizer's special tokens taken apart: a page of a world cannot end the user's turn."""
        return self._marks.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}", content)
