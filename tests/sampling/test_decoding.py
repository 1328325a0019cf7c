"""Drawing a token: temperature and nucleus against enumeration."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotopd_jax.sampling.decoding import draw, empty_rows, in_nucleus

DRAWS = 8192
LOGITS = np.asarray([1.0, 0.2, 1.7, -0.5, 0.2, -3.0, 1.1], np.float32)


def nucleus(logits: np.ndarray, temperature: float, top_p: float) -> np.ndarray:
    """The tempered probabilities cut to their nucleus, token by token as in Holtzman et al. 2020."""
    exact = logits.astype(np.float64)
    probs = np.exp((exact - exact.max()) / temperature)
    probs /= probs.sum()
    kept, held = np.zeros(len(probs)), 0.0
    for token in sorted(range(len(probs)), key=lambda i: (-probs[i], i)):
        if held < top_p:
            kept[token], held = probs[token], held + probs[token]
    return kept / kept.sum()


def drawn(temperature: float, top_p: float, *, nucleus: bool) -> tuple[np.ndarray, np.ndarray]:
    rows = empty_rows(DRAWS)
    rows.seed[:], rows.temperature[:], rows.top_p[:] = np.arange(DRAWS), temperature, top_p
    tokens, log_probs = draw(jnp.tile(LOGITS, (DRAWS, 1)), rows, nucleus=nucleus)
    return np.asarray(tokens), np.asarray(log_probs)


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.6, 1.0), (1.0, 0.8), (0.6, 0.6), (1.5, 0.95)])
def test_tokens_come_as_often_as_enumeration_says(temperature, top_p):
    expected = nucleus(LOGITS, temperature, top_p)
    tokens, log_probs = drawn(temperature, top_p, nucleus=top_p < 1)
    counts = np.bincount(tokens, minlength=len(LOGITS))
    possible = expected > 0
    assert not counts[~possible].any()
    chi_square = np.sum((counts - DRAWS * expected)[possible] ** 2 / (DRAWS * expected)[possible])
    assert chi_square < 22.5  # the 0.1% point at 6 degrees of freedom; fewer have a lower one
    raw = LOGITS - np.log(np.exp(LOGITS.astype(np.float64)).sum())
    np.testing.assert_allclose(log_probs, raw[tokens], atol=1e-5)


def test_a_whole_nucleus_changes_no_draw():
    np.testing.assert_array_equal(drawn(0.7, 1.0, nucleus=True)[0], drawn(0.7, 1.0, nucleus=False)[0])


def test_at_temperature_0_the_nucleus_is_the_likeliest_token():
    assert set(drawn(0.0, 0.3, nucleus=True)[0].tolist()) == {2}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-6, 6), min_size=9, max_size=9), st.floats(0.3, 2.0), st.floats(0.01, 1.0))
def test_the_nucleus_is_that_of_a_loop(logits, temperature, top_p):
    values = np.asarray(logits, np.float32)  # integers: many are equal
    expected = nucleus(values, temperature, top_p)
    sums = np.cumsum(np.sort(nucleus(values, temperature, 1.0))[::-1])
    if top_p < 1 and np.abs(sums - top_p).min() < 1e-5:
        return  # decided by rounding
    found = in_nucleus(jnp.asarray(values[None]), jnp.asarray([temperature]), jnp.asarray([top_p]))
    np.testing.assert_array_equal(np.asarray(found)[0], expected > 0)
