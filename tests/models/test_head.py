"""Chunks of logits change neither values nor gradients, and never are all logits there at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest

from pivotopd_jax.losses.divergences import jensen_shannon, kl_divergence, reverse_kl
from pivotopd_jax.models.head import Head, chosen_log_probs, chunked_log_probs, chunked_sum

VOCABULARY, WIDTH = 37, 8
WHOLE = 10**9
"""Logits at once with which nothing is cut."""


def make_head(tied: bool, *, width: int = WIDTH, dtype: Any = jnp.float32, seed: int = 0) -> Head:
    shape = (VOCABULARY, width) if tied else (width, VOCABULARY)
    return Head(jax.random.normal(jax.random.key(seed), shape, dtype), tied)


def make_tokens(*shape: int, dtype: Any = jnp.float32, scale: float = 1.0) -> tuple[jax.Array, jax.Array]:
    """Hidden states `[*shape, width]` and tokens `[*shape]`."""
    draw = np.random.default_rng(sum(shape))
    hidden = scale * draw.normal(size=(*shape, WIDTH))
    return jnp.asarray(hidden, dtype), jnp.asarray(draw.integers(0, VOCABULARY, shape), jnp.int32)


def assert_close(found: Any, expected: Any, *, rtol: float = 1e-5) -> None:
    """Equal to `rtol` of the largest entry."""
    for left, right in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert left.dtype == right.dtype
        left, right = np.asarray(left, np.float32), np.asarray(right, np.float32)
        assert np.isfinite(left).all()
        np.testing.assert_allclose(left, right, atol=rtol * max(1.0, np.abs(right).max(initial=0)))


def weighted(head: Head, hidden: jax.Array, tokens: jax.Array, at_once: int) -> tuple[jax.Array, jax.Array]:
    """Σ of log-probs with weights of both signs, and the log-probs."""
    log_probs = chunked_log_probs(head, hidden, tokens, at_once=at_once)
    return jnp.sum(jnp.sin(1.0 + jnp.arange(log_probs.size)).reshape(log_probs.shape) * log_probs), log_probs


def value_and_gradients(function: Any, at_once: int, head: Head, *arguments: Any) -> Any:
    found = partial(function, at_once=at_once)
    return jax.jit(jax.value_and_grad(found, argnums=(0, 1), has_aux=True))(head, *arguments)


@pytest.mark.parametrize(
    ("tied", "shape", "columns"),
    [(True, (0,), 4), (True, (1,), 1), (True, (12,), 4), (False, (12,), 1), (False, (13,), 5), (True, (3, 7), 4)],
)
def test_log_probs_equal_plain_ones(tied, shape, columns):
    head, (hidden, tokens) = make_head(tied), make_tokens(*shape)
    at_once = columns * VOCABULARY * int(np.prod(shape[:-1])) + 3
    found = value_and_gradients(weighted, at_once, head, hidden, tokens)
    assert_close(found, value_and_gradients(weighted, WHOLE, head, hidden, tokens))


def test_log_probs_are_those_of_a_softmax():
    head, (hidden, tokens) = make_head(True), make_tokens(9)
    expected = jax.nn.log_softmax(hidden @ head.matrix.T)[jnp.arange(9), tokens]
    for at_once in (WHOLE, 2 * VOCABULARY):
        found = chunked_log_probs(head, hidden, tokens, at_once=at_once)
        assert found.dtype == jnp.float32
        assert_close(found, expected)


@pytest.mark.parametrize("tied", [True, False])
def test_bfloat16_gradients_are_as_good_as_plain_ones(tied):
    """Both are compared with those of the same numbers in float32; a sum kept in bfloat16 would be far off."""
    head, (hidden, tokens) = make_head(tied, dtype=jnp.bfloat16), make_tokens(600, dtype=jnp.bfloat16)
    precise = jax.tree.map(lambda x: x.astype(jnp.float32), (head, hidden))
    (value, _), gradients = value_and_gradients(weighted, 2 * VOCABULARY, head, hidden, tokens)
    (expected, _), targets = value_and_gradients(weighted, WHOLE, *precise, tokens)
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    assert all(x.dtype == jnp.bfloat16 for x in jax.tree.leaves(gradients))
    as_float32 = jax.tree.map(lambda x: x.astype(jnp.float32), gradients)
    assert_close(as_float32, targets, rtol=2**-8)


@pytest.mark.parametrize("scale", [1e4, 1e30])
def test_extreme_logits_stay_finite(scale):
    head, (hidden, tokens) = make_head(False), make_tokens(11, scale=scale)
    found = value_and_gradients(weighted, 2 * VOCABULARY, head, hidden, tokens)
    assert_close(found, value_and_gradients(weighted, WHOLE, head, hidden, tokens))


def squared_hellinger(teacher_logits: jax.Array, student_logits: jax.Array) -> jax.Array:
    """A divergence that the package does not have."""
    log_t, log_s = jax.nn.log_softmax(teacher_logits), jax.nn.log_softmax(student_logits)
    return 1 - jnp.sum(jnp.exp((log_t + log_s) / 2), axis=-1)


def apart(head: Head, hidden: jax.Array, teacher: Any, at_once: int, *, divergence: Any) -> Any:
    """Three times a weighted divergence from a teacher of another width, and the sum of the student's entropies."""
    teacher_head, teacher_hidden, weights = teacher

    def of_chunk(logits: jax.Array, each: Any, teacher_head: Head) -> Any:
        teacher_hidden, weights = each
        nats = divergence(teacher_head.logits(teacher_hidden), logits)
        return jnp.sum(weights * nats), {"tokens": jnp.sum(weights > 0), "nats": jnp.sum(weights * nats)}

    total, sums = chunked_sum(of_chunk, head, hidden, (teacher_hidden, weights), teacher_head, at_once=at_once)
    return 3 * total, sums


def make_teacher(*shape: int) -> tuple[Head, jax.Array, jax.Array]:
    """Head and hidden states of a teacher of another width, and weights of which a third is 0."""
    draw = np.random.default_rng(5)
    weights = draw.random(shape) * (draw.random(shape) > 1 / 3)
    hidden = jnp.asarray(draw.normal(size=(*shape, 6)), jnp.float32)
    return make_head(False, width=6, seed=1), hidden, jnp.asarray(weights, jnp.float32)


DIVERGENCES = [kl_divergence, reverse_kl, partial(jensen_shannon, beta=0.3), squared_hellinger]


@pytest.mark.parametrize(
    ("divergence", "shape"), [*((divergence, (13,)) for divergence in DIVERGENCES), (kl_divergence, (3, 7))]
)
def test_divergences_equal_plain_ones(divergence, shape):
    head, (hidden, _), teacher = make_head(True), make_tokens(*shape), make_teacher(*shape)
    function = partial(apart, divergence=divergence)
    at_once = 5 * VOCABULARY * int(np.prod(shape[:-1]))
    found = value_and_gradients(function, at_once, head, hidden, teacher)
    expected = value_and_gradients(function, WHOLE, head, hidden, teacher)
    assert_close(found, expected)
    assert float(found[0][0]) == pytest.approx(3 * float(found[0][1]["nats"]), rel=1e-5)
    assert int(found[0][1]["tokens"]) == int((teacher[2] > 0).sum())
    # Without a gradient the value comes from a loop of its own.
    assert_close(apart(head, hidden, teacher, at_once, divergence=divergence), expected[0])


@pytest.mark.parametrize("at_once", [2 * VOCABULARY, WHOLE])
def test_no_gradient_reaches_the_teacher(at_once):
    head, (hidden, _), teacher = make_head(True), make_tokens(9), make_teacher(9)
    loss = partial(apart, at_once=at_once, divergence=kl_divergence)
    gradients = jax.grad(lambda teacher: loss(head, hidden, teacher)[0])(teacher)
    assert not any(np.any(np.asarray(x)) for x in jax.tree.leaves(gradients))


def test_what_masked_tokens_hold_has_no_influence():
    head, (hidden, tokens) = make_head(True), make_tokens(13)
    mask = jnp.arange(13) % 3 > 0

    def loss(head, hidden, tokens, at_once):
        def of_chunk(logits, each, _):
            tokens, mask = each
            return jnp.sum(jnp.where(mask, chosen_log_probs(logits, tokens), 0)), ()

        return chunked_sum(of_chunk, head, hidden, (tokens, mask), at_once=at_once)

    found = value_and_gradients(loss, 4 * VOCABULARY, head, hidden, tokens)
    again = value_and_gradients(loss, 4 * VOCABULARY, head, jnp.where(mask[:, None], hidden, 7.0), tokens * mask)
    assert_close(found, value_and_gradients(loss, WHOLE, head, hidden, tokens))
    assert_close(again, found)


def arrays(jaxpr: Any) -> Iterator[Any]:
    """Every value that a program makes, in its inner programs too."""
    for equation in jaxpr.eqns:
        yield from (variable.aval for variable in equation.outvars)
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from arrays(inner)


def tokens_at_once(function: Any, at_once: int, *arguments: Any) -> int:
    """Most tokens whose logits, or anything of that size, are in one array; the head's own gradient is none."""
    found = jax.make_jaxpr(jax.value_and_grad(partial(function, at_once=at_once), (0, 1), has_aux=True))(*arguments)
    shapes = [aval.shape for aval in arrays(found.jaxpr) if VOCABULARY in aval.shape and WIDTH not in aval.shape]
    return max(int(np.prod(shape)) // VOCABULARY for shape in shapes)


def test_never_are_all_logits_there():
    head, (hidden, tokens), (_, *rest) = make_head(False), make_tokens(2, 50), make_teacher(2, 50)
    teacher = make_head(True, width=6), *rest
    divergence = partial(apart, divergence=partial(jensen_shannon, beta=0.5))
    for function, argument in ((weighted, tokens), (divergence, teacher)):
        assert tokens_at_once(function, WHOLE, head, hidden, argument) == 100
        assert tokens_at_once(function, 12 * VOCABULARY, head, hidden, argument) == 12


def test_at_once_must_hold_something():
    with pytest.raises(ValueError, match="at_once is 0 logits; expected at least 1"):
        chunked_log_probs(make_head(True), *make_tokens(3), at_once=0)
