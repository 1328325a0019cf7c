"""A teacher that is asked in words and answers in words, whoever speaks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Trajectory
from pivotopd_jax.teachers.protocol import Report, Situation
from pivotopd_jax.teachers.report_reading import Wanted, read_action, read_report
from pivotopd_jax.teachers.teacher_prompts import (
    Messages,
    action_messages,
    action_schema,
    report_messages,
    report_schema,
)

R = TypeVar("R")

TEMPERATURE = 0.7
ACTION_TOKENS = 512
REPORT_TOKENS, TOKENS_A_STEP = 1536, 64


@dataclass(frozen=True)
class Question:
    """One thing asked.

    Attributes:
        messages: of a chat.
        answer_tokens: most tokens of the answer.
        schema: JSON schema of the answer, for those who can be held to one.
    """

    messages: Messages
    answer_tokens: int
    schema: dict[str, Any]


class WordsTeacher(ABC):
    """The part of `teachers.protocol.Teacher` that puts questions and reads the answers.

    Attributes:
        prompter: the student's; renders what the student is shown, and bounds what fits into a hint.
        context_tokens: longest question with its answer.
    """

    def __init__(self, prompter: Prompter, context_tokens: int):
        self.prompter, self.context_tokens = prompter, context_tokens

    @property
    @abstractmethod
    def structured(self) -> bool:
        """Whether answers are held to the schema of their question; else the form is asked for in words."""

    @abstractmethod
    def ask(self, job: str, questions: Sequence[Question], read: Callable[[int, str], R | None]) -> list[R | None]:
        """What `read` makes of each answer.

        Args:
            job: "report" or "recovery"; under which it is counted.
            questions: in any number.
            read: from the index of a question and the words of its answer; None where they are not what was asked for.

        Returns:
            None for each question that got no answer or one that could not be read.
        """

    def reports(
        self, trajectories: Sequence[Trajectory], *, max_actions: int, every_turn: bool, lessons: bool = False
    ) -> list[Report]:
        """One report a trajectory; an empty one where none could be had.

        Raises:
            TeacherFailure: too many failed.
        """
        questions, wanted = [], []
        for trajectory in trajectories:
            most = len(trajectory.turns) if every_turn else max_actions
            answer = self._answer_tokens(REPORT_TOKENS + TOKENS_A_STEP * most)
            messages, written = report_messages(
                trajectory, max_actions=most, every_turn=every_turn, lessons=lessons, structured=self.structured,
                most_tokens=self.context_tokens - answer,
            )  # fmt: skip
            questions.append(Question(messages, answer, report_schema(most, lessons)))
            wanted.append(Wanted(written.steps, most, lessons, self.words_bytes))
        found = self.ask("report", questions, lambda index, words: read_report(words, wanted[index]))
        return [report or Report() for report in found]

    def recovery_actions(self, situations: Sequence[Situation]) -> list[str | None]:
        """One action a situation, named from exactly what the student is shown; None where none could be had.

        Raises:
            TeacherFailure: too many failed.
        """
        questions = []
        answer = self._answer_tokens(ACTION_TOKENS)
        for situation in situations:
            words = self.prompter.words(situation.history, situation.observation)
            messages = action_messages(words, structured=self.structured, most_tokens=self.context_tokens - answer)
            questions.append(Question(messages, answer, action_schema(self._shown_actions(situation))))
        return self.ask("recovery", questions, lambda _, words: read_action(words, self.words_bytes))

    @property
    def words_bytes(self) -> int:
        """Longest lesson or action in bytes: it takes at most a quarter of the student's prompt, and survives a cut."""
        return self.prompter.prompt_tokens // 4

    def _answer_tokens(self, wanted: int) -> int:
        return min(wanted, self.context_tokens // 4)

    def _shown_actions(self, situation: Situation) -> Sequence[str] | None:
        """The admissible actions, if the student is shown them: the teacher is to know no more."""
        return situation.observation.admissible if self.prompter.show_admissible else None
