"""Search over passages by BM25 in this process, and the protocol that every retriever follows.

Left out on purpose: corpora above 100,000 passages, which have an engine of their own (tantivy_bm25.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from pivotopd_jax.envs.row_files import DataError
from pivotopd_jax.envs.search_qa.passages import Passage

if TYPE_CHECKING:
    from bm25s import BM25

MAX_PASSAGES = 100_000
"""The most that are searched by bm25s, which scores every passage in each search."""


class Hit(NamedTuple):
    """A passage and how well it fits; more is better."""

    passage: Passage
    score: float


class Retriever(Protocol):
    """Finds passages. Deterministic: the same query always finds the same ones."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """For each query at most `k` passages, best first; none where nothing fits.

        Raises:
            RetrieverFailure: a retriever outside this process did not do its work.
        """
        ...


class Bm25:
    """BM25 as in Lucene, over passages that are in memory or mapped; read only, so that any thread may use it.

    Of equal scores the passage that is first in the corpus comes first.
    """

    def __init__(self, passages: Sequence[Passage], index: BM25 | None = None) -> None:
        """Indexes `passages`, unless their `index` is given.

        Raises:
            DataError: none or too many of them, or none with a word in it.
        """
        _check_number(len(passages))
        self._passages, self._index = passages, index or index_passages(passages)
        self._best = lru_cache(maxsize=4096)(self._search)

    def __len__(self) -> int:
        return len(self._passages)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `Retriever`; any text is only words here."""
        return [list(self._best(query, k)) for query in queries]

    def _search(self, query: str, k: int) -> tuple[Hit, ...]:
        known = [term for term in terms([query])[0] if term in self._index.vocab_dict]
        if not known:
            return ()
        scores = self._index.get_scores(known)
        hits = np.flatnonzero(scores > 0)
        best = hits[np.argsort(-scores[hits], kind="stable")[:k]]
        return tuple(Hit(self._passages[i], float(scores[i])) for i in best)


def terms(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text: lower case, two letters or more, without the commonest ones of English."""
    import bm25s  # runs JAX when it is imported; processes.join must come before

    return bm25s.tokenize(list(texts), stopwords="en", return_ids=False, show_progress=False)  # type: ignore[return-value]


def index_passages(passages: Sequence[Passage]) -> BM25:
    """Their index.

    Raises:
        DataError: none of them has a word in it.
    """
    import bm25s  # runs JAX when it is imported; processes.join must come before

    words = terms([passage.contents for passage in passages])
    if not any(words):
        raise DataError(f"none of the {len(passages)} passages has a word in it; expected text")
    index = bm25s.BM25(method="lucene", backend="numpy")
    index.index(words, show_progress=False)
    return index


def _check_number(passages: int) -> None:
    if not 1 <= passages <= MAX_PASSAGES:
        raise DataError(
            f"the corpus has {passages:,} passages; Bm25 takes 1 to {MAX_PASSAGES:,}: keep a larger one in a file and "
            "open it by load_bm25"
        )
