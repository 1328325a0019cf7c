"""Who sits where in the cache."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from pivotopd_jax.sampling.policy import Request
from pivotopd_jax.sampling.slots import Job, Slots, bucket, common_prefix


def job(session: Hashable, *ids: int) -> Job:
    context = np.asarray(ids or (1, 2, 3), np.int32)
    return Job(Request(session, context, 0), None, context)


def seat(slots: Slots, *jobs: Job) -> list[int]:
    return [j.slot for j in slots.seat(list(jobs))[0]]


def end(slots: Slots, *jobs: Job) -> None:
    for j in jobs:
        slots.held[j.slot] = j.context
        slots.leave(j)


def test_a_session_finds_what_it_left_and_the_oldest_makes_room():
    slots = Slots(3, 1)
    first = [job("a", 1, 2, 3), job("b", 4, 5), job("c", 6, 7)]
    assert seat(slots, *first) == [0, 1, 2]
    end(slots, *first)
    again = job("a", 1, 2, 8, 9)
    assert seat(slots, again) == [0]
    assert again.read == 2
    new = job("d", 4, 5, 6)
    assert seat(slots, new) == [1]  # that of "b", whom nobody has asked for since
    assert new.read == 2
    assert seat(slots, job("b", 4, 5)) == [2]


def test_one_that_continues_comes_before_one_that_is_new():
    slots = Slots(2, 1)
    first = [job("a"), job("b")]
    seat(slots, *first)
    end(slots, *first)
    new, old = job("new"), job("a")
    seated, waiting = slots.seat([new, old])
    assert ([j.slot for j in seated], waiting) == ([0, 1], [])
    assert old.slot == 0


def test_of_one_session_each_waits_for_the_one_before():
    slots = Slots(4, 1)
    jobs = [job("a"), job("a"), job("b"), job("a")]
    seated, waiting = slots.seat(jobs)
    assert seated == [jobs[0], jobs[2]]
    assert waiting == [jobs[1], jobs[3]]
    end(slots, jobs[0])
    seated, waiting = slots.seat(waiting)
    assert (seated, waiting) == ([jobs[1]], [jobs[3]])
    assert jobs[1].slot == jobs[0].slot


def test_equal_contexts_are_twins_within_a_part():
    slots = Slots(4, 2)
    jobs = [job(i, 1, 2, 3, 4) for i in range(4)]
    assert sorted(seat(slots, *jobs)) == [0, 1, 2, 3]
    by_part = [sorted((j for j in jobs if j.slot // 2 == part), key=jobs.index) for part in range(2)]
    for first, second in by_part:
        assert first.twin is None
        assert second.twin is first
        assert slots.twin_holds(second, first) is False
        slots.held[first.slot] = first.context[:3]
        assert slots.twin_holds(second, first) is True
    slots.held[jobs[0].slot] = jobs[0].context[:1]
    slots.leave(jobs[0])
    assert slots.twin_holds(by_part[0][1], jobs[0]) is None


def test_where_every_context_is_read_there_are_no_twins():
    slots, jobs = Slots(2, 1, twins=False), [job(0), job(1)]
    seat(slots, *jobs)
    assert [j.twin for j in jobs] == [None, None]


def test_new_ones_spread_over_the_parts():
    slots = Slots(8, 4)
    assert sorted(slot // 2 for slot in seat(slots, *(job(i, i, 1) for i in range(4)))) == [0, 1, 2, 3]


def test_batches_hold_equally_many_of_each_part():
    slots = Slots(8, 2)
    assert list(slots.laid_out([0, 2, 3, 5], 4)) == [[(0, 0), (1, 2), (2, 5)], [(0, 3)]]
    assert (slots.local(5), slots.padding) == (1, 4)


def test_helpers():
    assert [bucket(n, 16) for n in (1, 16, 17, 64, 65)] == [16, 16, 32, 64, 128]
    assert common_prefix(np.array([1, 2, 3]), np.array([1, 2, 4, 5])) == 2
    assert common_prefix(np.array([1, 2]), np.array([1, 2, 4])) == 2
