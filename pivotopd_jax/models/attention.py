"""Grouped-query attention under a mask: all at once, or a block of queries at a time."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

BLOCKWISE_FROM = 2048
"""Token trees of this length or more are attended to in blocks."""

SCORES_AT_ONCE = 2**22
"""Scores of a row and a head that are held at once where trees are attended to in blocks."""

STRETCHES = 4
"""Into so many stretches rows of trees are cut at most; queries of each see no keys after it, which saves three eighths
of the scores."""

SHORTEST_STRETCH = 128
"""Tokens."""


class Tree(NamedTuple):
    """Rows that hold token trees in depth-first order: a mask that takes no space.

    Attributes:
        subtree_end: `[batch, length]` int32, one past the last descendant of each token; for padding its own index
            plus one, so that it sees itself only.
    """

    subtree_end: jax.Array


Mask = jax.Array | Tree
"""`[batch, length, keys]` bool, which key each query may attend to; or trees, whose tokens see their ancestors."""


def tree_mask(subtree_end: jax.Array) -> jax.Array:
    """The mask of a `Tree`.

    Args:
        subtree_end: `[batch, length]` int32.

    Returns:
        `[batch, length, length]` bool: query i may attend to key j iff `j <= i < subtree_end[j]`, that is, iff j is i
        or an ancestor of i.
    """
    return _seen(jnp.arange(subtree_end.shape[-1]), subtree_end)


def _seen(queries: jax.Array, subtree_end: jax.Array) -> jax.Array:
    """`[batch, queries, keys]` bool for queries at these indices."""
    keys = jnp.arange(subtree_end.shape[-1])
    return (keys <= queries[:, None]) & (queries[:, None] < subtree_end[:, None, :])


def mask_bias(mask: jax.Array) -> jax.Array:
    """What to add to attention scores: 0 where `mask` is true, the lowest float32 elsewhere.

    Finite, so that a query that may see nothing gets the mean of all values, never NaN.
    """
    return jnp.where(mask, jnp.float32(0.0), jnp.finfo(jnp.float32).min)


Bias = jax.Array | tuple[jax.Array, ...] | Tree
"""`[batch, length, keys]` float32, to be added to scores; of trees one for each stretch, with the keys up to its end;
or trees that are too long to have any."""


def prepare(mask: Mask) -> Bias:
    """What all layers hand to `attend`."""
    if not isinstance(mask, Tree):
        return mask_bias(mask)
    length = mask.subtree_end.shape[1]
    if length >= BLOCKWISE_FROM:
        return mask
    return tuple(
        mask_bias(_seen(jnp.arange(start, end), mask.subtree_end[:, :end])) for start, end in _stretches(length)
    )


def _stretches(length: int) -> list[tuple[int, int]]:
    """Where each stretch of a row starts and ends."""
    size = -(-length // max(1, min(STRETCHES, length // SHORTEST_STRETCH)))
    return [(start, min(length, start + size)) for start in range(0, length, size)]


def by_head(key: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Keys and values as `attend` reads them, and as a cache holds them, so that nothing is transposed to decode.

    Args:
        key, value: `[batch, keys, num_kv_heads, head_dim]`.

    Returns:
        `[batch, num_kv_heads, head_dim, keys]` and `[batch, num_kv_heads, keys, head_dim]`.
    """
    return key.transpose(0, 2, 3, 1), value.transpose(0, 2, 1, 3)


def attend(query: jax.Array, key: jax.Array, value: jax.Array, bias: Bias) -> jax.Array:
    """Grouped-query attention.

    Args:
        query: `[batch, length, num_heads, head_dim]`.
        key: `[batch, num_kv_heads, head_dim, keys]`.
        value: `[batch, num_kv_heads, keys, head_dim]`.
        bias: from `prepare`.

    Returns:
        `[batch, length, num_heads, head_dim]`, of the query's dtype.
    """
    batch, length, num_heads, head_dim = query.shape
    query = (query / math.sqrt(head_dim)).reshape(batch, length, key.shape[1], -1, head_dim).transpose(0, 2, 3, 1, 4)
    if isinstance(bias, jax.Array):
        attended = _attend_grouped(query, key, value, bias)
    else:
        attended = _attend_trees(query, key, value, bias)
    return attended.transpose(0, 3, 1, 2, 4).reshape(batch, length, num_heads, head_dim)


def _attend_grouped(query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array) -> jax.Array:
    """`attend` of scaled queries `[batch, kv, group, length, dim]`."""
    batch, num_kv_heads, group, length, head_dim = query.shape
    # The queries that share a key head are rows of one matrix: plain batched products are what XLA does fastest.
    rows = query.reshape(batch, num_kv_heads, group * length, head_dim)
    scores = jnp.einsum("bkrd,bkds->bkrs", rows, key, preferred_element_type=jnp.float32)
    scores = scores.reshape(batch, num_kv_heads * group, length, -1) + bias[:, None]
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype).reshape(batch, num_kv_heads, group * length, -1)
    return jnp.einsum("bkrs,bksd->bkrd", weights, value).reshape(query.shape)


def _attend_trees(query: jax.Array, key: jax.Array, value: jax.Array, trees: tuple[jax.Array, ...] | Tree) -> jax.Array:
    """`_attend_grouped` within trees, a stretch of queries at a time."""
    parts = []
    for number, (start, end) in enumerate(_stretches(query.shape[3])):
        seen = query[:, :, :, start:end], key[..., :end], value[:, :, :end]
        if isinstance(trees, Tree):
            parts.append(_attend_stretch(*seen, Tree(trees.subtree_end[:, :end]), start))
        else:
            parts.append(_attend_grouped(*seen, trees[number]))
    return jnp.concatenate(parts, axis=3)


def _attend_stretch(query: jax.Array, key: jax.Array, value: jax.Array, tree: Tree, start: int) -> jax.Array:
    """Attention of the queries from index `start` on to all keys given, in blocks; their scores are made anew for the
    gradient."""
    length, keys = query.shape[3], key.shape[3]
    size = min(length, max(64, 1 << max(1, SCORES_AT_ONCE // keys).bit_length() - 1))
    blocks = -(-length // size)
    padding = [(0, 0)] * 3 + [(0, blocks * size - length), (0, 0)]
    each = jnp.pad(query, padding).reshape(*query.shape[:3], blocks, size, -1)

    @partial(jax.checkpoint, prevent_cse=False)
    def block(_: None, of: tuple[jax.Array, jax.Array]) -> tuple[None, jax.Array]:
        first, rows = of
        bias = mask_bias(_seen(first + jnp.arange(size), tree.subtree_end))
        return None, _attend_grouped(rows, key, value, bias)

    firsts = start + size * jnp.arange(blocks)
    _, found = jax.lax.scan(block, None, (firsts, jnp.moveaxis(each, 3, 0)))
    return jnp.moveaxis(found, 0, 3).reshape(*query.shape[:3], blocks * size, -1)[:, :, :, :length]
