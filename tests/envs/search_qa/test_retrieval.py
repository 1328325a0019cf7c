"""BM25, by bm25s and by tantivy: by hand, and in equal order everywhere."""

from __future__ import annotations

import math

import pytest

from pivotopd_jax.envs.row_files import DataError
from pivotopd_jax.envs.search_qa import retrieval
from pivotopd_jax.envs.search_qa.passages import Passage, read_passages
from pivotopd_jax.envs.search_qa.retrieval import Bm25, terms


def ids(index, query, k=3):
    return [hit.passage.id for hit in index.search([query], k)[0]]


def words(*texts):
    return [Passage(str(number), text) for number, text in enumerate(texts, 1)]


def test_a_score_by_hand():
    """BM25 as in Lucene: ln(1 + (N − n + ½) / (n + ½)) · tf / (tf + k1 (1 − b + b · length / mean length))."""
    (hit,) = Bm25(words("fox fox hen", "hen", "owl owl")).search(["Fox!"], 3)[0]
    expected = math.log(1 + 2.5 / 1.5) * 2 / (2 + 1.5 * (0.25 + 0.75 * 3 / 2))
    assert hit.passage.id == "1"
    assert hit.score == pytest.approx(expected, rel=1e-6)


def test_several_queries(index):
    found = index.search(["red river", "eva", "zebra"], 2)
    assert [[hit.passage.id for hit in hits] for hits in found] == [["f", "x"], ["d", "x"], []]
    assert found[0][0].score > found[0][1].score > 0
    assert index.search([], 3) == []


@pytest.mark.parametrize("query", ["", " ", "the of", "a", "?!", "木の椅子", "\x00", "\ud800", "[]", "x" * 10_000])
def test_nothing_fits(index, query):
    assert index.search([query], 3) == [[]]


@pytest.mark.parametrize(
    "query",
    ['"oak bay"', "+oak -bay", "(oak AND bay", "NOT bay oak", "oak OR", "contents:oak", "words:[oak TO bay]",
     "oak^9 bay~", "/oak/ bay", "oak* ba?", "\\oak\\ {bay}", "oak\x00bay", "oak\ud800bay",
     "<search>OAK</search>", "position: IN [3] oak"],
)  # fmt: skip
def test_any_text_is_only_words(index, query):
    """Nothing is a phrase, an operator, a field or a pattern: the hits are those of the words, in their order."""
    plain = " ".join(terms([query])[0])
    assert index.search([query], 4) == index.search([plain], 4)
    assert ids(index, query)[0] == "y"


def test_accents_and_other_scripts(make_index):
    index = make_index(words("Кошка спит", "Ein Café in Zürich", "木の椅子 red", "straße STRASSE"))
    queries = ["КОШКА", "café zürich", "cafe", "木の椅子", "strasse", "Straße"]
    assert [ids(index, query) for query in queries] == [["1"], ["2"], [], ["3"], ["4"], ["4"]]


def test_a_query_of_ten_thousand_characters(index):
    assert ids(index, "oak " * 2_500) == ["y"]
    many = " ".join(f"w{number}" for number in range(2_000))
    assert ids(index, f"{many} oak") == ["y"]


def test_a_word_that_is_there_twice_counts_twice(make_index):
    index = make_index(words("fox", "hen", "owl"))
    (once,), (twice,) = index.search(["fox", "fox Fox"], 3)
    assert twice.score == pytest.approx(2 * once.score)
    assert ids(index, "fox hen hen") == ["2", "1"]


@pytest.mark.parametrize(("k", "expected"), [(0, 0), (1, 1), (3, 3), (4, 4), (5, 4), (10**9, 4)])
def test_at_most_k(make_index, k, expected):
    assert len(make_index(words("fox", "fox", "fox hen", "fox")).search(["fox"], k)[0]) == expected


def test_equal_scores_come_in_the_order_of_the_corpus(make_index):
    passages = [Passage(str(i), "fox hen") for i in (5, 3, 9, 1)]
    assert ids(make_index(passages), "hen", 3) == ["5", "3", "9"]


def test_the_words_decide_whatever_the_engine(search_qa_data, make_index):
    """Real passages: each is what is found by its own title and first words, as both engines agree."""
    passages = read_passages(search_qa_data / "corpus.jsonl.gz")[:300]
    index = make_index(passages)
    for passage in passages[::10]:
        assert ids(index, passage.contents[:200], 1) == [passage.id]


def test_a_corpus_must_have_words_and_a_size(make_index, monkeypatch):
    with pytest.raises(DataError, match="none of the 2 passages has a word in it"):
        make_index(words("a !", "the"))
    with pytest.raises(DataError, match=r"has 0 passages; Bm25 takes 1 to 100,000"):
        Bm25([])
    monkeypatch.setattr(retrieval, "MAX_PASSAGES", 2)
    with pytest.raises(DataError, match=r"has 3 passages; .* keep a larger one in a file and open it by load_bm25"):
        Bm25(words("fox", "fox", "fox"))
