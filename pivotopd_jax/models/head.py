"""The output head: from hidden states to logits, and to what is wanted of them without holding all of them.

The logits of 32,768 tokens over Qwen3's 151,936 outcomes are 20 GB of float32, and a gradient takes as much again. Here
tokens are taken in chunks. The gradient of a sum over tokens (`chunked_sum`, what training minimises) is made together
with its value, so that no logit is computed twice; that of single log-probs (`chunked_log_probs`) has to wait for what
is done with them, and computes them anew. Gradients of the head are summed up in float32, whatever its dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from pivotopd_jax.models.row_axes import keep_rows

LOGITS_AT_ONCE = 2**26
"""Logits that a device holds at a time: 256 MiB of float32, 441 tokens of Qwen3's vocabulary. Each chunk reads and
writes the head's whole gradient once, so that much smaller ones are slow; a small student's are all one chunk."""

ChunkFunction = Callable[[jax.Array, Any, Any], tuple[jax.Array, Any]]
"""(logits `[..., tokens, vocabulary]`, what belongs to these tokens, what belongs to all) → a scalar that is a sum over
the tokens, and a tree of further such sums, and of `Greatest`, that carry no gradient."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Greatest:
    """Stands among sums over tokens for a maximum over them.

    Attributes:
        value: not negative, and 0 of no token.
    """

    value: Any


def added(left: Any, right: Any) -> Any:
    """Two trees of sums over tokens, and of maxima, as one over the tokens of both."""

    def add(a: Any, b: Any) -> Any:
        return Greatest(jnp.maximum(a.value, b.value)) if isinstance(a, Greatest) else a + b

    return jax.tree.map(add, left, right, is_leaf=lambda leaf: isinstance(leaf, Greatest))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Head:
    """The matrix that makes logits.

    Attributes:
        matrix: `[width, vocabulary]`; where it is the embedding, `[vocabulary, width]`: not transposed, since XLA
            would copy it for a loop over chunks.
        tied: it is the embedding.
    """

    matrix: jax.Array
    tied: bool = field(metadata={"static": True})

    @property
    def vocabulary(self) -> int:
        """Number of outcomes."""
        return self.matrix.shape[0 if self.tied else 1]

    def logits(self, hidden: jax.Array) -> jax.Array:
        """Logits `[..., vocabulary]` float32 of `hidden` `[..., width]`."""
        logits = keep_rows(_contract(_rows(hidden), self.matrix, 1, 1 if self.tied else 0))
        return logits.reshape(*hidden.shape[:-1], self.vocabulary)

    def gradients(self, hidden: jax.Array, of_logits: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Gradients of the matrix, float32, and of `hidden`, of its dtype, given that of the logits."""
        rows, out = _rows(hidden), _rows(of_logits)
        of_hidden = keep_rows(_contract(out, self.matrix, 1, 0 if self.tied else 1))
        of_matrix = _contract(out, rows, 0, 0) if self.tied else _contract(rows, out, 0, 0)
        return of_matrix, of_hidden.reshape(hidden.shape).astype(hidden.dtype)


def _rows(array: jax.Array) -> jax.Array:
    return array.reshape(-1, array.shape[-1])


def _contract(left: jax.Array, right: jax.Array, left_axis: int, right_axis: int) -> jax.Array:
    axes = (((left_axis,), (right_axis,)), ((), ()))
    return jax.lax.dot_general(left, right, axes, preferred_element_type=jnp.float32)


def chosen_log_probs(logits: jax.Array, tokens: jax.Array) -> jax.Array:
    """Log-probs `[...]` in nats of `tokens` `[...]` int32 under `logits` `[..., vocabulary]`."""
    chosen = jnp.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)


def chunked_log_probs(head: Head, hidden: jax.Array, tokens: jax.Array, *, at_once: int = LOGITS_AT_ONCE) -> jax.Array:
    """Log-probs of `tokens` after `hidden`; differentiable once, in reverse, by `head` and `hidden`.

    Args:
        head: of the model.
        hidden: `[..., tokens, width]`; leading axes stay whole, so that they may be sharded.
        tokens: `[..., tokens]` int32.
        at_once: logits held at a time; the gradient holds about as many again.

    Returns:
        `[..., tokens]` float32, nats.
    """
    count, axis = _count(hidden, head, at_once), tokens.ndim - 1
    if count == 1:
        return chosen_log_probs(head.logits(hidden), tokens)
    pieces = _log_probs(head, _split(hidden, count, axis), _split(tokens, count, axis))
    return jnp.moveaxis(pieces, 0, axis).reshape(*tokens.shape[:-1], -1)[..., : tokens.shape[-1]]


@jax.custom_vjp
def _log_probs(head: Head, hidden: jax.Array, tokens: jax.Array) -> jax.Array:
    return jax.lax.map(lambda piece: chosen_log_probs(head.logits(piece[0]), piece[1]), (hidden, tokens))


def _log_probs_forward(head: Head, hidden: jax.Array, tokens: jax.Array) -> tuple[jax.Array, Any]:
    return _log_probs(head, hidden, tokens), (head, hidden, tokens)


def _log_probs_backward(kept: Any, gradient: jax.Array) -> tuple[Head, jax.Array, None]:
    head, hidden, tokens = kept

    def weighted(logits: jax.Array, each: Any, _: None) -> tuple[jax.Array, None]:
        return jnp.sum(each[1] * chosen_log_probs(logits, each[0])), None

    _, of_matrix, of_hidden = _sum_and_gradients(weighted, head, hidden, (tokens, gradient), None)
    return Head(of_matrix.astype(head.matrix.dtype), head.tied), of_hidden, None


_log_probs.defvjp(_log_probs_forward, _log_probs_backward)


def chunked_sum(
    function: ChunkFunction,
    head: Head,
    hidden: jax.Array,
    each: Any,
    given: Any = None,
    *,
    at_once: int = LOGITS_AT_ONCE,
) -> tuple[jax.Array, Any]:
    """Σ over tokens of what `function` makes of their logits; differentiable once, in reverse, by `head` and `hidden`.

    Args:
        function: of the logits of a chunk. It must be 0 for tokens whose entries of `each` are 0, with which the last
            chunk is filled up, and use no traced value but its arguments.
        head: of the model.
        hidden: `[..., tokens, width]`; leading axes stay whole, so that they may be sharded.
        each: tree of arrays `[..., tokens]` or `[..., tokens, n]`; no gradient reaches them.
        given: tree of arrays that every chunk gets whole; no gradient reaches them.
        at_once: logits held at a time; the gradient holds about as many again.

    Returns:
        As `function`, of all tokens.
    """
    each, given = jax.lax.stop_gradient((each, given))
    count, axis = _count(hidden, head, at_once), hidden.ndim - 2
    if count == 1:
        total, sums = function(head.logits(hidden), each, given)
        return total, jax.lax.stop_gradient(sums)
    hidden, each = jax.tree.map(lambda a: _split(a, count, axis), (hidden, each))
    return _sum(function, head, hidden, each, given)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sum(function: ChunkFunction, head: Head, hidden: jax.Array, each: Any, given: Any) -> tuple[jax.Array, Any]:
    def add(total: Any, piece: Any) -> tuple[Any, None]:
        return added(total, function(head.logits(piece[0]), piece[1], given)), None

    return jax.lax.scan(add, _zeros(function, head, hidden, each, given), (hidden, each))[0]


def _sum_forward(
    function: ChunkFunction, head: Head, hidden: jax.Array, each: Any, given: Any
) -> tuple[tuple[jax.Array, Any], Any]:
    total, of_matrix, of_hidden = _sum_and_gradients(function, head, hidden, each, given)
    return total, (Head(of_matrix.astype(head.matrix.dtype), head.tied), of_hidden)


def _sum_backward(function: ChunkFunction, kept: Any, gradient: tuple[jax.Array, Any]) -> tuple[Any, ...]:
    del function
    return *jax.tree.map(lambda x: (gradient[0] * x).astype(x.dtype), kept), None, None


_sum.defvjp(_sum_forward, _sum_backward)


def _sum_and_gradients(
    function: ChunkFunction, head: Head, hidden: jax.Array, each: Any, given: Any
) -> tuple[Any, jax.Array, jax.Array]:
    """What `function` gives for all chunks, and its gradients by the head's matrix (float32) and by `hidden`.

    Args:
        function, head, given: as in `chunked_sum`.
        hidden, each: as there, split into chunks along a new first axis.
    """

    def add(carry: Any, piece: Any) -> tuple[Any, jax.Array]:
        total, of_matrix = carry
        hidden, each = piece
        logits = head.logits(hidden)
        found, of_logits = jax.value_and_grad(function, has_aux=True)(logits, each, given)
        more, of_hidden = head.gradients(hidden, of_logits)
        return (added(total, found), of_matrix + more), of_hidden

    start = _zeros(function, head, hidden, each, given), jnp.zeros(head.matrix.shape, jnp.float32)
    (total, of_matrix), of_hidden = jax.lax.scan(add, start, (hidden, each))
    return total, of_matrix, of_hidden


def _zeros(function: ChunkFunction, head: Head, hidden: jax.Array, each: Any, given: Any) -> Any:
    """What `function` gives for no token at all."""

    def of_one(head: Head, hidden: jax.Array, each: Any, given: Any) -> Any:
        return function(head.logits(hidden[0]), jax.tree.map(lambda a: a[0], each), given)

    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(of_one, head, hidden, each, given))


def _count(hidden: jax.Array, head: Head, at_once: int) -> int:
    """Chunks of equal size that hold at most `at_once` logits each, or one token of each leading entry."""
    if at_once < 1:
        raise ValueError(f"at_once is {at_once} logits; expected at least 1")
    tokens = hidden.shape[-2]
    size = max(1, at_once // max(1, math.prod(hidden.shape[:-2]) * head.vocabulary))
    size = -(-tokens // max(1, -(-tokens // size)))  # no larger than their number makes necessary
    return max(1, -(-tokens // max(1, size)))


def _split(array: jax.Array, count: int, axis: int) -> jax.Array:
    """`array` cut along `axis` into `count` chunks of equal size along a new first axis, the last filled with 0."""
    size = -(-array.shape[axis] // count)
    widths = [(0, count * size - array.shape[axis] if at == axis else 0) for at in range(array.ndim)]
    shape = (*array.shape[:axis], count, size, *array.shape[axis + 1 :])
    return jnp.moveaxis(jnp.pad(array, widths).reshape(shape), axis, 0)
