"""A language model behind an OpenAI-compatible server as the teacher: it reads whole trajectories, names recovery
actions from what the student is shown, and scores given tokens.

A call that fails, or whose reply cannot be read, costs its item the distillation term and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Trajectory
from pivotopd_jax.teachers.abilities import NO_THINKING, Abilities, find_abilities
from pivotopd_jax.teachers.asking import Asker
from pivotopd_jax.teachers.outcomes import Outcomes
from pivotopd_jax.teachers.protocol import Report, Situation, TeacherFailure
from pivotopd_jax.teachers.reply_cache import ReplyCache
from pivotopd_jax.teachers.report_reading import Wanted, read_action, read_report
from pivotopd_jax.teachers.scoring import assert_same_tokens, probe_text, read_scores, score_call
from pivotopd_jax.teachers.server import Call, CallFailed, Server
from pivotopd_jax.teachers.teacher_prompts import action_messages, action_schema, report_messages, report_schema

TEMPERATURE = 0.7
ACTION_TOKENS = 512
REPORT_TOKENS, TOKENS_A_STEP = 1536, 64


class ServedTeacher:
    """Implements `teachers.protocol.Teacher`, and scores tokens besides.

    Attributes:
        server: where the model is.
        prompter: the student's; renders what the student is shown, and bounds what fits into a hint.
        context_tokens: longest prompt with its reply.
        seed: of the teacher's sampling; part of every request, so that another seed asks anew.
    """

    def __init__(
        self, server: Server, prompter: Prompter, cache: ReplyCache, *, context_tokens: int, failure_share: float,
        seed: int = 0,
    ):  # fmt: skip
        """`cache` keeps replies in words; scores are not kept, since the same tokens hardly come twice."""
        self.server, self.prompter = server, prompter
        self.context_tokens, self.seed = context_tokens, seed
        self._outcomes = Outcomes(failure_share, server.base_url)
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

    def reports(
        self, trajectories: Sequence[Trajectory], *, max_actions: int, every_turn: bool, lessons: bool = False
    ) -> list[Report]:
        """One report a trajectory; an empty one where none could be had.

        Raises:
            TeacherFailure: too many failed.
        """
        structured = self.abilities.structured
        bodies, wanted = [], []
        for trajectory in trajectories:
            most = len(trajectory.turns) if every_turn else max_actions
            answer = self._answer_tokens(REPORT_TOKENS + TOKENS_A_STEP * most)
            messages, written = report_messages(
                trajectory, max_actions=most, every_turn=every_turn, lessons=lessons, structured=structured,
                most_tokens=self.context_tokens - answer,
            )  # fmt: skip
            bodies.append(self._body(messages, answer, report_schema(most, lessons)))
            wanted.append(Wanted(written.steps, most, lessons, self.words_bytes))
        found = self._asker.ask("report", bodies, lambda index, words: read_report(words, wanted[index]))
        return [report or Report() for report in found]

    def recovery_actions(self, situations: Sequence[Situation]) -> list[str | None]:
        """One action a situation, named from exactly what the student is shown; None where none could be had.

        Raises:
            TeacherFailure: too many failed.
        """
        bodies = []
        answer = self._answer_tokens(ACTION_TOKENS)
        for situation in situations:
            words = self.prompter.words(situation.history, situation.observation)
            messages = action_messages(
                words, structured=self.abilities.structured, most_tokens=self.context_tokens - answer
            )
            bodies.append(self._body(messages, answer, action_schema(self._shown_actions(situation))))
        return self._asker.ask("recovery", bodies, lambda _, words: read_action(words, self.words_bytes))

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

    @property
    def words_bytes(self) -> int:
        """Longest lesson or action in bytes: it takes at most a quarter of the student's prompt, and survives a cut."""
        return self.prompter.prompt_tokens // 4

    def _answer_tokens(self, wanted: int) -> int:
        return min(wanted, self.context_tokens // 4)

    def _shown_actions(self, situation: Situation) -> Sequence[str] | None:
        """The admissible actions, if the student is shown them: the teacher is to know no more."""
        return situation.observation.admissible if self.prompter.show_admissible else None

    def _body(self, messages: Any, answer_tokens: int, schema: dict[str, Any]) -> dict[str, Any]:
        extra: dict[str, Any] = dict(NO_THINKING) if self.abilities.extras else {}
        if self.abilities.structured:
            extra["structured_outputs"] = {"json": schema}
        return {
            "model": self.server.model,
            "messages": messages,
            "max_tokens": answer_tokens,
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
        raise ValueError(
            f"config.teacher.api_key_env names the environment variable {variable!r}, which is not set or holds no key "
            "of printable ASCII; set it to the key"
        )
    return key
