"""Search-based question answering as a world: its questions by split, their episodes, and its planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random

from pivotopd_jax.envs.drawn import DrawnTasks
from pivotopd_jax.envs.search_qa import data_files
from pivotopd_jax.envs.search_qa.engine import TOP_K, Inquiry, SearchQAEnv
from pivotopd_jax.envs.search_qa.generator import check_sizes, generate_encyclopedia
from pivotopd_jax.envs.search_qa.http_retriever import HttpRetriever
from pivotopd_jax.envs.search_qa.passages import find_passages
from pivotopd_jax.envs.search_qa.planner import SearchQAPlanner
from pivotopd_jax.envs.search_qa.questions import SPLITS, TEST_SETS, Question, in_split, read_questions
from pivotopd_jax.envs.search_qa.retrieval import Retriever
from pivotopd_jax.envs.search_qa.stored import load_bm25
from pivotopd_jax.records import Task

GENERATED = {"train": 1_000_000, "validation": 1_200, "test": 1_200}
"""Splits of generated questions and their sizes."""

WHOLE = {"bamboogle": 125}
"""Sets small enough to be tested on as a whole, with their sizes."""


class SearchQA:
    """Questions, their episodes and their planner.

    Attributes:
        name: says which questions these are, for tables and logs.
        kinds: number of hops of generated questions; the seven test sets of real ones.
        splits: train, validation and test.
    """

    splits: Sequence[str] = SPLITS

    def __init__(
        self,
        source: str | Path = "generated",
        *,
        retriever: str = "",
        top_k: int = TOP_K,
        hops: int = 2,
        distractors: int = 2,
        passages: int = 12,
        test_questions: int = 0,
        cache: str | Path | None = None,
    ) -> None:
        """Checks the arguments; real questions and their index are loaded when tasks are asked for, once a process.

        Args:
            source: "generated" (no data needed; every question has an encyclopedia of its own), "real" (the directory
                that the environment variable SEARCH_QA_DATA names) or the path of such a directory.
            retriever: address of a retrieval server for real questions; "" searches the directory's corpus by BM25 in
                this process.
            top_k: passages that a search shows.
            hops: the most that a generated question has; they have 2 to `hops`.
            distractors, passages: sizes of generated encyclopedias, as for `generate_encyclopedia`.
            test_questions: the first so many of each set of real questions are the test split, but of Bamboogle, which
                has 125, all; 0 takes all of all sets.
            cache: directory in which indices are kept; None for the user's own cache.

        Raises:
            ValueError: an argument out of range.
            FileNotFoundError: no questions, or no passages, where `source` says.
        """
        self._generated = source == "generated"
        if self._generated:
            check_sizes(hops, distractors, passages, top_k)
        if self._generated and retriever:
            raise ValueError(f"retriever={retriever!r}: generated questions are searched in this process; leave it ''")
        if top_k < 1 or test_questions < 0:
            raise ValueError(
                f"top_k={top_k}, test_questions={test_questions}: expected at least 1 passage and at least 0 questions"
            )
        self._directory = data_files.data_directory() if source == "real" else Path(source)
        if not self._generated:
            data_files.find(self._directory, need_corpus=not retriever)
        self._remote = HttpRetriever(retriever) if retriever else None
        self._cache = None if cache is None else Path(cache)
        self._sizes, self._top_k = (hops, distractors, passages, top_k), top_k
        self._test_questions = test_questions
        self._planner = SearchQAPlanner(top_k=top_k)
        self._tasks: dict[str, Sequence[Task]] = {}
        self.kinds: Sequence[str] = tuple(f"{n} hops" for n in range(2, hops + 1)) if self._generated else TEST_SETS
        drawn = f"generated, 2 to {hops} hops, {distractors} distractors, {passages} passages"
        where = f"real, {retriever or 'bm25'}"
        self.name = f"search_qa ({drawn if self._generated else where}, top {top_k})"

    def tasks(self, split: str) -> Sequence[Task]:
        """The tasks of a split, in a fixed order.

        Raises:
            ValueError: no such split, with the ones that exist; or a broken file.
        """
        if split not in SPLITS:
            raise ValueError(f"{self.name}: split {split!r} is not known; choose one of {', '.join(SPLITS)}")
        if split not in self._tasks:
            self._tasks[split] = self._drawn(split) if self._generated else self._real(split)
        return self._tasks[split]

    def make(self) -> SearchQAEnv:
        """A fresh episode holder."""
        return SearchQAEnv(top_k=self._top_k)

    @property
    def planner(self) -> SearchQAPlanner:
        """The planner of these questions."""
        return self._planner

    def _drawn(self, split: str) -> Sequence[Task]:
        """Each in an encyclopedia of its own."""
        return DrawnTasks(GENERATED[split], lambda seed: generated_task(seed, split, *self._sizes))

    def _real(self, split: str) -> Sequence[Task]:
        files = data_files.find(self._directory, need_corpus=self._remote is None)
        retriever: Retriever = self._remote or load_bm25(files.corpus, self._cache)  # type: ignore[arg-type]
        asked: Sequence[Question] = in_split(load_questions(files.questions, files.corpus), split)
        if split == "test" and self._test_questions:
            asked = first_of_each(asked, {kind: self._test_questions for kind in TEST_SETS} | WHOLE)
        return tuple(Task(f"search-{question.id}", question.kind, Inquiry(retriever, question)) for question in asked)


def first_of_each(questions: Iterable[Question], limits: Mapping[str, int]) -> list[Question]:
    """The first questions of each kind, as many as `limits` says, in their order."""
    taken: Counter[str] = Counter()
    chosen = []
    for question in questions:
        taken[question.kind] += 1
        if taken[question.kind] <= limits[question.kind]:
            chosen.append(question)
    return chosen


@lru_cache(maxsize=8)
def load_questions(questions: Path, corpus: Path | None) -> Sequence[Question]:
    """The questions of a directory with their supports, once a process."""
    asked = read_questions(questions)
    if corpus is None:
        return tuple(asked)
    supports = {support.id for question in asked for support in question.supports}
    return tuple(read_questions(questions, find_passages(corpus, supports)))


@lru_cache(maxsize=512)
def generated_task(seed: int, split: str, hops: int, distractors: int, passages: int, top_k: int) -> Task:
    """One generated question of 2 to `hops` hops; the other arguments are those of `generate_encyclopedia`."""
    number = Random(f"hops of {split} {seed}").randint(2, hops)
    drawn = generate_encyclopedia(
        seed, hops=number, distractors=distractors, passages=passages, top_k=top_k, split=split
    )
    return Task(f"search-{split}-{seed}", drawn.question.kind, Inquiry(drawn.index, drawn.question))
