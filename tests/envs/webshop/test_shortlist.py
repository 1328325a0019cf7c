"""A shortlist loses none of the best: against exhaustive scoring, on catalogues with many ties."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_shop import item

from pivotopd_jax.envs.webshop import retrieval, shortlist
from pivotopd_jax.envs.webshop.products import read_products
from pivotopd_jax.envs.webshop.retrieval import Index
from pivotopd_jax.envs.webshop.shortlist import Word, impact_bytes

SEEDS = st.integers(0, 2**32 - 1)
QUICK = settings(deadline=None, max_examples=200, derandomize=True)
WORDS = ("oak", "pine", "table", "chair", "lamp", "rug", "blue", "green", "solid", "soft", "cheap", "round")


def word(documents, saturations, size, weight, frequent):
    documents, saturations = np.asarray(documents, np.int32), np.asarray(saturations, np.float32)
    impacts = impact_bytes(documents, saturations, size) if frequent else None
    return Word(np.float32(weight), documents, saturations, impacts)


def best(words, size, count):
    """Numbers of the `count` best of all documents, ties by number, scored exactly one after the other."""
    scores = np.zeros(size)
    for each in words:
        np.add.at(scores, each.documents, each.weight - each.weight / (np.float32(1) + each.saturations))
    return sorted(np.flatnonzero(scores), key=lambda number: (-np.float32(scores[number]), number))[:count]


def shortlisted(words, size, count):
    """The same by way of the shortlist; and how many documents it left out."""
    documents = shortlist.shortlist(words, size, count)
    assert documents.dtype == np.int32
    assert np.all(np.diff(documents) > 0)
    scores = retrieval._scores_of(documents, words)
    return list(retrieval._best(documents, scores)[:count]), size - len(documents)


def drawn_words(seed, size):
    """Zero to eight words; the fewer distinct saturations, the more ties."""
    draw = np.random.default_rng(seed)
    levels = draw.exponential(size=draw.integers(1, 9)) if draw.random() < 0.5 else draw.exponential(size=300)
    for _ in range(draw.integers(0, 9)):
        documents = np.flatnonzero(draw.random(size) < draw.random() ** 2)
        if len(documents):
            weight = draw.choice([draw.exponential(), 1.0, 8.0, 1e-3])
            yield word(documents, draw.choice(levels, len(documents)), size, weight, draw.random() < 0.7)


@pytest.fixture(params=[0, 3, 10**9], ids=["all words added", "cut early", "cut at once"])
def few(request, monkeypatch):
    monkeypatch.setattr(shortlist, "FEW", request.param)
    monkeypatch.setattr(shortlist, "CHUNK", 7)


@pytest.mark.usefixtures("few")
@given(SEEDS, st.integers(1, 300), st.sampled_from([1, 2, 5, 50]), st.sampled_from([4096, 64, 5, 1]))
@QUICK
def test_the_best_are_those_of_exhaustive_scoring(seed, size, count, groups):
    words = list(drawn_words(seed, size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shortlist, "GROUPS", groups)
        assert shortlisted(words, size, count)[0] == best(words, size, count)


@given(SEEDS)
@settings(QUICK, max_examples=50)
def test_sums_that_float32_rounds_apart(seed):
    """Forty words add nearly the same to every document; in float32 the order of their sums is another."""
    draw, size = np.random.default_rng(seed), 200
    levels = 1 + draw.integers(0, 9, (40, size)) * 2.0**-23
    words = [word(range(size), saturations, size, 1, False) for saturations in levels]
    assert shortlisted(words, size, 3)[0] == best(words, size, 3)


@pytest.mark.parametrize("size", [1, 49, 50, 51, 4095, 4097, 8191, 8192, 8193, 12_287, 16_383, 16_384, 16_385, 40_000])
@pytest.mark.parametrize("frequent", [True, False])
def test_edges_of_groups_and_chunks(size, frequent):
    draw, edges = np.random.default_rng(size), sorted({0, 1, size // 2, size - 2, size - 1} & set(range(size)))
    saturations = np.where(np.isin(np.arange(size), edges), 3.0, draw.choice([0.5, 1.0], size))
    words = [word(range(size), saturations, size, 1, frequent), word(edges, np.ones(len(edges)), size, 0.1, True)]
    assert shortlisted(words, size, len(edges))[0] == edges


def test_what_it_leaves_out_by_hand():
    # One of 200 documents holds the rare word, which adds 8 · (1 − 1/2) = 4; the frequent one can add no more than 1.
    rare, common = word([7], [1], 200, 8, False), word(range(200), [2] * 200, 200, 1, True)
    assert shortlisted([common, rare], 200, 1) == ([7], 199)
    # The second best holds the frequent word alone, and then all the others are as good.
    assert shortlisted([common, rare], 200, 2) == ([7, 0], 0)


def test_a_bound_is_less_than_a_step_above():
    saturations = np.asarray([1e-9, 1e-3, 0.5, 1, 254, 1e9], np.float32)
    exact, found = saturations / (1 + saturations.astype(np.float64)), impact_bytes(np.arange(6), saturations, 7)
    assert list(found[:2]) == [1, 1]
    assert list(found[3:]) == [128, 254, 255, 0]
    assert np.all(found[:6] >= 255 * exact)
    assert np.all(found[:6] < 255 * exact + 1)


@pytest.mark.parametrize("wrong", [-2, 2])
def test_a_broken_bound_is_noticed(wrong, monkeypatch):
    """That the comparison above can fail: some search is wrong when every other byte is too low, or too high."""
    monkeypatch.setattr(shortlist, "FEW", 0)
    different = 0
    for seed in range(300):
        words = [_with_wrong_bytes(each, wrong) for each in drawn_words(seed, 100)]
        different += shortlisted(words, 100, 5)[0] != best(words, 100, 5)
    assert different


def _with_wrong_bytes(given, wrong):
    if given.impacts is None:
        return given
    impacts = given.impacts.astype(int)
    impacts[::2] += np.where(impacts[::2], wrong, 0)
    return given._replace(impacts=impacts.clip(0, 255).astype(np.uint8))


@pytest.fixture(params=["lucene", "five_fields"])
def indices(request, monkeypatch, tmp_path):
    """The same 300 products with bytes for the words of every eighth one, in memory and in files, and without any."""
    chance = random.Random(5)
    draws = [WORDS[: chance.randint(1, len(WORDS))] for _ in range(300)]
    rows = [item(f"P{i}", " ".join(chance.choices(w, k=chance.choice([1, 2, 3, 9, 30])))) for i, w in enumerate(draws)]
    rows += [item(f"Q{i}", name) for i, name in enumerate(["quince", "quince oak", "medlar"] * 20)]
    stock = read_products(rows, {})
    plain = Index(stock, request.param)
    monkeypatch.setattr(retrieval, "LARGE", 1)
    monkeypatch.setattr(retrieval, "FREQUENT", 1 / 8)
    large = Index(stock, request.param)
    large.save(tmp_path)
    return plain, large, Index.load(tmp_path, request.param)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "query",
    ["oak", "round", "quince", "medlar", "oak oak oak pine", "medlar oak table quince quince", " ".join(WORDS), "plum",
     "plum oak", "", "cheap round soft", "oak " * 2_500 + "round", "of the", "oak quince plum oak lamp rug blue"],
)  # fmt: skip
def test_an_index_with_a_shortlist_answers_like_one_without(indices, query):
    plain, large, mapped = indices
    assert len(plain._arrays.frequent) == 0
    assert 0 < len(large._arrays.frequent) < len(large._arrays.keys)
    assert mapped.search(query) == large.search(query) == plain.search(query)


def test_any_queries_in_a_large_index(indices):
    plain, large, _ = indices
    chance, pool = random.Random(1), (*WORDS, "quince", "medlar", "plum")
    queries = [" ".join(chance.choices(pool, k=chance.randint(1, 10))) for _ in range(300)]
    assert [large.search(query) for query in queries] == [plain.search(query) for query in queries]
