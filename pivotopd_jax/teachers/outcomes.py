"""Counts what came of each call, and stops a run whose teacher fails too often."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque

from pivotopd_jax.teachers.protocol import TeacherFailure

WINDOW = 200
FEWEST = 20


class Outcomes:
    """What came of calls, by job ("report", "recovery", "score"); any number of threads may add to it.

    Attributes:
        counts: "job/outcome" → calls since the start. "ok" and "cached" are good; every other outcome is a failure.
        failure_share: failures allowed among the last 200 calls of a job, once there are 20.
        teacher: who it is, and where, for messages.
        advice: what to do if it fails, likewise.
    """

    GOOD = frozenset({"ok", "cached"})

    def __init__(self, failure_share: float, teacher: str, advice: str):
        self.counts: Counter[str] = Counter()
        self.failure_share, self.teacher, self.advice = failure_share, teacher, advice
        self._recent: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=WINDOW))
        self._why: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, job: str, outcome: str, why: str = "") -> None:
        """Counts one call; `why` describes a failure in words that hold no secret."""
        with self._lock:
            self.counts[f"{job}/{outcome}"] += 1
            self._recent[job].append(outcome)
            if outcome not in self.GOOD:
                self._why[job] = why or outcome

    def check(self, job: str) -> None:
        """To be called when a batch of calls is done.

        Raises:
            TeacherFailure: too many of the latest calls failed.
        """
        with self._lock:
            recent = list(self._recent[job])
        failed = Counter(outcome for outcome in recent if outcome not in self.GOOD)
        if len(recent) < FEWEST or failed.total() <= self.failure_share * len(recent):
            return
        kinds = ", ".join(f"{kind} {count}" for kind, count in failed.most_common())
        raise TeacherFailure(
            f"{failed.total()} of the last {len(recent)} {job} calls to {self.teacher} failed ({kinds}; the last "
            f"one: {self._why[job]}); config.teacher.failure_share allows {self.failure_share:g}. {self.advice}"
        )
