"""Work on threads comes back in an order that no clock decides."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from pivotopd_jax.rollout.stepping import Stepping


def slow(value: int, seconds: float) -> int:
    time.sleep(seconds)
    return value


def test_a_piece_is_taken_up_one_later_whatever_it_lasts():
    with Stepping[int](2) as stepping:
        stepping.begin(partial(slow, 0, 0.02))
        stepping.begin(partial(slow, 1, 0.0))
        assert stepping.taken(waiting=False) == []
        stepping.begin(partial(slow, 2, 0.0))
        assert stepping.taken(waiting=False) == [0, 1]
        stepping.begin(partial(slow, 3, 0.0))
        assert stepping.taken(waiting=True) == [2, 3]


def test_without_threads_work_is_done_where_it_begins():
    with Stepping[int](0) as stepping:
        here: list[int] = []
        stepping.begin(lambda: here.append(threading.get_ident()) or 5)
        assert here == [threading.get_ident()]
        assert stepping.taken(waiting=False) == [5]


@pytest.mark.parametrize("threads", [0, 2])
def test_a_failure_surfaces_once_and_nothing_runs_on(threads):
    ran: list[int] = []

    def fail() -> int:
        raise KeyError("broken")

    def work() -> None:
        with Stepping[int | None](threads) as stepping:
            stepping.begin(fail)
            for i in range(20):
                stepping.begin(lambda i=i: (time.sleep(0.01), ran.append(i))[1])
            stepping.taken(waiting=True)

    with pytest.raises(KeyError, match="broken"):
        work()
    count = len(ran)
    time.sleep(0.05)
    assert len(ran) == count < 20
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("environments")]


def test_fewer_than_no_threads_are_refused():
    with pytest.raises(ValueError, match="-1 threads"):
        Stepping(-1)
