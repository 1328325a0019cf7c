"""Counts what came of each call, and stops a run whose teacher fails too often."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

from pivotopd_jax.teachers.protocol import TeacherFailure

WINDOW = 200
FEWEST = 20


class Outcomes:
    """What came of calls, by job ("report", "recovery", "score").

    Attributes:
        counts: "job/outcome" → calls since the start. "ok" and "cached" are good; every other outcome is a failure.
        failure_share: failures allowed among the last 200 calls of a job, once there are 20.
        address: of the teacher, for messages.
    """

    GOOD = frozenset({"ok", "cached"})

    def __init__(self, failure_share: float, address: str):
        self.counts: Counter[str] = Counter()
        self.failure_share, self.address = failure_share, address
        self._recent: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=WINDOW))
        self._why: dict[str, str] = {}

    def add(self, job: str, outcome: str, why: str = "") -> None:
        """Counts one call; `why` describes a failure in words that hold no secret."""
        self.counts[f"{job}/{outcome}"] += 1
        self._recent[job].append(outcome)
        if outcome not in self.GOOD:
            self._why[job] = why or outcome

    def check(self, job: str) -> None:
        """To be called when a batch of calls is done.

        Raises:
            TeacherFailure: too many of the latest calls failed.
        """
        recent = self._recent[job]
        failed = Counter(outcome for outcome in recent if outcome not in self.GOOD)
        if len(recent) < FEWEST or failed.total() <= self.failure_share * len(recent):
            return
        kinds = ", ".join(f"{kind} {count}" for kind, count in failed.most_common())
        raise TeacherFailure(
            f"{failed.total()} of the last {len(recent)} {job} calls to the teacher at {self.address} failed ({kinds}; "
            f"the last one: {self._why[job]}); config.teacher.failure_share allows {self.failure_share:g}. See to the "
            "server, then start the run again: it goes on from its newest checkpoint"
        )
