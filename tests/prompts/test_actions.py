"""Responses are untrusted: exactly one action, outside the thinking part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pivotopd_jax.prompts.actions import format_action, is_mismatch, normalise, parse_action


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("<action>go to shelf 1</action>", "go to shelf 1"),
        ("<think>maybe <action>look</action>?</think> <action> open drawer 2 </action>", "open drawer 2"),
        ("<action>a</action><action>b</action>", None),
        ("<action>a<action>b</action>", None),
        ("<action>a</action></action>", None),
        ("<think><action>a</action>", None),
        ("no thinking ended </think><action>a</action>", None),
        ("<action></action>", None),
        ("<action>one\ntwo</action>", None),
        ("<action>one\rtwo</action>", None),
        ("<action>one\u2028two</action>", None),
        ("<action>look\0</action>", None),
        ("<act<think>a</think>ion>look</action>", None),
        ("<action>go<think>a</think> to shelf 1</action>", None),
        ("<action>" + "x" * 401 + "</action>", None),
        ("go to shelf 1", None),
        ("", None),
    ],
)
def test_parse(response, action):
    assert parse_action(response) == action


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    action = parse_action(text)
    assert action is None or (action == action.strip() and len(action.splitlines()) == 1)


@given(
    st.text(
        alphabet=st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="<>"),
        min_size=1,
        max_size=40,
    ).map(str.strip)
)
def test_format_and_parse_are_inverse(action):
    assert parse_action(format_action(action)) == (action or None)


def test_mismatch_ignores_case_and_white_space():
    assert normalise("  Go  to\tShelf 1 ") == "go to shelf 1"
    assert not is_mismatch("Go to  shelf 1", "go to shelf 1")
    assert is_mismatch("go to shelf 2", "go to shelf 1")
    assert is_mismatch(None, "go to shelf 1")
