"""Exact match, by hand."""

from __future__ import annotations

import pytest

from pivotopd_jax.envs.search_qa.answers import exact_match, normalise_answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Eiffel\tTower.", "eiffel tower"),
        ("a cat, an owl and the dog", "cat owl and dog"),
        ("Theatre", "theatre"),
        ("U.S.A.", "usa"),
        ("spider-man", "spiderman"),
        ("Dec. 10, 1817", "dec 10 1817"),
        ("Beyoncé KNOWLES", "beyoncé knowles"),
        ("ÉCOLE", "école"),
        ("“Hello”", "“hello”"),
        ("東京", "東京"),
        ("rock 'n' roll", "rock n roll"),
        ("$5_000", "5000"),
        ("A", "a"),
        ("The !", "the !"),
        (" \n ", ""),
        ("?!", "?!"),
    ],
)
def test_normal_form(text, expected):
    assert normalise_answer(text) == expected


@pytest.mark.parametrize(
    ("answer", "golds", "right"),
    [
        ("the eva lee!", ["Eva Lee"], True),
        ("E Lee", ["Eva Lee", "E. Lee"], True),
        ("Eva Lee of Oak Bay", ["Eva Lee"], False),
        ("Eva", ["Eva Lee"], False),
        ("beyonce", ["Beyoncé"], False),
        ("the", ["A"], False),
        ("a", ["A"], True),
        ("", ["x"], False),
        ("", [""], False),
        ("x", [], False),
    ],
)
def test_any_gold_answer_counts_and_nothing_else(answer, golds, right):
    assert exact_match(answer, golds) is right
