"""Exact match of answers, as the papers' tables count it: normalised as for SQuAD, and any gold answer will do.

Left out on purpose: anything lenient. Punctuation is that of ASCII and letters keep their accents, since the published
numbers were made that way.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise_answer(text: str) -> str:
    """Lower case without punctuation and articles, white space collapsed.

    Where nothing would be left, as of the blood group "A", only case and white space go: two empty forms are not equal
    answers.
    """
    lower = text.lower()
    kept = _ARTICLES.sub(" ", lower.translate(_PUNCTUATION)).split()
    return " ".join(kept or lower.split())


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """Whether `answer` is one of the gold answers. An empty answer never is."""
    given = normalise_answer(answer)
    return bool(given) and any(given == normalise_answer(gold) for gold in golds)
