"""The planner against a brute-force search on generated tasks, by hand, and on the real questions."""

from __future__ import annotations

import math
import random

import pytest

from pivotopd_jax.envs.search_qa.engine import Inquiry, SearchQAEnv
from pivotopd_jax.envs.search_qa.generator import generate_encyclopedia
from pivotopd_jax.envs.search_qa.planner import SearchQAPlanner
from pivotopd_jax.envs.search_qa.questions import Question
from pivotopd_jax.envs.search_qa.retrieval import Bm25
from pivotopd_jax.envs.search_qa.world import SearchQA
from pivotopd_jax.records import Task

SIZES = [(2, 2, 6, 3), (2, 3, 12, 3), (3, 2, 12, 3), (4, 2, 14, 3), (3, 4, 20, 5)]
"""Hops, distractors, passages, passages a search."""


class BruteForce:
    """Least number of turns to a right answer after all supports were seen, by trying every name of every entity."""

    def __init__(self, book, top_k):
        supports = frozenset(book.question.supports)
        found = book.index.search(book.names, top_k)
        self.supports = supports
        self.shown = {supports & {hit.passage for hit in hits} for hits in found}

    def distance(self, seen):
        edge, reached, turns = {seen & self.supports}, set(), 1
        while self.supports not in edge:
            reached |= edge
            edge = {state | shown for state in edge for shown in self.shown} - reached
            if not edge:
                return math.inf
            turns += 1
        return turns


def drawn(seed, sizes):
    hops, distractors, passages, top_k = sizes
    book = generate_encyclopedia(seed, hops=hops, distractors=distractors, passages=passages, top_k=top_k)
    return book, Task(str(seed), book.question.kind, Inquiry(book.index, book.question))


def wander(env, book, chance):
    """Up to four searches for names, alone or in pairs, and for nothing."""
    for _ in range(chance.randrange(5)):
        words = chance.choice([1, 1, 2, 0])
        env.step(f"search[{' '.join(chance.sample(book.names, words)) or 'zebra'}]")


@pytest.mark.parametrize("sizes", SIZES)
def test_optimal_on_generated_tasks(sizes):
    """Sixty-five tasks of each size, 325 in all, each from its start and from a state that a random player came to."""
    planner, env, chance = SearchQAPlanner(top_k=sizes[3]), SearchQAEnv(top_k=sizes[3]), random.Random(str(sizes))
    for seed in range(65):
        book, task = drawn(seed, sizes)
        brute = BruteForce(book, sizes[3])
        env.reset(task)
        assert planner.distance(env.snapshot()) == brute.distance(frozenset()) == sizes[0] + 1
        wander(env, book, chance)
        seen = env.snapshot().seen
        assert planner.distance(env.snapshot()) == brute.distance(seen), (seed, seen)
        assert planner.distance(env.snapshot()) == len(set(book.question.supports) - seen) + 1


@pytest.mark.parametrize("expert", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_following_it_lowers_the_distance_by_one(sizes, expert):
    planner, env = SearchQAPlanner(top_k=sizes[3]), SearchQAEnv(top_k=sizes[3])
    chance = random.Random(f"follow {sizes}")
    for seed in range(25):
        book, task = drawn(seed, sizes)
        env.reset(task)
        wander(env, book, chance)
        distance, won = planner.distance(env.snapshot()), False
        while True:
            known = planner.observed(env.snapshot()) if expert else None
            action = planner.next_action(env.snapshot(), known)
            if action is None:
                break
            won = env.step(action).won
            distance -= 1
            assert planner.distance(env.snapshot()) == distance
        assert (distance, won) == (0, True)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_expert_says_only_what_was_read(sizes):
    planner, env = SearchQAPlanner(top_k=sizes[3]), SearchQAEnv(top_k=sizes[3])
    chance = random.Random(f"read {sizes}")
    for seed in range(25):
        book, task = drawn(seed, sizes)
        read = env.reset(task).text
        wander(env, book, chance)
        read += "".join(passage.contents for passage in env.snapshot().seen)
        while not env.snapshot().done:
            action = planner.next_action(env.snapshot(), planner.observed(env.snapshot())) or ""
            assert action[action.index("[") + 1 : -1] in read
            read += env.step(action).observation.text


@pytest.mark.parametrize("sizes", SIZES)
def test_knowing_more_never_makes_it_farther(sizes):
    planner, env = SearchQAPlanner(top_k=sizes[3]), SearchQAEnv(top_k=sizes[3])
    for seed in range(15):
        book, task = drawn(seed, sizes)
        env.reset(task)
        snapshots = [env.snapshot()]
        while not env.snapshot().done:
            env.step(planner.next_action(env.snapshot()) or "")
            snapshots.append(env.snapshot())
        for snapshot in snapshots:
            growing = [planner.distance(snapshot, later.seen) for later in snapshots]
            growing += [planner.distance(snapshot, frozenset(book.passages)), planner.distance(snapshot)]
            assert growing == sorted(growing, reverse=True)
            assert growing[-1] == growing[-2]


def test_hindsight(env, passages):
    """With all supports known from later on, a plan from the start; with one of them, a way on but no distance."""
    planner, start = SearchQAPlanner(top_k=1), env.snapshot()
    both = frozenset(passages[:2])
    assert planner.distance(start, both) == 3
    assert planner.distance(start, both - {passages[1]}) == math.inf
    assert planner.next_action(start, both) == "search[Who is the mother of the director of Red River?]"


def test_by_hand(env):
    planner, start = SearchQAPlanner(top_k=1), env.snapshot()
    asked = "Who is the mother of the director of Red River?"
    assert planner.distance(start) == 3
    assert planner.next_action(start) == f"search[{asked}]"
    for action, distance in ((f"search[{asked}]", 2), ("search[zebra]", 2), ("search[Ann Lee]", 1)):
        env.step(action)
        assert planner.distance(env.snapshot()) == distance
    assert planner.next_action(env.snapshot()) == "answer[Eva Lee]"
    read = env.snapshot()
    env.step("answer[e lee]")
    assert (planner.distance(env.snapshot()), planner.next_action(env.snapshot())) == (0, None)
    env.restore(read)
    env.step("answer[Ann Lee]")
    assert (planner.distance(env.snapshot()), planner.next_action(env.snapshot())) == (math.inf, None)
    env.restore(start)
    env.step("search[Ann Lee]")
    assert planner.distance(env.snapshot()) == 2
    assert planner.next_action(env.snapshot(), env.snapshot().seen) == f"search[{asked}]"


def test_one_search_may_show_both_supports(index, question):
    planner, env = SearchQAPlanner(top_k=4), SearchQAEnv(top_k=4)
    both = question._replace(text="Who is the mother of the director of Red River, Ann Lee?")
    env.reset(Task("t", "", Inquiry(index, both)))
    assert planner.distance(env.snapshot()) == 2
    env.step(planner.next_action(env.snapshot()) or "")
    assert planner.distance(env.snapshot()) == 1


def test_where_nothing_says_what_is_to_be_read(index, passages):
    planner, env = SearchQAPlanner(top_k=1), SearchQAEnv(top_k=1)
    env.reset(Task("t", "", Inquiry(index, Question("q", "nq", "Who is the director of Red River?", ("Ann Lee",)))))
    start = env.snapshot()
    assert (planner.distance(start), planner.next_action(start)) == (1, "answer[Ann Lee]")
    assert (planner.distance(start, frozenset()), planner.distance(start, frozenset(passages[3:]))) == (math.inf,) * 2
    assert planner.next_action(start, frozenset()) == "search[Who is the director of Red River?]"
    env.step("search[Who is the director of Red River?]")
    read = env.snapshot()
    assert planner.distance(read, read.seen) == 1
    assert planner.next_action(read, read.seen) == "answer[Ann Lee]"
    env.reset(Task("t", "", Inquiry(index, Question("q", "nq", "Who is the director of Red River?", ("Bo",)))))
    env.step("search[Who is the director of Red River?]")
    assert planner.next_action(env.snapshot(), env.snapshot().seen) is None


def test_a_support_that_nothing_finds(passages, question):
    """Its passage is not in the index that is searched, as may be so with a server."""
    planner, env = SearchQAPlanner(top_k=1), SearchQAEnv(top_k=1)
    env.reset(Task("t", "", Inquiry(Bm25(passages[:1]), question)))
    assert planner.distance(env.snapshot()) == math.inf
    assert planner.next_action(env.snapshot()) == f"search[{question.text}]"
    env.step(f"search[{question.text}]")
    assert planner.next_action(env.snapshot()) is None


def test_real_questions(search_qa_data, cache):
    """The oracle answers each one, a turn at a time; the expert never names a title that it has not read."""
    world = SearchQA(search_qa_data, cache=cache)
    env, planner, answered = world.make(), world.planner, 0
    for task in [task for split in world.splits for task in world.tasks(split)]:
        env.reset(task)
        distance = planner.distance(env.snapshot())
        assert 2 <= distance <= len(task.source.question.supports) + 1
        while (action := planner.next_action(env.snapshot())) is not None:
            env.step(action)
            distance -= 1
            assert planner.distance(env.snapshot()) == distance
        assert (distance, env.snapshot().won) == (0, True)
        env.reset(task)
        for _ in range(8):
            if (action := planner.next_action(env.snapshot(), planner.observed(env.snapshot()))) is None:
                break
            assert len(action) <= 408
            answered += env.step(action).won
    assert answered > 80


@pytest.mark.parametrize("sizes", SIZES)
def test_candidates_are_what_the_texts_suggest(sizes):
    """All of them would be carried out, and the right way is always among them."""
    planner, env = SearchQAPlanner(top_k=sizes[3]), SearchQAEnv(top_k=sizes[3])
    for seed in range(10):
        _, task = drawn(seed, sizes)
        env.reset(task)
        assert planner.candidates(env.snapshot()) == [
            f"{verb}[{task.source.question.queries[0]}]" for verb in ("search", "answer")
        ]
        while (action := planner.next_action(env.snapshot(), planner.observed(env.snapshot()))) is not None:
            candidates = planner.candidates(env.snapshot())
            assert action in candidates
            assert all(env.accepts(candidate) for candidate in candidates)
            env.step(action)
        assert env.snapshot().won
