"""Generated encyclopedias: the same everywhere, sound, held out by what is asked, and readable."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from pivotopd_jax.envs.search_qa.generator import generate_encyclopedia, is_sound
from pivotopd_jax.envs.search_qa.questions import SPLITS, held_out
from pivotopd_jax.envs.search_qa.retrieval import Bm25

SIZES = [(2, 2, 6, 3), (2, 2, 12, 3), (3, 3, 20, 3), (4, 2, 16, 3), (4, 4, 30, 5), (2, 1, 4, 1)]
"""Hops, distractors, passages, passages a search."""


def drawn(seed, sizes, split="train"):
    hops, distractors, passages, top_k = sizes
    return generate_encyclopedia(seed, hops=hops, distractors=distractors, passages=passages, top_k=top_k, split=split)


@pytest.mark.parametrize("sizes", SIZES)
def test_sizes_and_soundness(sizes):
    hops, _, passages, top_k = sizes
    for seed in range(15):
        book = drawn(seed, sizes)
        question = book.question
        assert (question.kind, len(question.supports), len(question.queries)) == (f"{hops} hops", hops, hops)
        assert len(book.passages) == passages == len({p.title for p in book.passages})
        assert [p.id for p in book.passages] == [str(i) for i in range(passages)]
        index = Bm25(book.passages)
        for query, support in zip(question.queries, question.supports, strict=True):
            assert support in [hit.passage for hit in index.search([query], top_k)[0]]
        for name in {*book.names, *(p.title for p in book.passages)}:
            shown = {hit.passage for hit in index.search([name], top_k)[0]}
            assert name not in book.names or len(shown & set(question.supports)) <= 1


@pytest.mark.parametrize("sizes", SIZES)
def test_each_name_is_read_before_it_is_needed(sizes):
    """The question names the first query, each support the next, and the last one the answer."""
    for seed in range(15):
        question = drawn(seed, sizes, "test").question
        sources = [question.text, *(support.text for support in question.supports)]
        for source, name in zip(sources, [*question.queries, question.golds[0]], strict=True):
            assert re.search(rf"\b{name}[.?]", source)


def test_second_names():
    """Some passages are spoken of by a name that is in their text, but not in their title."""
    called = 0
    for seed in range(60):
        question = drawn(seed, (3, 2, 12, 3)).question
        for query, support in zip(question.queries, question.supports, strict=True):
            if query != support.title:
                called += 1
                assert support.text.startswith(f"{support.title} is called {query}. The ")
                assert not set(query.split()) & set(support.title.split())
    assert 30 < called < 90  # half of the 120 that are named by another passage, less those that are no persons


def test_distractors_are_like_the_supports():
    book = drawn(0, (2, 2, 6, 3))
    for query in book.question.queries:
        titles = [passage.title for passage in book.passages]
        assert sum(title.startswith(f"{query} ") for title in titles) == 1
        assert sum(title.endswith(f" of {query}") for title in titles) == 1


def test_passages_are_short():
    for seed, sizes in itertools.product(range(10), SIZES):
        for passage in drawn(seed, sizes).passages:
            assert len(passage.contents.split()) <= 24


def test_words_come_from_short_lists():
    words = set()
    for seed in range(150):
        book = drawn(seed, (2, 2, 12, 3))
        for text in (book.question.text, *(passage.contents for passage in book.passages)):
            words.update(re.findall(r"\w+", text.lower()))
    assert len(words) < 125


def test_the_seed_decides():
    assert drawn(3, SIZES[0]) == drawn(3, SIZES[0])
    assert drawn(3, SIZES[0]) != drawn(4, SIZES[0])
    assert drawn(3, SIZES[0], "test") != drawn(3, SIZES[0])


def test_other_processes_draw_the_same():
    script = (
        "from pivotopd_jax.envs.search_qa.generator import generate_encyclopedia as g\n"
        "print([g(seed, hops=3, split=split) for seed in range(3) for split in ('train', 'test')])"
    )
    shown = [
        subprocess.run(
            [sys.executable, "-c", script], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "12345")
    ]  # fmt: skip
    here = [generate_encyclopedia(seed, hops=3, split=split) for seed in range(3) for split in ("train", "test")]
    assert shown == [f"{here}\n"] * 2


def test_what_is_asked_is_held_out():
    asked = {split: {drawn(seed, (2, 2, 6, 3), split).question.text for seed in range(100)} for split in SPLITS}
    assert all(not asked[a] & asked[b] for a, b in itertools.combinations(SPLITS, 2))
    assert all(held_out(text) == split for split, texts in asked.items() for text in texts)
    assert all(len(texts) > 80 for texts in asked.values())


def test_unsound_ones_are_found():
    book = drawn(0, (2, 2, 6, 3))
    first, _ = book.question.queries
    both = " ".join(support.contents for support in book.question.supports)
    assert is_sound(book, 3)
    assert not is_sound(replace(book, names=(*book.names, both)), 3)
    assert not is_sound(replace(book, question=book.question._replace(queries=(first, first))), 3)
    assert not is_sound(book, 6)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hops": 1}, "hops=1: expected 2 to 4"),
        ({"hops": 5}, "hops=5: expected 2 to 4"),
        ({"distractors": 1}, "distractors=1: expected 2 to 4"),
        ({"distractors": 5}, "distractors=5: expected 2 to 4"),
        ({"passages": 5}, "passages=5: expected 6 to 64"),
        ({"passages": 65}, "passages=65: expected 6 to 64"),
        ({"top_k": 0}, "top_k=0: expected 1 to 5"),
        ({"split": "dev"}, "no split 'dev'; expected one of train, validation, test"),
    ],
)
def test_impossible_ones_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        generate_encyclopedia(0, **sizes)


def test_the_largest_can_be_drawn():
    assert len(generate_encyclopedia(0, hops=4, distractors=4, passages=64, top_k=5).passages) == 64
