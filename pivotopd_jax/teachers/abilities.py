"""Finds out, before the first rollout, whether a teacher answers and what its server can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pivotopd_jax.teachers.protocol import TeacherFailure
from pivotopd_jax.teachers.server import Call, CallFailed, Server

READY = "pivot-ready"
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
_QUESTION = [{"role": "user", "content": "Answer in one word: are you there?"}]


@dataclass(frozen=True)
class Abilities:
    """What a server can do beyond OpenAI's interface.

    Attributes:
        extras: takes fields of vLLM, so that the teacher's thinking can be turned off.
        structured: holds a reply to a JSON schema (`structured_outputs`).
    """

    extras: bool
    structured: bool


def find_abilities(server: Server, context_tokens: int) -> Abilities:
    """Asks for the list of models and for one word.

    Structured outputs are believed only if the server holds the reply to a word that no model would choose: a server
    may also ignore a field that it does not know.

    Raises:
        TeacherFailure: nothing answers at the address, the model is not served there, its context is shorter than
            `context_tokens`, or it does not answer.
    """
    _check_model(server, context_tokens)
    vllm = {**NO_THINKING, "structured_outputs": {"choice": [READY]}}
    (reply,) = server.send([_probe(server, vllm)])
    if not isinstance(reply, CallFailed):
        return Abilities(extras=True, structured=(reply_words(reply) or "").strip() == READY)
    if reply.kind == "refused":
        (reply,) = server.send([_probe(server, {})])
    if isinstance(reply, CallFailed):
        raise TeacherFailure(
            f"the teacher {server.model!r} at {server.base_url} does not answer a first question ({reply})"
        )
    return Abilities(extras=False, structured=False)


def reply_words(reply: Any) -> str | None:
    """The words of a chat completion that came to its own end; None if it did not, or is none.

    Args:
        reply: JSON that a server sent.
    """
    try:
        words, reason = reply["choices"][0]["message"]["content"], reply["choices"][0]["finish_reason"]
    except (LookupError, TypeError):
        return None
    return words if isinstance(words, str) and reason == "stop" else None


def _probe(server: Server, extra: dict[str, Any]) -> Call:
    body = {"model": server.model, "messages": _QUESTION, "max_tokens": 32, "temperature": 0.0, **extra}
    return Call("/chat/completions", body)


def _check_model(server: Server, context_tokens: int) -> None:
    (reply,) = server.send([Call("/models")])
    if isinstance(reply, CallFailed):
        raise TeacherFailure(_no_answer(server, reply))
    try:
        served = {str(model["id"]): model.get("max_model_len") for model in reply["data"]}
    except (LookupError, TypeError, AttributeError):
        raise TeacherFailure(f"{server.base_url}/models sent no list of models; {_EXPECTED}") from None
    if server.model not in served:
        raise TeacherFailure(
            f"the server at {server.base_url} does not serve config.teacher.served_model {server.model!r}; it serves "
            + (", ".join(map(repr, list(served)[:10])) or "nothing")
        )
    longest = served[server.model]
    if isinstance(longest, int) and longest < context_tokens:
        raise TeacherFailure(
            f"the teacher {server.model!r} at {server.base_url} reads {longest} tokens, but "
            f"config.teacher.context_tokens is {context_tokens}; set it to at most {longest}"
        )


def _no_answer(server: Server, failure: CallFailed) -> str:
    if failure.kind in ("unreachable", "timeout"):
        return (
            f"no teacher answers at {server.base_url} ({failure}); start one (launch/teacher.sh) or set "
            "config.teacher.base_url"
        )
    return f"the server at {server.base_url} does not list its models ({failure}); {_EXPECTED}"


_EXPECTED = (
    "expected an OpenAI-compatible server at an address that ends in /v1, and its key, if it wants one, in the "
    "environment variable that config.teacher.api_key_env names"
)
