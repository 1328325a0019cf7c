"""Search over passages by BM25 in this process, and the protocol that every retriever follows.

An index is built once into a directory and mapped from there, so that all processes of a machine share one copy. Left
out on purpose: corpora above 100,000 passages, which want an engine of their own behind the HTTP client.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

import bm25s
import numpy as np

from pivotopd_jax.envs.mapped import MappedRecords, write_records
from pivotopd_jax.envs.search_qa.data_files import DataError
from pivotopd_jax.envs.search_qa.passages import Passage, read_passages
from pivotopd_jax.files import user_cache, whole_directory

MAX_PASSAGES = 100_000
_FORMAT = f"1 bm25s {bm25s.__version__}"
"""Part of an index's name: an index of another form is never loaded."""


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

    def __init__(self, passages: Sequence[Passage], index: bm25s.BM25 | None = None) -> None:
        """Indexes `passages`, unless their `index` is given.

        Raises:
            DataError: none or too many of them, or none with a word in it.
        """
        _check_number(len(passages))
        self._passages, self._index = passages, index or _index(passages)
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
    return bm25s.tokenize(list(texts), stopwords="en", return_ids=False, show_progress=False)  # type: ignore[return-value]


def load_bm25(corpus: Path, cache: Path | None = None) -> Bm25:
    """The index of a corpus, built at the first call on this machine and mapped from then on.

    Args:
        corpus: .jsonl or .jsonl.gz file of passages.
        cache: directory in which indices are kept, each under a hash of its corpus; None for the user's own.

    Raises:
        DataError: a broken corpus, or one with more than `MAX_PASSAGES` passages.
        FileNotFoundError: no such file.
    """
    digest = hashlib.sha256(corpus.read_bytes() + _FORMAT.encode()).hexdigest()
    return _load(corpus, (cache or user_cache() / "search_qa") / digest[:32])


@lru_cache(maxsize=8)
def _load(corpus: Path, directory: Path) -> Bm25:
    if not directory.is_dir():
        _build(read_passages(corpus), directory)
    return Bm25(stored_passages(directory), bm25s.BM25.load(str(directory), mmap=True, show_progress=False))


def stored_passages(directory: Path) -> MappedRecords[Passage]:
    """The passages that were kept with an index."""
    return MappedRecords(directory, lambda record: Passage(*json.loads(record)))


def _build(passages: Sequence[Passage], directory: Path) -> None:
    _check_number(len(passages))
    with whole_directory(directory) as unfinished:
        _index(passages).save(str(unfinished), show_progress=False)
        write_records(unfinished, (json.dumps(passage).encode() for passage in passages))


def _index(passages: Sequence[Passage]) -> bm25s.BM25:
    words = terms([passage.contents for passage in passages])
    if not any(words):
        raise DataError(f"none of the {len(passages)} passages has a word in it; expected text")
    index = bm25s.BM25(method="lucene", backend="numpy")
    index.index(words, show_progress=False)
    return index


def _check_number(passages: int) -> None:
    if not 1 <= passages <= MAX_PASSAGES:
        raise DataError(
            f"the corpus has {passages:,} passages; BM25 in this process takes 1 to {MAX_PASSAGES:,}: serve a larger "
            "corpus with a retrieval server (Search-R1's /retrieve) and give its address as the retriever"
        )
