"""Plans for search-based question answering: how many turns a moment is from the right answer, and what to do next.

Success is the right answer after every supporting passage was seen: an answer without them would be a guess. Plans use
one support's own query at a time. In a generated encyclopedia that is the name by which the question or the support
before speaks of it. For a real question it is the question itself, a support's title, alone or with the question, or
the support's own first words.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from pivotopd_jax.envs.search_qa.answers import normalise_answer
from pivotopd_jax.envs.search_qa.engine import TOP_K, VERBS, SearchSnapshot
from pivotopd_jax.envs.search_qa.passages import Passage
from pivotopd_jax.envs.search_qa.questions import Question
from pivotopd_jax.envs.search_qa.retrieval import Retriever

Known = frozenset[Passage]
"""The passages that were seen."""

MAX_QUERY_CHARACTERS = 400

_NAME = re.compile(r"\b[A-Z][\w'-]*(?: [A-Z][\w'-]*)+")
"""Words with capitals that follow one another."""


class OwnQuery(NamedTuple):
    """A query that a plan may use.

    Attributes:
        text: what is searched for.
        name: what must have been read before it can be typed; "" for nothing.
        before: the passage in which it was read; None where any passage or the question may have said it.
        shows: ids of the passages that it shows.
    """

    text: str
    name: str
    before: Passage | None
    shows: frozenset[str]


class SearchQAPlanner:
    """A `Planner` of questions.

    Args:
        top_k: passages that a search shows.
        remembered: questions whose own queries are kept.
    """

    def __init__(self, *, top_k: int = TOP_K, remembered: int = 4096) -> None:
        self._top_k = top_k
        self._queries: Callable[[Retriever, Question], tuple[OwnQuery, ...]] = lru_cache(maxsize=remembered)(self._own)

    def observed(self, snapshot: SearchSnapshot) -> Known:
        """The passages that searches had shown by then."""
        return snapshot.seen

    def distance(self, snapshot: SearchSnapshot, known: Known | None = None) -> float:
        """L(s): least number of own queries that show all supports not yet seen, plus 1 for the answer.

        For a generated question that is the number of supports not yet seen, plus 1. Where the supports of a question
        are not known, only the answer counts: L is 1 until it is given, so that it tells good searches from bad ones
        no more than the score does.

        Returns:
            0 after a right answer; inf after a wrong one, if `known` does not hold the supports (or, where they are
            not known, a passage with the answer in it), or if no own query shows one of them.
        """
        if snapshot.done:
            return 0.0 if snapshot.won else math.inf
        if known is not None and not _answerable(snapshot.question, known):
            return math.inf
        plan = _cover(self._typeable(snapshot, known), _unread(snapshot, None))
        return math.inf if plan is None else len(plan) + 1.0

    def next_action(self, snapshot: SearchSnapshot, known: Known | None = None) -> str | None:
        """The first action of a shortest way; of several always the same one.

        Where what is `known` does not suffice, the first query that can be made from it and shows a support that was
        not read; else the question itself, as long as that shows anything new. No query, nor an answer, names what
        neither the question nor a known passage says; which of the names leads on is taken from the question's record.

        Returns:
            None after an answer, and when nothing that is known leads on.
        """
        if snapshot.done:
            return None
        question, unread = snapshot.question, _unread(snapshot, known)
        if not unread and (known is None or _answerable(question, known & snapshot.seen)):
            return f"answer[{question.golds[0]}]"
        typeable = self._typeable(snapshot, known)
        plan = _cover(typeable, unread) or [query for query in typeable if query.shows & unread]
        if plan:
            return f"search[{plan[0].text}]"
        seen = {passage.id for passage in snapshot.seen}
        fresh = known is not None and not self._queries(snapshot.retriever, question)[0].shows <= seen
        return f"search[{_cut(question.text)}]" if fresh else None

    def candidates(self, snapshot: SearchSnapshot) -> Sequence[str]:
        """A search for, and an answer with, each name that the question or a passage shown says."""
        shown = sorted(snapshot.seen, key=lambda passage: passage.id)
        texts = (snapshot.question.text, *(passage.contents for passage in shown))
        names = dict.fromkeys(name for text in texts for name in _NAME.findall(text))
        return [f"{verb}[{name}]" for verb in VERBS for name in names]

    def _typeable(self, snapshot: SearchSnapshot, known: Known | None) -> Sequence[OwnQuery]:
        """The own queries whose names were read."""
        queries = self._queries(snapshot.retriever, snapshot.question)
        if known is None:
            return queries
        said = [normalise_answer(text) for text in (snapshot.question.text, *(p.contents for p in known))]
        return [query for query in queries if _was_read(query, known, said)]

    def _own(self, retriever: Retriever, question: Question) -> tuple[OwnQuery, ...]:
        drafts = list(_drafts(question))
        found = retriever.search([text for text, _, _ in drafts], self._top_k)
        shown = [frozenset(hit.passage.id for hit in hits) for hits in found]
        return tuple(OwnQuery(*draft, shows) for draft, shows in zip(drafts, shown, strict=True))


def _drafts(question: Question) -> Iterable[tuple[str, str, Passage | None]]:
    """Text, name and passage before of each own query, the ones to prefer in front."""
    if question.queries:
        for query, before in zip(question.queries, (None, *question.supports), strict=False):
            yield query, query, before
        return
    asked, supports = _cut(question.text), [support for support in question.supports if support.contents]
    yield asked, "", None
    for support in supports:
        yield _cut(support.title), support.title, None
    for support in supports:
        yield _cut(f"{support.title} {asked}"), support.title, None
    for support in supports:
        yield _cut(f"{support.title} {support.text}"), support.title, support


def _cut(query: str) -> str:
    """On one line, and no longer than an action may be."""
    return " ".join(query.split())[:MAX_QUERY_CHARACTERS].strip()


def _was_read(query: OwnQuery, known: Known, said: Sequence[str]) -> bool:
    if query.before is not None:
        return query.before in known
    name = f" {normalise_answer(query.name)} "
    return not query.name or any(name in f" {text} " for text in said)


def _unread(snapshot: SearchSnapshot, known: Known | None) -> frozenset[str]:
    """Ids of the supports that this episode has not shown, or that are not known to have been."""
    read = snapshot.seen if known is None else snapshot.seen & known
    return frozenset(s.id for s in snapshot.question.supports) - {passage.id for passage in read}


def _answerable(question: Question, known: Known) -> bool:
    """Whether the answer rests on what is known."""
    if question.supports:
        return {support.id for support in question.supports} <= {passage.id for passage in known}
    golds = [f" {normalise_answer(gold)} " for gold in question.golds]
    return any(gold in f" {normalise_answer(passage.contents)} " for passage in known for gold in golds)


def _cover(queries: Sequence[OwnQuery], unread: frozenset[str]) -> Sequence[OwnQuery] | None:
    """The fewest queries that show all of `unread`, the first such choice; None if there is none."""
    useful = [query for query in queries if query.shows & unread]
    for size in range(len(unread) + 1):
        for chosen in itertools.combinations(useful, size):
            if unread <= frozenset().union(*(query.shows for query in chosen)):
                return chosen
    return None
