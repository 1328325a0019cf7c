"""What is tantivy's own: its scores, its segments, and ties across them."""

from __future__ import annotations

import math
import random
import threading

import pytest

from pivotopd_jax.envs.search_qa import stored, tantivy_bm25
from pivotopd_jax.envs.search_qa.passages import Passage, read_passages
from pivotopd_jax.envs.search_qa.retrieval import Bm25
from pivotopd_jax.envs.search_qa.tantivy_bm25 import TantivyBm25


@pytest.fixture
def make(tmp_path, monkeypatch):
    """An index of texts; their ids are their places."""
    monkeypatch.setattr(stored, "MAX_PASSAGES", 0)

    def make(*texts):
        passages = [Passage(str(number), text) for number, text in enumerate(texts)]
        stored.build(tmp_path / "i", passages)
        return TantivyBm25(tmp_path / "i" / "tantivy", stored.stored_passages(tmp_path / "i"))

    return make


def ids(index, query, k):
    return [int(hit.passage.id) for hit in index.search([query], k)[0]]


def test_a_score_by_hand(make):
    """ln(1 + (N − n + ½) / (n + ½)) · (k1 + 1) tf / (tf + k1 (1 − b + b · length / mean length)); k1 = 1.2, b = ¾."""
    (hit,) = make("fox fox hen", "hen", "owl owl").search(["Fox!"], 3)[0]
    expected = math.log(1 + 2.5 / 1.5) * 2.2 * 2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2))
    assert hit.passage.id == "0"
    assert hit.score == pytest.approx(expected, rel=1e-6)


def test_lengths_above_forty_words_are_rough(make):
    """So 41 words are as many as 40, which bm25s tells apart."""
    index = make("fox " + "hen " * 40, "fox " + "hen " * 39, "owl")
    (first, second) = index.search(["fox"], 3)[0]
    assert (first.score, first.passage.id) == (second.score, "0")


def test_ties_across_segments(make, monkeypatch):
    """Segments are merged in any order; of equal passages those that are first in the corpus are found all the same."""
    monkeypatch.setattr(tantivy_bm25, "HEAP_BYTES", 15_000_000)
    draw = random.Random(0)
    filler = [" ".join(f"w{draw.randrange(100_000)}" for _ in range(30)) for _ in range(12_000)]
    places = sorted(draw.sample(range(12_000), 900))
    for place in places:
        filler[place] = "fox hen owl"
    index = make(*filler)
    assert index._searcher.num_segments > 1
    for query in ("fox", "owl fox", "hen fox owl"):
        for k in (1, 10, 300, 900):
            assert ids(index, query, k) == places[:k]
    assert ids(index, "hen", 5_000) == places


def test_more_ties_than_are_looked_at(make, monkeypatch):
    """Then they are always the same ones, in the order of the corpus."""
    monkeypatch.setattr(tantivy_bm25, "MAX_EQUAL", 20)
    index = make(*["fox hen"] * 200)
    found = ids(index, "fox", 5)
    index._best.cache_clear()
    assert len(set(found)) == 5
    assert found == sorted(found) == ids(index, "fox", 5)


def test_the_best_are_those_of_a_full_search(make):
    """Tantivy skips what cannot be among the best; nothing is lost by that."""
    draw = random.Random(1)
    index = make(*(" ".join(f"w{int(400 ** draw.random())}" for _ in range(20)) for _ in range(3_000)))
    for _ in range(20):
        query = " ".join(f"w{int(400 ** draw.random())}" for _ in range(draw.randint(1, 8)))
        assert ids(index, query, 10) == ids(index, query, 3_000)[:10]


def test_close_to_bm25s(search_qa_data, make):
    """On real questions the first hit is nearly always the same: k1 and lengths differ a little."""
    passages = read_passages(search_qa_data / "corpus.jsonl.gz")[:2_000]
    index, other = make(*(passage.contents for passage in passages)), Bm25(passages)
    queries = [passage.text[-120:] for passage in passages[::20]]
    same = [passages[ids(index, query, 1)[0]] == other.search([query], 1)[0][0].passage for query in queries]
    assert sum(same) >= 95


def test_a_word_that_is_too_long_is_left_out(make):
    index = make("fox " + "x" * 70_000, "hen")
    assert ids(index, "x" * 70_000, 3) == []
    assert ids(index, "fox " + "x" * 70_000, 3) == [0]


def test_no_writer_goes_on_after_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "MAX_PASSAGES", 0)

    def passages():
        yield Passage("1", "fox")
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        stored.build(tmp_path / "cache" / "i", passages())
    assert list((tmp_path / "cache").iterdir()) == []
    assert not [thread for thread in threading.enumerate() if "index" in thread.name]
