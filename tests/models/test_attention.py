"""Attention in every form equals plain attention under the same mask, and so do its gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pivotopd_jax.models import attention
from pivotopd_jax.models.attention import Tree, attend, by_head, mask_bias, prepare, tree_mask


def test_tree_mask_of_a_small_tree() -> None:
    """Tokens a(b(c) d) in depth-first order, then two tokens of padding."""
    mask = tree_mask(jnp.array([[4, 3, 3, 4, 5, 6]]))
    expected = [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]
    np.testing.assert_array_equal(mask[0], np.array(expected, bool))


def test_attention_equals_that_of_jax_and_is_finite_where_nothing_is_seen() -> None:
    draw = np.random.default_rng(0)
    for length in (1, 9):
        query, key, value = (
            jnp.asarray(draw.normal(size=(2, n, heads, 8)), jnp.float32) for n, heads in ((length, 4), (9, 2), (9, 2))
        )
        mask = jnp.asarray(draw.random((2, length, 9)) < 0.6).at[:, :, 0].set(True)
        expected = jax.nn.dot_product_attention(query, key, value, mask=mask[:, None])
        got = attend(query, *by_head(key, value), mask_bias(mask))
        np.testing.assert_allclose(got, expected, atol=1e-5)
        blind = attend(query, *by_head(key, value), mask_bias(jnp.zeros_like(mask)))
        mean = jnp.repeat(value.mean(1, keepdims=True), 2, axis=2)
        np.testing.assert_allclose(blind, jnp.broadcast_to(mean, blind.shape), atol=1e-5)


def random_trees(length: int, seed: int) -> np.ndarray:
    """`subtree_end [2, length]` of random forests, with padding at the end of the second."""
    draw = np.random.default_rng(seed)
    found = np.tile(np.arange(length) + 1, (2, 1))
    for row, used in enumerate((length, length - 7)):
        path: list[int] = []
        for i in range(used):
            path = [*path[: draw.integers(max(0, len(path) - 2), len(path) + 1)], i]
            found[row, path] = i + 1
    return found


def attended(tree: Tree, bias: Any) -> tuple[jax.Array, Any]:
    """What `attend` gives for random queries, keys and values, and its gradients for random ones of that."""
    draw, length = np.random.default_rng(1), tree.subtree_end.shape[1]
    query, key, value, out = (jnp.asarray(draw.normal(size=(2, length, n, 8)), jnp.float32) for n in (4, 2, 2, 4))
    found, back = jax.vjp(lambda q, k, v: attend(q, *by_head(k, v), bias), query, key, value)
    return found, back(out)


def assert_as_masked(tree: Tree) -> None:
    got, expected = attended(tree, prepare(tree)), attended(tree, mask_bias(tree_mask(tree.subtree_end)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), got, expected)


@pytest.mark.parametrize(("length", "scores", "stretches"), [(300, 1, 2), (300, 100 * 300, 1), (301, 1 << 22, 3)])
def test_trees_in_blocks_equal_their_mask_and_so_do_the_gradients(monkeypatch, length, scores, stretches) -> None:
    monkeypatch.setattr(attention, "BLOCKWISE_FROM", length)
    monkeypatch.setattr(attention, "SCORES_AT_ONCE", scores)
    monkeypatch.setattr(attention, "STRETCHES", stretches)
    monkeypatch.setattr(attention, "SHORTEST_STRETCH", 64)
    tree = Tree(jnp.asarray(random_trees(length, 2)))
    assert prepare(tree) is tree
    assert_as_masked(tree)


@pytest.mark.parametrize(("length", "keys"), [(32, [32]), (301, [151, 301]), (640, [160, 320, 480, 640])])
def test_short_trees_are_attended_to_in_stretches(length, keys) -> None:
    tree = Tree(jnp.asarray(random_trees(length, 3)))
    biases = prepare(tree)
    assert [bias.shape[2] for bias in biases] == keys
    assert_as_masked(tree)
