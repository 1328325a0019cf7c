"""Which response is under way in which row of the cache, and what the rows hold."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pivotopd_jax.sampling.policy import Request, Sample


def bucket(length: int, smallest: int) -> int:
    """The smallest power of two that is ≥ `length` and ≥ `smallest`."""
    return max(smallest, 1 << max(0, length - 1).bit_length())


def common_prefix(left: np.ndarray, right: np.ndarray) -> int:
    """Number of leading ids that two id arrays share."""
    shortest = min(len(left), len(right))
    differ = np.flatnonzero(left[:shortest] != right[:shortest])
    return int(differ[0]) if len(differ) else shortest


@dataclass(eq=False)
class Job:
    """A response under way.

    Attributes:
        request: what was asked for.
        owner: the stream that asked.
        context: `[context_length]` int32.
        slot: its row of the cache; −1 while it waits for one.
        read: tokens of the context that the row holds. The last one is left to decoding, which draws from it.
        twin: an earlier job with the same context, whose row is copied once it has been read.
        ids, log_probs: what has been decoded, in pieces.
        made: tokens of it.
        result: the response, once it has ended.
    """

    request: Request
    owner: Any
    context: np.ndarray
    slot: int = -1
    read: int = 0
    twin: Job | None = None
    ids: list[np.ndarray] = field(default_factory=list)
    log_probs: list[np.ndarray] = field(default_factory=list)
    made: int = 0
    result: Sample | None = None

    @property
    def ready(self) -> bool:
        """Whether decoding may begin."""
        return self.read == len(self.context) - 1

    def add(self, ids: np.ndarray, log_probs: np.ndarray) -> None:
        """Appends a piece of the response."""
        self.ids.append(ids)
        self.log_probs.append(log_probs)
        self.made += len(ids)

    def end(self, *, ended: bool) -> Sample:
        """Makes the response of its pieces."""
        self.result = Sample(np.concatenate(self.ids), np.concatenate(self.log_probs), ended)
        return self.result


class Slots:
    """The rows of a cache.

    A session comes back to the row that it was in before, as long as no other has needed that one: whoever has not been
    there for longest makes room first.

    Attributes:
        jobs: of each row; None where nothing is under way.
        held: `[held_length]` int32 of each row, the tokens whose keys and values it holds.
        twins: whether of equal contexts only one is read.
    """

    def __init__(self, count: int, parts: int, *, twins: bool = True):
        self.count, self.parts, self._part, self.twins = count, parts, count // parts, twins
        self.jobs: list[Job | None] = [None] * count
        self.held = [np.zeros(0, np.int32)] * count
        self._slot_of: dict[Hashable, int] = {}
        self._first: dict[tuple[int, bytes], Job] = {}

    def seat(self, waiting: list[Job]) -> tuple[list[Job], list[Job]]:
        """Gives rows to as many of `waiting` as there is room for; returns those, and the others in their order.

        Of several that ask for one session, each waits until the one before has ended.
        """
        seated = [job for job in waiting if self._sit(job, self._slot_of.get(job.request.session))]
        fresh = [job for job in waiting if job.slot < 0 and job.request.session not in self._slot_of]
        free = self._free() if fresh else []
        for job in fresh:
            if free and job.request.session not in self._slot_of:
                slot = min(free, key=self._busy_beside)
                free.remove(slot)
                self._sit(job, slot)
                seated.append(job)
        return seated, [job for job in waiting if job.slot < 0]

    def _sit(self, job: Job, slot: int | None) -> bool:
        if slot is None or self.jobs[slot] is not None:
            return False
        known = self._slot_of.pop(job.request.session, None) is not None
        if not known:
            self._slot_of = {session: other for session, other in self._slot_of.items() if other != slot}
        self._slot_of[job.request.session] = slot  # last: dict order is age
        self.jobs[slot], job.slot = job, slot
        job.read = min(common_prefix(self.held[slot], job.context), len(job.context) - 1)
        self.held[slot] = job.context[: job.read]
        if not known and self.twins:
            self._look_for_twin(job)
        return True

    def _free(self) -> list[int]:
        """Rows without a job: those that no session has, then the others by age."""
        owned = set(self._slot_of.values())
        unused = [slot for slot in range(self.count) if slot not in owned and self.jobs[slot] is None]
        return unused + [slot for slot in self._slot_of.values() if self.jobs[slot] is None]

    def _busy_beside(self, slot: int) -> int:
        first = slot // self._part * self._part
        return sum(job is not None for job in self.jobs[first : first + self._part]) if self.parts > 1 else 0

    def _look_for_twin(self, job: Job) -> None:
        """Rollouts of one task begin alike: one reads the beginning, the others copy it."""
        key = job.slot // self._part, job.context.tobytes()
        twin = self._first.get(key)
        if twin is not None and not job.ready and self.twin_holds(job, twin) is not None:
            job.twin = twin
        else:
            self._first[key] = job

    def twin_holds(self, job: Job, twin: Job) -> bool | None:
        """Whether the row of `twin` holds all that `job` has to read: yes, not yet, or (None) it never will."""
        if common_prefix(self.held[twin.slot], job.context) >= len(job.context) - 1:
            return True
        return False if self.jobs[twin.slot] is twin else None

    def leave(self, job: Job) -> None:
        """The job has ended, or was given up."""
        self.jobs[job.slot] = None

    def forget(self) -> None:
        """Nothing that the rows hold counts any more."""
        self.held = [np.zeros(0, np.int32)] * self.count
        self._slot_of, self._first = {}, {}

    def laid_out(self, slots: Iterable[int], rows: int) -> Iterator[list[tuple[int, int]]]:
        """`slots` in batches of at most `rows`, of each part equally many: (place in the batch, slot) of each."""
        each = rows // self.parts
        parts: list[list[int]] = [[] for _ in range(self.parts)]
        for slot in slots:
            parts[slot // self._part].append(slot)
        for start in range(0, max(map(len, parts)), each):
            chosen = [part[start : start + each] for part in parts]
            yield [(p * each + i, slot) for p, part in enumerate(chosen) for i, slot in enumerate(part)]

    def local(self, slot: int) -> int:
        """The place of a row within its part."""
        return slot % self._part

    @property
    def padding(self) -> int:
        """A place that no row has."""
        return self._part
