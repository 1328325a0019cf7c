"""Scores are believed only where every one of them can be a log-probability of the token that was asked about."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotopd_jax.teachers.abilities import reply_words
from pivotopd_jax.teachers.scoring import read_scores

CONTEXT, RESPONSE = np.asarray([7, 8]), np.asarray([3, 4])

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["3", "4", "logprob", ""]), inner),
    max_leaves=8,
)
VALUES = st.floats() | st.integers() | JSON
ENTRIES = st.fixed_dictionaries({}, optional={k: st.fixed_dictionaries({"logprob": VALUES}) | JSON for k in ("3", "4")})
REPLIES = JSON | st.fixed_dictionaries(
    {
        "choices": JSON
        | st.lists(
            st.fixed_dictionaries(
                {"prompt_logprobs": JSON | st.lists(ENTRIES, min_size=4, max_size=4), "message": JSON}
            ),
            min_size=1,
            max_size=2,
        )
    }
)


def reply(*values: float) -> dict:
    pairs = zip(("3", "4"), values, strict=True)
    scored = [{token: {"logprob": value}, "9": {"logprob": 0.0}} for token, value in pairs]
    return {"choices": [{"prompt_logprobs": [None, {"8": {"logprob": -1.0}}, *scored]}]}


def test_scores_are_read_off_the_tokens_of_the_response():
    scores = read_scores(reply(-0.5, -2), CONTEXT, RESPONSE)
    assert scores is not None
    assert scores.dtype == np.float32
    assert scores.tolist() == [-0.5, -2.0]


def test_a_sum_a_little_above_nothing_is_rounding():
    scores = read_scores(reply(1e-3, -2), CONTEXT, RESPONSE)
    assert scores is not None
    assert scores.tolist() == [0.0, -2.0]
    assert read_scores(reply(0.02, -2), CONTEXT, RESPONSE) is None


@settings(max_examples=150, deadline=None)
@given(REPLIES)
def test_no_reply_raises_or_makes_scores_that_cannot_be(sent):
    sent = json.loads(json.dumps(sent))
    scores = read_scores(sent, CONTEXT, RESPONSE)
    assert scores is None or (scores.shape == (2,) and np.isfinite(scores).all() and (scores <= 0).all())
    words = reply_words(sent)
    assert words is None or isinstance(words, str)
