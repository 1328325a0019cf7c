"""BM25 over a catalogue, under two named rankings.

`lucene`: what WebShop's own search engine answers, to the last tie. Term weights and sums are rounded where Lucene
rounds them, and document lengths are kept in one byte, as it keeps them. `five_fields`: the setting of the paper that
this project reproduces (k1 1.5, b 0.75; title, description, category, bullets and options), with exact lengths.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pivotopd_jax.envs.webshop.analysis import terms
from pivotopd_jax.envs.webshop.products import Product
from pivotopd_jax.envs.webshop.shortlist import Word, impact_bytes, shortlist

MAX_HITS = 50
LARGE = 1 << 16
"""Documents; from here on a search scores only a shortlist exactly."""
FREQUENT = 1 / 16
"""Share of the documents of a large index that hold a frequent word, which then has a byte for every document."""


@dataclass(frozen=True)
class Ranking:
    """How documents are made and weighed.

    Attributes:
        k1: saturation of term counts.
        b: strength of length normalisation, 0 to 1.
        document: the indexed text of a product.
        coarse_lengths: document lengths rounded to what fits in a byte, as Lucene stores them.
    """

    k1: float
    b: float
    document: Callable[[Product], str]
    coarse_lengths: bool


def _options_text(product: Product) -> str:
    return ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())


def _upstream_document(product: Product) -> str:
    first_bullet = product.bullets[0] if product.bullets else ""
    return " ".join([product.title, product.description, first_bullet, _options_text(product)]).lower()


def _five_fields(product: Product) -> str:
    bullets = " ".join(product.bullets)
    fields = [product.title, product.description, product.product_category, bullets, _options_text(product)]
    return " ".join(fields).lower()


RANKINGS: Mapping[str, Ranking] = {
    "lucene": Ranking(0.9, 0.4, _upstream_document, True),
    "five_fields": Ranking(1.5, 0.75, _five_fields, False),
}


def one_byte_length(length: int) -> int:
    """A document length after Lucene stored it in a byte: exact below 40, then four significant bits above 24."""
    excess = length - 24
    if excess < 16:
        return length
    shift = excess.bit_length() - 4
    return 24 + (excess >> shift << shift)


class _Arrays(NamedTuple):
    """Where each term occurs.

    Attributes:
        keys: `[terms]` uint64, ascending, see `term_key`.
        starts: `[terms + 1]` int64, where the postings of each begin.
        documents: `[postings]` int32, ascending for each term.
        saturations: `[postings]` float32, term counts times the documents' length norms.
        order: `[documents]` int32, the position of each in the catalogue.
        frequent: `[frequent terms]` int64, places in `keys`, ascending; none if there are few documents.
        impacts: `[frequent terms, documents]` uint8, see `shortlist.impact_bytes`.
    """

    keys: np.ndarray
    starts: np.ndarray
    documents: np.ndarray
    saturations: np.ndarray
    order: np.ndarray
    frequent: np.ndarray
    impacts: np.ndarray


class Index:
    """An inverted index; read only, so one may serve many episodes, and, kept in files, many processes.

    Attributes:
        ranking: how it ranks.
    """

    def __init__(self, products: Iterable[Product], ranking: str = "lucene") -> None:
        """Indexes `products`.

        Raises:
            ValueError: `ranking` is not one of `RANKINGS`.
        """
        self._use(ranking, _invert(products, ranking_named(ranking)))

    @classmethod
    def load(cls, directory: Path, ranking: str) -> Index:
        """The index that `save` wrote, mapped into memory: processes share its pages."""
        index = cls.__new__(cls)
        files = (np.load(directory / f"{name}.npy", mmap_mode="r") for name in _Arrays._fields)
        index._use(ranking, _Arrays(*map(np.asarray, files)))  # `asarray`: slices of `np.memmap` are made slowly
        return index

    def save(self, directory: Path) -> None:
        """Writes the index, an array a file."""
        for name, content in self._arrays._asdict().items():
            np.save(directory / f"{name}.npy", content)

    def _use(self, ranking: str, arrays: _Arrays) -> None:
        self.ranking, self._arrays = ranking_named(ranking), arrays
        self.search: Callable[[str], tuple[int, ...]] = lru_cache(maxsize=4096)(self._search)

    def _search(self, query: str) -> tuple[int, ...]:
        """Positions of the best products, at most `MAX_HITS`; any text is only words here."""
        words = [word for term, times in Counter(terms(query)).items() if (word := self._word(term, times))]
        size = len(self._arrays.order)
        if len(self._arrays.frequent):
            documents = shortlist(words, size, MAX_HITS)
            scores = _scores_of(documents, words)
        else:
            documents, scores = np.arange(size), _all_scores(size, words)
        return tuple(self._arrays.order[_best(documents, scores)].tolist())

    def _word(self, term: str, times: int) -> Word | None:
        """A term that is `times` in a query; None if no document holds it."""
        arrays, key = self._arrays, term_key(term)
        place = int(np.searchsorted(arrays.keys, key))
        if place == len(arrays.keys) or arrays.keys[place] != key:
            return None
        held = slice(*arrays.starts[place : place + 2].tolist())
        row = int(np.searchsorted(arrays.frequent, place))
        frequent = row < len(arrays.frequent) and arrays.frequent[row] == place
        weight = np.float32(times * self._inverse_document_frequency(held.stop - held.start))
        return Word(weight, arrays.documents[held], arrays.saturations[held], arrays.impacts[row] if frequent else None)

    def _inverse_document_frequency(self, documents: int) -> np.float32:
        return np.float32(np.log1p((len(self._arrays.order) - documents + 0.5) / (documents + 0.5)))


def ranking_named(name: str) -> Ranking:
    """One of `RANKINGS`.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in RANKINGS:
        raise ValueError(f"ranking {name!r} is not known; choose one of {', '.join(RANKINGS)}")
    return RANKINGS[name]


def term_key(term: str) -> np.uint64:
    """The first eight bytes of a hash. Among a million terms the chance that two share one is 3 in 10⁸."""
    return np.uint64(int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()))


def _all_scores(size: int, words: Sequence[Word]) -> np.ndarray:
    """Scores of all documents, `[size]` float64."""
    scores = np.zeros(size)
    for word in words:
        scores[word.documents] += word.adds()
    return scores


def _scores_of(documents: np.ndarray, words: Sequence[Word]) -> np.ndarray:
    """Scores of some documents, int32 and ascending, as `_all_scores` adds them up."""
    scores = np.zeros(len(documents))
    for word in words:
        places = np.searchsorted(word.documents, documents)
        places[places == len(word.documents)] = 0
        held = np.flatnonzero(word.documents[places] == documents)
        scores[held] += word.adds(places[held])
    return scores


def _best(documents: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Documents by score, best first, at most `MAX_HITS`; equal ones in the order of their numbers.

    Args:
        documents: `[documents]`, ascending.
        scores: `[documents]` float64; 0 is no hit.
    """
    hits = np.flatnonzero(scores)
    found = scores[hits].astype(np.float32)
    if len(hits) > MAX_HITS:
        good = found >= np.partition(found, -MAX_HITS)[-MAX_HITS]
        hits, found = hits[good], found[good]
    return documents[hits[np.argsort(-found, kind="stable")[:MAX_HITS]]]


def _invert(products: Iterable[Product], ranking: Ranking) -> _Arrays:
    """The arrays of an index of `products`, which are gone through once."""
    vocabulary: dict[str, int] = {}
    asins, lengths = [], array("l")
    document_ids, term_ids, frequencies = array("i"), array("i"), array("f")
    for position, product in enumerate(products):
        count = Counter(terms(ranking.document(product)))
        asins.append(product.asin)
        lengths.append(count.total())
        document_ids.extend([position] * len(count))
        term_ids.extend(vocabulary.setdefault(term, len(vocabulary)) for term in count)
        frequencies.extend(count.values())
    # Documents are numbered by identifier, so that a stable sort breaks ties by it.
    order = np.asarray(sorted(range(len(asins)), key=asins.__getitem__), np.int32)
    number = np.empty_like(order)
    number[order] = np.arange(len(order), dtype=np.int32)
    norms = _length_norms(np.asarray(lengths)[order], ranking)
    documents, keys = number[np.asarray(document_ids, np.int32)], np.asarray([term_key(t) for t in vocabulary], "u8")
    by_key = np.argsort(keys)
    rank = np.empty_like(by_key)
    rank[by_key] = np.arange(len(by_key))
    places = rank[np.asarray(term_ids, np.int32)]
    sorting = np.lexsort((documents, places))
    starts = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=len(keys)))]).astype(np.int64)
    saturations = np.asarray(frequencies, np.float32) * norms[documents]
    postings = starts, documents[sorting], saturations[sorting]
    return _Arrays(keys[by_key], *postings, order, *_frequent(*postings, len(order)))


def _frequent(
    starts: np.ndarray, documents: np.ndarray, saturations: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """`frequent` and `impacts` of an index of `size` documents."""
    frequent = np.flatnonzero(np.diff(starts) >= FREQUENT * size) if size >= LARGE else np.empty(0, np.int64)
    impacts = np.empty((len(frequent), size), np.uint8)
    for row, place in enumerate(frequent):
        held = slice(starts[place], starts[place + 1])
        impacts[row] = impact_bytes(documents[held], saturations[held], size)
    return frequent, impacts


def _length_norms(lengths: np.ndarray, ranking: Ranking) -> np.ndarray:
    """1 / (k1 · (1 − b + b · length / mean length)) per document, `[documents]` float32."""
    k1, b = np.float32(ranking.k1), np.float32(ranking.b)
    mean = np.float32(lengths.mean() if len(lengths) else 1)
    kept = [one_byte_length(int(n)) for n in lengths] if ranking.coarse_lengths else lengths
    ratio = np.asarray(kept, np.float32) / max(mean, np.float32(1))
    return np.float32(1) / (k1 * ((np.float32(1) - b) + b * ratio))
