"""Makes words of unknown origin safe for a prompt: a teacher's for the student's, a student's for a teacher's."""

from __future__ import annotations

import unicodedata

MARK_OPENS, MARK_CLOSES = "<|", "|>"


def without_marks(text: str) -> str:
    """`text` in which no chat mark such as <|im_end|> is left to be read as a token, and no half of a character.

    Marks are taken apart rather than out: what stands around a mark taken out could close up to another.
    """
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return whole.replace(MARK_OPENS, "< |").replace(MARK_CLOSES, "| >")


def is_plain(text: str) -> bool:
    """Whether `text` is one line without chat marks and control characters."""
    return MARK_OPENS not in text and MARK_CLOSES not in text and not any(map(_is_control, text))


def one_line(text: object, most_bytes: int) -> str | None:
    """`text` on one line, without marks and control characters, cut after a word to `most_bytes` bytes of UTF-8.

    Bytes bound tokens: a byte-level tokenizer never makes more tokens than bytes.

    Returns:
        None where `text` is no string or nothing of it is left.
    """
    if not isinstance(text, str):
        return None
    # Some four bytes a character, and white space that will go: more need not be looked at.
    visible = "".join(" " if _is_control(c) else c for c in without_marks(text[: 8 * most_bytes]))
    words = " ".join(visible.split())
    if len(words.encode()) > most_bytes:
        head = words.encode()[: most_bytes - len("…".encode())].decode("utf-8", "ignore")
        words = (head.rpartition(" ")[0] or head) + "…"
    return words or None


def _is_control(character: str) -> bool:
    """Controls, halves of characters, and invisible formatting such as a change of the writing direction."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn")
