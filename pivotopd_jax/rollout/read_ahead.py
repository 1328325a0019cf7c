"""Reports asked for while other episodes are still being played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from pivotopd_jax.methods.method import Annotation
from pivotopd_jax.records import Trajectory
from pivotopd_jax.rollout.annotate import questions
from pivotopd_jax.teachers.protocol import Report, Situation, Teacher

MOST_THREADS = 1024
"""One a question, so that none waits here: the teacher itself bounds what is under way, and for how long."""


class ReadAhead:
    """A teacher of one step, whose reports on a finished trajectory are under way before they are asked for.

    To be used as a context; a teacher that cannot be asked meanwhile (`concurrency` 1) is asked when it is its turn.

    Attributes:
        teacher: that is asked.
        annotation: what will be asked of it.
    """

    def __init__(self, teacher: Teacher, annotation: Annotation | None):
        self.teacher, self.annotation = teacher, annotation
        ahead = teacher.concurrency > 1 and annotation is not None
        self._pool = ThreadPoolExecutor(MOST_THREADS, "reports") if ahead else None
        self._begun: list[tuple[Trajectory, Mapping[str, Any], Future[list[Report]]]] = []

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self._pool:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def begin(self, trajectory: Trajectory) -> None:
        """Asks about a finished trajectory, without waiting for the answer."""
        if self._pool is None or self.annotation is None:
            return
        for question in questions(self.annotation):
            self._begun.append(
                (trajectory, question, self._pool.submit(self.teacher.reports, [trajectory], **question))
            )

    def reports(self, trajectories: Sequence[Trajectory], **question: Any) -> list[Report]:
        """See `teachers.protocol.Teacher.reports`; waits for what `begin` has asked, and asks the rest.

        Raises:
            TeacherFailure: too many failed.
        """
        begun = {id(trajectory): future for trajectory, asked, future in self._begun if asked == question}
        rest = [t for t in trajectories if id(t) not in begun]
        answers = dict(zip(map(id, rest), self.teacher.reports(rest, **question) if rest else [], strict=True))
        return [begun[id(t)].result()[0] if id(t) in begun else answers[id(t)] for t in trajectories]

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Those of the teacher."""
        return self.teacher.outcomes

    @property
    def concurrency(self) -> int:
        """That of the teacher."""
        return self.teacher.concurrency

    def check(self) -> None:
        """Checks the teacher."""
        self.teacher.check()

    def recovery_actions(self, situations: Sequence[Situation]) -> list[str | None]:
        """Asks the teacher."""
        return self.teacher.recovery_actions(situations)
