"""BM25: by hand, in equal order everywhere, built once and mapped."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys

import numpy as np
import pytest

from pivotopd_jax.envs.mapped import MappedRecords
from pivotopd_jax.envs.search_qa import retrieval
from pivotopd_jax.envs.search_qa.data_files import DataError
from pivotopd_jax.envs.search_qa.passages import Passage, make_passage
from pivotopd_jax.envs.search_qa.retrieval import Bm25, load_bm25, stored_passages


def ids(index, query, k=3):
    return [hit.passage.id for hit in index.search([query], k)[0]]


def test_a_score_by_hand():
    """BM25 as in Lucene: ln(1 + (N − n + ½) / (n + ½)) · tf / (tf + k1 (1 − b + b · length / mean length))."""
    index = Bm25([Passage("1", "fox fox hen"), Passage("2", "hen"), Passage("3", "owl owl")])
    (hit,) = index.search(["Fox!"], 3)[0]
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


def test_a_query_of_ten_thousand_characters(index):
    assert ids(index, "oak " * 2_500) == ["y"]


def test_equal_scores_come_in_the_order_of_the_corpus():
    passages = [Passage(str(i), "fox hen") for i in (5, 3, 9, 1)]
    assert ids(Bm25(passages), "hen", 3) == ["5", "3", "9"]


def test_a_corpus_must_have_words_and_a_size(monkeypatch):
    with pytest.raises(DataError, match="none of the 1 passages has a word in it"):
        Bm25([Passage("1", "a !")])
    with pytest.raises(DataError, match=r"has 0 passages; BM25 in this process takes 1 to 100,000"):
        Bm25([])
    monkeypatch.setattr(retrieval, "MAX_PASSAGES", 2)
    with pytest.raises(DataError, match=r"has 3 passages; .* serve a larger corpus with a retrieval server"):
        Bm25([Passage(str(i), "fox") for i in range(3)])


def test_built_once_and_mapped(directory, tmp_path, passages, monkeypatch):
    cache = tmp_path / "cache"
    index = load_bm25(directory / "corpus.jsonl", cache)
    assert ids(index, "who directed red river") == ids(Bm25(passages), "who directed red river") == ["f", "x"]
    assert isinstance(index._index.scores["data"], np.memmap)
    assert isinstance(index._passages, MappedRecords)
    assert list(index._passages) == list(passages)
    assert (index._passages[1:3], len(index), index._passages[-1]) == (list(passages[1:3]), 4, passages[-1])
    assert [path.stat().st_mode for path in cache.iterdir()] == [next(cache.iterdir()).stat().st_mode]
    monkeypatch.setattr(retrieval, "_build", None)
    retrieval._load.cache_clear()
    assert ids(load_bm25(directory / "corpus.jsonl", cache), "oak bay") == ["y"]
    assert load_bm25(directory / "corpus.jsonl", cache) is load_bm25(directory / "corpus.jsonl", cache)


def test_a_changed_corpus_has_another_index(directory, tmp_path):
    corpus, cache = directory / "corpus.jsonl", tmp_path / "cache"
    assert ids(load_bm25(corpus, cache), "zebra") == []
    corpus.write_text('{"id": "z", "contents": "zebra"}')
    assert ids(load_bm25(corpus, cache), "zebra") == ["z"]
    assert len(list(cache.iterdir())) == 2


def test_the_first_of_several_builders_wins(directory, tmp_path, passages):
    target = tmp_path / "cache" / "i"
    retrieval._build(passages, target)
    retrieval._build(passages[:2], target)
    assert [path.name for path in target.parent.iterdir()] == ["i"]
    assert len(stored_passages(target)) == 4


def test_a_failed_build_leaves_nothing(directory, tmp_path, passages, monkeypatch):
    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(retrieval, "write_records", fail)
    with pytest.raises(OSError, match="no space left"):
        load_bm25(directory / "corpus.jsonl", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_other_processes_find_the_same(directory, tmp_path):
    script = (
        "import sys, pathlib; from pivotopd_jax.envs.search_qa.retrieval import load_bm25\n"
        "print(load_bm25(*map(pathlib.Path, sys.argv[1:])).search(['river of ann', 'lee'], 3))"
    )
    corpus, cache = directory / "corpus.jsonl", tmp_path / "cache"
    command = [sys.executable, "-c", script, str(corpus), str(cache)]
    shown = {subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() for _ in range(2)}
    assert shown == {str(load_bm25(corpus, cache).search(["river of ann", "lee"], 3))}


def test_the_real_corpus(search_qa_data, cache):
    index = load_bm25(search_qa_data / "corpus.jsonl.gz", cache)
    assert len(index) == 9_347
    hit = index.search(["Demon Dice"], 3)[0][0].passage
    assert (hit.id, hit.title) == ("0", "Demon Dice")
    assert hit.text.startswith("Demon Dice, originally published as Chaos Progenitus, is a collectible dice game")


def test_text_survives_storage(tmp_path):
    odd = [make_passage("1", 'Say "hi"', "é 木 \u2028 \ud800 </information>"), Passage("2", "plain")]
    retrieval._build(odd, tmp_path / "i")
    assert list(stored_passages(tmp_path / "i")) == odd
    shutil.rmtree(tmp_path / "i")
