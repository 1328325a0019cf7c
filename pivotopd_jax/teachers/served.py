"""A language model behind an OpenAI-compatible server as the teacher: it reads whole trajectories, names recovery
actions from what the student is shown, and scores given tokens.

A call that fails, or whose reply cannot be read, costs its item the distillation term and nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.teachers.abilities import NO_THINKING, Abilities, find_abilities
from pivotopd_jax.teachers.asking import Asker
from pivotopd_jax.teachers.outcomes import Outcomes
from pivotopd_jax.teachers.protocol import TeacherFailure
from pivotopd_jax.teachers.reply_cache import ReplyCache
from pivotopd_jax.teachers.scoring import assert_same_tokens, probe_text, read_scores, score_call
from pivotopd_jax.teachers.server import Call, CallFailed, Server
from pivotopd_jax.teachers.words import TEMPERATURE, Question, WordsTeacher

R = TypeVar("R")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,40}")


class ServedTeacher(WordsTeacher):
    """Implements `teachers.protocol.Teacher`, and scores tokens besides; any number of threads may ask at once.

    Attributes:
        server: where the model is.
        prompter, context_tokens: see `WordsTeacher`.
        seed: of the teacher's sampling; part of every request, so that another seed asks anew.
    """

    def __init__(
        self, server: Server, prompter: Prompter, cache: ReplyCache, *, context_tokens: int, failure_share: float,
        seed: int = 0,
    ):  # fmt: skip
        """`cache` keeps replies in words; scores are not kept, since the same tokens hardly come twice."""
        super().__init__(prompter, context_tokens)
        self.server, self.seed = server, seed
        self._outcomes = Outcomes(
            failure_share,
            f"the teacher at {server.base_url}",
            "See to the server, then start the run again: it goes on from its newest checkpoint",
        )
        self._asker = Asker(server, cache, self._outcomes)
        self._abilities: Abilities | None = None
        self._same_tokens = False

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Calls since the start by "job/outcome", and "retries".

        Jobs are "report", "recovery" and "score"; outcomes "ok", "cached", "unreadable", "too_long" and the kinds of
        `CallFailed`.
        """
        return {**self._outcomes.counts, "retries": self.server.retried}

    def check(self) -> None:
        """Asks the server for its models and for one word.

        Raises:
            TeacherFailure: it cannot be used; says where it was looked for and what is wrong.
        """
        self._abilities = find_abilities(self.server, self.context_tokens)

    @property
    def concurrency(self) -> int:
        """Calls that the server is sent at once."""
        return self.server.concurrency

    @property
    def structured(self) -> bool:
        return self.abilities.structured

    def ask(self, job: str, questions: Sequence[Question], read: Callable[[int, str], R | None]) -> list[R | None]:
        """See `WordsTeacher.ask`.

        Raises:
            TeacherFailure: too many of the latest questions of this job failed.
        """
        return self._asker.ask(job, [self._body(question) for question in questions], read)

    def score(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray | None]:
        """Log-probabilities of given tokens under the teacher.

        Args:
            pairs: (context `[context_length]`, response `[response_length]`) token ids, none of them empty.

        Returns:
            `[response_length]` float32 in nats for each pair; None where they could not be had.

        Raises:
            TeacherFailure: the teacher splits text into other tokens than the student, or too many calls failed.
        """
        self._check_tokens()
        fits = [len(context) + len(response) < self.context_tokens for context, response in pairs]
        calls = [score_call(self.server.model, *pair) for pair, short in zip(pairs, fits, strict=True) if short]
        replies = iter(self.server.send(calls))
        too_long = CallFailed(
            "too_long", f"more than the {self.context_tokens} tokens of config.teacher.context_tokens"
        )
        scores = [
            self._asker.judge(
                "score", next(replies) if short else too_long, lambda reply, pair=pair: read_scores(reply, *pair)
            )
            for pair, short in zip(pairs, fits, strict=True)
        ]
        self._outcomes.check("score")
        return scores

    @property
    def abilities(self) -> Abilities:
        """What the server can do; asked for when first needed, if `check` was not called."""
        if self._abilities is None:
            self.check()
        assert self._abilities
        return self._abilities

    def _body(self, question: Question) -> dict[str, Any]:
        extra: dict[str, Any] = dict(NO_THINKING) if self.abilities.extras else {}
        if self.abilities.structured:
            extra["structured_outputs"] = {"json": question.schema}
        return {
            "model": self.server.model,
            "messages": question.messages,
            "max_tokens": question.answer_tokens,
            "temperature": TEMPERATURE,
            "seed": self.seed,
            **extra,
        }

    def _check_tokens(self) -> None:
        if self._same_tokens:
            return
        body = {"model": self.server.model, "prompt": probe_text(self.prompter.chat), "add_special_tokens": False}
        (reply,) = self.server.send([Call(self.server.root + "/tokenize", body)])
        if isinstance(reply, CallFailed):
            raise TeacherFailure(
                f"{self.server.root}/tokenize does not answer ({reply}), so that nothing shows whether teacher and "
                "student split text into the same tokens; scoring needs a vLLM server"
            )
        assert_same_tokens(reply, self.prompter.chat, self.server.root)
        self._same_tokens = True


def served_teacher(options: Any, prompter: Prompter, kept: Path, seed: int) -> ServedTeacher:
    """The teacher that `config.teacher` describes; nothing is sent yet.

    Args:
        options: `config.teacher`.
        prompter: the student's.
        kept: where replies are kept if `options.cache` names no directory.
        seed: of its sampling.

    Raises:
        ValueError: the address or the model is missing, or the variable that should hold the key is empty.
    """
    if not options.base_url or not options.served_model:
        raise ValueError(
            "config.teacher.kind is 'served'; set config.teacher.base_url (such as http://127.0.0.1:8000/v1) and "
            "config.teacher.served_model (the name under which it is served there)"
        )
    server = Server(
        options.base_url, options.served_model, _key(options.api_key_env), deadline_seconds=options.deadline_seconds,
        concurrency=options.concurrency, retries=options.retries,
    )  # fmt: skip
    return ServedTeacher(
        server, prompter, ReplyCache(Path(options.cache) if options.cache else kept),
        context_tokens=options.context_tokens, failure_share=options.failure_share, seed=seed,
    )  # fmt: skip


def _key(variable: str) -> str:
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    # A key with a line break in it would be quoted in the message of a library that refuses it.
    if not key or not (key.isascii() and key.isprintable()):
        # Who gives the key itself in place of a name should not find it in a log.
        shown = repr(variable) if _VARIABLE.fullmatch(variable) else "(not shown, since it looks like none)"
        raise ValueError(
            f"config.teacher.api_key_env names the environment variable {shown}, which is not set or holds no key "
            "of printable ASCII; set it to the key"
        )
    return key
