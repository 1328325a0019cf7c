"""Cuts text into the terms of an index, as Lucene's English analyser does."""

from __future__ import annotations

import regex

from pivotopd_jax.envs.webshop.porter import stem

_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
LONGEST_TOKEN = 255
"""Characters; a longer run of letters is several tokens."""

_BREAK = regex.compile(r"(?V1w)\b")
_WORD = regex.compile(
    r"(?V1)[\p{WB=ALetter}\p{WB=Numeric}\p{WB=Katakana}\p{WB=HebrewLetter}\p{Ideographic}\p{Hiragana}\p{LB=SA}]"
    r"|[\p{Emoji}--[\x00-\x7F]]"
)


def terms(text: str) -> list[str]:
    """Words as Unicode (UAX #29) divides them, without possessive 's, in lower case, without stop words, stemmed."""
    found = []
    for segment in _BREAK.split(text):
        if _is_word(segment):
            for start in range(0, len(segment), LONGEST_TOKEN):
                word = _without_possessive(segment[start : start + LONGEST_TOKEN]).lower()
                if word not in STOP_WORDS:
                    found.append(stem(word))
    return found


def _is_word(segment: str) -> bool:
    if segment.isascii():
        # The expression says the same, but slowly, and nearly all text is of this kind.
        return not segment.isspace() and any(map(str.isalnum, segment))
    return _WORD.search(segment) is not None


def _without_possessive(word: str) -> str:
    return word[:-2] if len(word) > 2 and word[-1] in "sS" and word[-2] in "'’＇" else word
