"""BM25 over a catalogue, under two named rankings.

`lucene`: what WebShop's own search engine answers, to the last tie. Term weights and sums are rounded where Lucene
rounds them, and document lengths are kept in one byte, as it keeps them. `five_fields`: the setting of the paper that
this project reproduces (k1 1.5, b 0.75; title, description, category, bullets and options), with exact lengths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pivotopd_jax.envs.webshop.analysis import terms
from pivotopd_jax.envs.webshop.products import Product

MAX_HITS = 50


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


class Index:
    """An inverted index; read only, so one may serve many episodes.

    Attributes:
        ranking: how it ranks.
    """

    def __init__(self, products: Sequence[Product], ranking: str = "lucene") -> None:
        """Indexes `products`.

        Raises:
            ValueError: `ranking` is not one of `RANKINGS`.
        """
        if ranking not in RANKINGS:
            raise ValueError(f"ranking {ranking!r} is not known; choose one of {', '.join(RANKINGS)}")
        self.ranking = RANKINGS[ranking]
        # Documents are numbered by identifier, so that a stable sort breaks ties by it.
        self._order = sorted(range(len(products)), key=lambda i: products[i].asin)
        counts = [Counter(terms(self.ranking.document(products[i]))) for i in self._order]
        self._norms = self._length_norms([count.total() for count in counts])
        self._fill(counts)
        self.search: Callable[[str], tuple[int, ...]] = lru_cache(maxsize=4096)(self._search)

    def _length_norms(self, lengths: Sequence[int]) -> np.ndarray:
        """1 / (k1 · (1 − b + b · length / mean length)) per document, `[documents]` float32."""
        k1, b, mean = np.float32(self.ranking.k1), np.float32(self.ranking.b), np.float32(np.mean(lengths or [1]))
        kept = [one_byte_length(n) for n in lengths] if self.ranking.coarse_lengths else lengths
        ratio = np.asarray(kept, np.float32) / max(mean, np.float32(1))
        return np.float32(1) / (k1 * ((np.float32(1) - b) + b * ratio))

    def _fill(self, counts: Iterable[Counter[str]]) -> None:
        postings: dict[str, tuple[list[int], list[int]]] = {}
        for document, count in enumerate(counts):
            for term, times in count.items():
                documents, frequencies = postings.setdefault(term, ([], []))
                documents.append(document)
                frequencies.append(times)
        self._postings = {
            term: (np.asarray(documents, np.int32), np.asarray(frequencies, np.float32) * self._norms[documents])
            for term, (documents, frequencies) in postings.items()
        }

    def _search(self, query: str) -> tuple[int, ...]:
        """Positions of the best products, at most `MAX_HITS`; any text is only words here."""
        scores = np.zeros(len(self._order))
        for term, times in Counter(terms(query)).items():
            if term in self._postings:
                documents, saturation = self._postings[term]
                weight = np.float32(times * self._inverse_document_frequency(len(documents)))
                scores[documents] += weight - weight / (np.float32(1) + saturation)
        hits = np.flatnonzero(scores)
        best = hits[np.argsort(-scores[hits].astype(np.float32), kind="stable")[:MAX_HITS]]
        return tuple(self._order[i] for i in best)

    def _inverse_document_frequency(self, documents: int) -> np.float32:
        return np.float32(np.log1p((len(self._order) - documents + 0.5) / (documents + 0.5)))
