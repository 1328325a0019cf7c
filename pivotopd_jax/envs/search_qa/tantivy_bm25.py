"""BM25 by tantivy: passages and their index stay on disk and are mapped, so that processes share their pages.

Words are those of `retrieval.terms`, as for `Bm25`. Scores differ from its ones: tantivy's k1 = 1.2 and b = 0.75 cannot
be set (bm25s has k1 = 1.5, b = 0.75), it counts lengths above 40 words roughly, in one byte, as Lucene does, and keeps
the constant factor k1 + 1 that bm25s leaves out. The order of hits may differ with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count, islice
from pathlib import Path

import tantivy
from tantivy import Occur, Query

from pivotopd_jax.envs.row_files import DataError
from pivotopd_jax.envs.search_qa.passages import Passage
from pivotopd_jax.envs.search_qa.retrieval import Hit, terms

HEAP_BYTES = 512 << 20
"""What a writer collects before it writes a segment."""
BATCH = 1_000
SPARE_HITS = 16
"""Asked for besides the wanted ones, since equal ones come in tantivy's order; most searches need no more."""
MAX_EQUAL = 4_096

_WORDS, _POSITION = "words", "position"


def _schema() -> tantivy.Schema:
    """Words as `terms` cut them, and the place in the corpus: merged segments are not in its order."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(_WORDS, tokenizer_name="whitespace", index_option="freq")
    builder.add_unsigned_field(_POSITION, fast=True)
    return builder.build()


_SCHEMA = _schema()


class TantivyBm25:
    """BM25 over passages on disk; read only, so that any thread may use it.

    Of equal scores (as tantivy gives them, in float32) the passage that is first in the corpus comes first, if no more
    than `MAX_EQUAL` passages score what the last hit does. Of more than that, which ones are hits is always the same
    in one index, but may be others in an index that was built elsewhere: how segments are merged depends on timing.
    """

    def __init__(self, directory: Path, passages: Sequence[Passage]) -> None:
        """Maps the index that `open_writer` and `add_passages` made of `passages`."""
        self._passages, self._searcher = passages, tantivy.Index.open(str(directory)).searcher()
        self._best = lru_cache(maxsize=4096)(self._search)

    def __len__(self) -> int:
        return len(self._passages)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `Retriever`; any text is only words here: queries are put together from terms and never parsed."""
        return [list(self._best(query, k)) for query in queries]

    def _search(self, query: str, k: int) -> tuple[Hit, ...]:
        known = Counter(term for term in terms([query])[0] if self._searcher.doc_freq(_WORDS, term))
        if not known or k < 1:
            return ()
        return tuple(Hit(self._passages[position], score) for score, position in self._ranked(_any_of(known), k)[:k])

    def _ranked(self, query: Query, k: int) -> list[tuple[float, int]]:
        """Scores and places in the corpus, the best first; whatever scores as the k-th does is there, too."""
        limit, most = min(k + SPARE_HITS, len(self)), min(k + MAX_EQUAL, len(self))
        hits = self._searcher.search(query, limit, count=False).hits
        while len(hits) == limit < most and hits[-1][0] == hits[k - 1][0]:
            limit = min(4 * limit, most)
            hits = self._searcher.search(query, limit, count=False).hits
        positions = self._searcher.fast_field_values(_POSITION, [address for _, address in hits])
        found = [(float(score), int(position)) for (score, _), position in zip(hits, positions, strict=True)]  # type: ignore[arg-type]
        return sorted(found, key=lambda hit: (-hit[0], hit[1]))


def open_writer(directory: Path) -> tantivy.IndexWriter:
    """Writes a new index; as a context it ends when all is written, and no thread of it goes on after an error.

    One thread, so that each segment that it writes is a piece of the corpus.
    """
    directory.mkdir()
    return tantivy.Index(_SCHEMA, path=str(directory)).writer(heap_size=HEAP_BYTES, num_threads=1)


def add_passages(writer: tantivy.IndexWriter, passages: Iterable[Passage]) -> Iterator[Passage]:
    """Adds `passages` in their order, and yields each; they are gone through once.

    Raises:
        DataError: none of them has a word in it.
    """
    position, rest, empty = count(), iter(passages), True
    for batch in iter(lambda: list(islice(rest, BATCH)), []):
        for passage, words in zip(batch, terms([passage.contents for passage in batch]), strict=True):
            empty = empty and not words
            writer.add_document(_document(words, next(position)))
            yield passage
    if empty:
        raise DataError(f"none of the {next(position):,} passages has a word in it; expected text")


def _document(words: Sequence[str], position: int) -> tantivy.Document:
    document = tantivy.Document()
    document.add_text(_WORDS, " ".join(words))
    document.add_unsigned(_POSITION, position)
    return document


def _any_of(words: Counter[str]) -> Query:
    """A word that is there twice counts twice."""
    return Query.boolean_query([(Occur.Should, _one(word, float(times))) for word, times in words.items()])


def _one(word: str, weight: float) -> Query:
    query = Query.term_query(_SCHEMA, _WORDS, word, index_option="freq")
    return query if weight == 1 else Query.boost_query(query, weight)
