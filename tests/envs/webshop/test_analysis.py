"""How text becomes terms; expected values are what Lucene's EnglishAnalyzer documents or was seen to give."""

from __future__ import annotations

import pytest

from pivotopd_jax.envs.webshop.analysis import terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Men's T-Shirts, 12.5 x 1,000", ["men", "t", "shirt", "12.5", "x", "1,000"]),
        ("the cat is in a box", ["cat", "box"]),
        ("O’Neil’s a_b wi-fi", ["o’neil", "a_b", "wi", "fi"]),
        ("size:m 100%", ["size:m", "100"]),
        ("❤❤ ★ good", ["❤", "❤", "good"]),
        ("木の椅子", ["木", "の", "椅", "子"]),
        ("", []),
        (" \t\n [] <b> ", ["b"]),
    ],
)
def test_terms(text, expected):
    assert terms(text) == expected


def test_long_runs_are_cut():
    assert [len(term) for term in terms("x" * 600)] == [255, 255, 90]
