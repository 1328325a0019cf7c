"""Ranking: by hand on three documents, by another library on many, and the length that fits in a byte."""

from __future__ import annotations

import random

import bm25s
import numpy as np
import pytest
from tiny_shop import item

from pivotopd_jax.envs.webshop.analysis import terms
from pivotopd_jax.envs.webshop.products import read_products
from pivotopd_jax.envs.webshop.retrieval import RANKINGS, Index, one_byte_length

WORDS = ("oak", "pine", "table", "chair", "lamp", "rug", "blue", "green", "solid", "soft", "cheap", "round")


def products(*names):
    return read_products([item(f"P{i}", name) for i, name in enumerate(names)], {})


def test_by_hand():
    # "table" is in two of three documents, idf = ln 1.6. With mean length 2 and k1 0.9, b 0.4:
    # 1 / (1 + 0.9 (0.6 + 0.4 · 1)) = 0.526 in "red table", 2 / (2 + 0.9 (0.6 + 0.4 · 1.5)) = 0.649 in the longer one.
    index = Index(products("red table", "blue table table", "chair"))
    assert index.search("tables") == (1, 0)
    # "red" and "chair" are in one document, idf = ln(1 + 2.5 / 1.5) = 0.981. In the order of the products:
    # (0.470 + 0.981) · 0.526 = 0.763, 0.470 · 0.649 = 0.305, 0.981 / (1 + 0.9 (0.6 + 0.4 · 0.5)) = 0.570.
    assert index.search("red tables chair") == (0, 2, 1)
    assert index.search("lamp") == ()


def test_ties_go_by_identifier():
    rows = [item(asin, "table") for asin in ("Z", "B", "A1", "A")]
    assert Index(read_products(rows, {})).search("table") == (3, 2, 1, 0)


def test_no_more_than_fifty_hits():
    assert len(Index(products(*["table"] * 60)).search("table")) == 50


def test_a_repeated_word_counts_again():
    index = Index(products("oak lamp", "oak oak pine", "pine lamp lamp"))
    assert index.search("pine oak")[0] == 1
    assert index.search("lamp lamp lamp pine oak")[0] == 2


@pytest.mark.parametrize(
    ("length", "kept"), [(0, 0), (24, 24), (39, 39), (40, 40), (41, 40), (42, 42), (55, 54), (56, 56), (318, 312)]
)
def test_length_in_a_byte(length, kept):
    assert one_byte_length(length) == kept


def test_as_bm25s_with_exact_lengths():
    chance = random.Random(0)
    names = [" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(200)]
    stock = products(*names)
    index, ranking = Index(stock, "five_fields"), RANKINGS["five_fields"]
    assert (ranking.k1, ranking.b) == (1.5, 0.75)
    theirs = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    theirs.index([terms(ranking.document(product)) for product in stock], show_progress=False)
    for _ in range(50):
        query = " ".join(chance.sample(WORDS, 3))
        scores = theirs.get_scores(terms(query))
        ours = index.search(query)
        assert np.all(np.diff(scores[list(ours)]) <= 1e-5)
        assert min(scores[list(ours)]) >= np.sort(scores)[-len(ours)] - 1e-5


def test_the_two_documents():
    (product,) = read_products(
        [
            item(
                "A", "Oak", small_description=["one", "two"], full_description="Solid",
                customization_options={"Color": [{"value": "Red"}], "Size": [{"value": "S"}, {"value": "L"}]},
            )
        ],
        {},
    )  # fmt: skip
    assert RANKINGS["lucene"].document(product) == "oak solid one color: red, and size: s, l"
    fields = "oak solid home › furniture one two color: red, and size: s, l"
    assert RANKINGS["five_fields"].document(product) == fields


def test_an_unknown_ranking_is_refused():
    with pytest.raises(ValueError, match="ranking 'tfidf' is not known; choose one of lucene, five_fields"):
        Index([], "tfidf")


@pytest.mark.parametrize("query", ["", "[]", "<r>", "<q> tables", "<c>", "木", "\x00", "a" * 10_000, "oak " * 2_500])
def test_any_text_is_only_words(query):
    assert set(Index(products("oak table", "木")).search(query)) <= {0, 1}
