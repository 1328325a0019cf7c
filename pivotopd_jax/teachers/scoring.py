"""Log-probabilities of given tokens from a server: what is asked, and what of the answer can be believed."""

from __future__ import annotations

from typing import Any

import numpy as np

from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.teachers.protocol import TeacherFailure
from pivotopd_jax.teachers.server import Call

IMPOSSIBLE = -9999.0
"""What vLLM writes for −∞, which JSON does not have."""

PROBE = (
    "Go to drawer 12, then: open it!\n\n  \tIt's 3.14 m (or 1,000 ft) away; naïve façade.\r\n"
    "你好，世界 — Привет, мир 🙂 {\"key\": [null, 'x']} http://example.org/a_b?c=d#e  aaaaaaaaaaaaaaaa"
)
"""Words, digits, white space, signs and scripts, on which tokenizers differ."""


def score_call(model: str, context_ids: np.ndarray, response_ids: np.ndarray) -> Call:
    """The request that scores `response_ids` `[response_length]` after `context_ids` `[context_length]`."""
    prompt = [int(i) for i in context_ids] + [int(i) for i in response_ids]
    # One token has to be generated, and is thrown away.
    body = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
    return Call("/completions", body)


def read_scores(reply: Any, context_ids: np.ndarray, response_ids: np.ndarray) -> np.ndarray | None:
    """Log-probabilities of the response tokens.

    Args:
        reply: JSON that a server sent.
        context_ids: `[context_length]`.
        response_ids: `[response_length]`.

    Returns:
        `[response_length]` float32, nats; None where one is missing, not finite, above 0, or belongs to another token.
    """
    try:
        entries = reply["choices"][0]["prompt_logprobs"]
    except (LookupError, TypeError):
        return None
    if not isinstance(entries, list) or len(entries) != len(context_ids) + len(response_ids):
        return None
    pairs = zip(entries[len(context_ids) :], response_ids, strict=True)
    values = [_log_prob(entry, int(token)) for entry, token in pairs]
    return None if None in values else np.asarray(values, np.float32)


def _log_prob(entry: Any, token: int) -> float | None:
    found = entry.get(str(token)) if isinstance(entry, dict) else None
    value = found.get("logprob") if isinstance(found, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # Sums in half precision may end a little above 0. NaN fails every comparison.
    return min(float(value), 0.0) if IMPOSSIBLE < value <= 1e-2 else None


def probe_text(chat: Chat) -> str:
    """A text on which two tokenizers that differ are likely to show it, the student's chat marks included."""
    return PROBE.join(chat.template.opening) + chat.template.end


def assert_same_tokens(reply: Any, chat: Chat, address: str) -> None:
    """Compares a server's tokens of `probe_text` with the student's.

    Args:
        reply: JSON that the server's /tokenize sent.
        chat: the student's.
        address: of the server, for the message.

    Raises:
        TeacherFailure: they differ, or there are none.
    """
    own = [int(i) for i in chat.encode(probe_text(chat))]
    theirs = reply.get("tokens") if isinstance(reply, dict) else None
    if not isinstance(theirs, list):
        raise TeacherFailure(f"{address}/tokenize sent no list of tokens; scoring needs a vLLM server")
    if theirs == own:
        return
    first = next((i for i, (a, b) in enumerate(zip(own, theirs, strict=False)) if a != b), min(len(own), len(theirs)))
    raise TeacherFailure(
        f"the teacher at {address} splits text into other tokens than the student: of a probe it made {len(theirs)}, "
        f"the student {len(own)}, and they part at token {first}, at "
        f"{chat.tokenizer.decode(own[first : first + 3])!r}. A method that scores tokens needs a teacher of the "
        "student's family; choose one, or a method that only asks for actions"
    )
