"""The student as its own teacher, by votes or in words.

A vote, the action that most of its own samples agree on, needs no instructions: even a student that can only play can
do it. A student that follows instructions is asked in words, like any other teacher, and can also advise.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pivotopd_jax.prompts.actions import is_mismatch
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Trajectory
from pivotopd_jax.sampling.engine import Sampler
from pivotopd_jax.sampling.policy import Policy, Request, Sample, request_seed
from pivotopd_jax.teachers.outcomes import Outcomes
from pivotopd_jax.teachers.protocol import Remark, Report, Situation
from pivotopd_jax.teachers.words import TEMPERATURE, Question, WordsTeacher

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class SelfTeacher:
    """Implements `teachers.protocol.Teacher` with votes of the policy, as it is loaded at the time.

    Attributes:
        policy: samples.
        prompter: of the student.
        samples: votes a decision.
        temperature: of sampling.
        seed: fixes all votes.
    """

    policy: Policy
    prompter: Prompter
    samples: int
    temperature: float
    seed: int

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Nothing can fail."""
        return {}

    @property
    def concurrency(self) -> int:
        """It plays and votes in turn."""
        return 1

    def check(self) -> None:
        """The student is always there."""

    def reports(
        self, trajectories: Sequence[Trajectory], *, max_actions: int, every_turn: bool, lessons: bool = False
    ) -> list[Report]:
        """Names the turns where the vote went against what was done, the clearest first; writes no lessons.

        Raises:
            ValueError: lessons are asked for.
        """
        if lessons:
            raise ValueError(
                "the student as its own teacher votes on actions and writes no lessons; set "
                "config.knobs.lesson_weight=0, choose another teacher, or, for a student that can write, "
                "config.teacher.self_mode='words'"
            )
        places = [(i, t) for i, trajectory in enumerate(trajectories) for t in range(len(trajectory.turns))]
        votes = self._votes([(i, t, trajectories[i].turns[t].context_ids) for i, t in places])
        found: list[list[tuple[float, Remark]]] = [[] for _ in trajectories]
        for (index, turn), (action, share) in zip(places, votes, strict=True):
            if action and (every_turn or is_mismatch(trajectories[index].turns[turn].action, action)):
                found[index].append((share, Remark(turn, action)))
        return [_report(remarks, None if every_turn else max_actions) for remarks in found]

    def recovery_actions(self, situations: Sequence[Situation]) -> list[str | None]:
        contexts = [
            (i, len(s.history), self.prompter.context(s.history, s.observation)) for i, s in enumerate(situations)
        ]
        return [action for action, _ in self._votes(contexts)]

    def _action(self, sample: Sample) -> str | None:
        return self.prompter.wording.parse(self.prompter.chat.decode(sample.response_ids)) if sample.ended else None

    def _votes(self, contexts: Sequence[tuple[int, int, np.ndarray]]) -> list[tuple[str | None, float]]:
        """For each (session, turn, context) the action most often said, and its share of the votes."""
        counts: list[Counter[str]] = [Counter() for _ in contexts]
        requests = [
            Request(session, ids, request_seed(self.seed, session, turn, vote))
            for session, turn, ids in contexts
            for vote in range(self.samples)
        ]
        for vote, sample in enumerate(self.policy.sample(requests, temperature=self.temperature)):
            action = self._action(sample)
            if action:
                counts[vote // self.samples][action] += 1
        return [_winner(count, self.samples) for count in counts]


class WritingSelfTeacher(WordsTeacher):
    """Implements `teachers.protocol.Teacher` with what the student, as it is loaded at the time, answers in words.

    Attributes:
        student: whose weights are used.
        writer: samples with those weights, and has room for long questions and answers.
        seed: fixes all answers; equal questions get equal ones.
    """

    def __init__(
        self, student: Sampler, writer: Sampler, prompter: Prompter, *, context_tokens: int, failure_share: float,
        seed: int,
    ):  # fmt: skip
        super().__init__(prompter, context_tokens)
        self.student, self.writer, self.seed = student, writer, seed
        self._outcomes = Outcomes(
            failure_share,
            "the student as its own teacher",
            "A larger student, config.teacher.kind=served or self_mode='votes' may do better",
        )

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Questions since the start by "job/outcome": "ok", "unreadable" or "too_long"."""
        return dict(self._outcomes.counts)

    @property
    def concurrency(self) -> int:
        """It plays and writes in turn."""
        return 1

    @property
    def structured(self) -> bool:
        """The form of an answer is asked for in words."""
        return False

    def check(self) -> None:
        """The student is always there."""

    def ask(self, job: str, questions: Sequence[Question], read: Callable[[int, str], R | None]) -> list[R | None]:
        """See `WordsTeacher.ask`.

        Raises:
            TeacherFailure: too many of the latest answers of this job could not be read.
        """
        if self.writer.params is not self.student.params:
            self.writer.load(self.student.params)
        ids = [self._question_ids(question) for question in questions]
        fitting = [index for index, context in enumerate(ids) if len(context) <= self._most_context]
        requests = [Request((job, i), ids[i], request_seed(self.seed, zlib.crc32(ids[i].tobytes()))) for i in fitting]
        answers = dict(zip(fitting, self.writer.sample(requests, temperature=TEMPERATURE), strict=True))
        results = [self._judge(job, index, answers.get(index), read) for index in range(len(questions))]
        self._outcomes.check(job)
        return results

    def _judge(self, job: str, index: int, answer: Sample | None, read: Callable[[int, str], R | None]) -> R | None:
        if answer is None:
            self._outcomes.add(job, "too_long", f"a question of more than {self._most_context} tokens")
            return None
        words = self.prompter.chat.decode(answer.response_ids) if answer.ended else None
        result = None if words is None else read(index, words)
        self._outcomes.add(job, "unreadable" if result is None else "ok", "its answer is not what was asked for")
        return result

    def _question_ids(self, question: Question) -> np.ndarray:
        return self.prompter.chat.conversation(question.messages)

    @property
    def _most_context(self) -> int:
        return self.context_tokens - self.writer.max_new

    def _answer_tokens(self, wanted: int) -> int:
        return self.writer.max_new


def _winner(count: Counter[str], samples: int) -> tuple[str | None, float]:
    if not count:
        return None, 0.0
    action, votes = min(count.items(), key=lambda item: (-item[1], item[0]))
    return action, votes / samples


def _report(remarks: list[tuple[float, Remark]], most: int | None) -> Report:
    ranked = sorted(remarks, key=lambda item: (-item[0], item[1].turn))
    return Report(tuple(sorted((remark for _, remark in ranked[:most]), key=lambda remark: remark.turn)))
