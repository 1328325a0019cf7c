"""Packs (context, response) pairs into rows of token trees.

Rows of one trajectory share most of their context. Here each distinct token is computed once: sequences that start
alike become branches of one tree, trees are written in depth-first order and packed first-fit into rows of fixed
length. `subtree_end` is all that attention needs: token i sees token j iff j ≤ i < subtree_end[j].
A response never shares its own tokens with another sequence's response, so each is scored and trained separately.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pivotopd_jax.sampling.engine import common_prefix


@dataclass(frozen=True, eq=False)
class Scored:
    """One response to score.

    Attributes:
        family: sequences of one family may share a tree.
        context_ids: `[context_length]` int32, at least one token.
        response_ids: `[response_length]` int32, at least one token.
    """

    family: Hashable
    context_ids: np.ndarray
    response_ids: np.ndarray


@dataclass(frozen=True, eq=False)
class Packed:
    """Token trees in rows.

    Attributes:
        tokens, positions, subtree_end, parent: `[rows, length]` int32; `parent` is the index within the row of the
            token before, whose hidden state predicts this one (itself for the first token of a tree and for padding).
        row: `[sequences]` row of each sequence's response.
        places: per sequence `[response_length]` indices within that row.
    """

    tokens: np.ndarray
    positions: np.ndarray
    subtree_end: np.ndarray
    parent: np.ndarray
    row: np.ndarray
    places: list[np.ndarray]

    def gather(self, values: np.ndarray) -> list[np.ndarray]:
        """Per sequence the entries of `values [rows, length]` at its response tokens."""
        return [values[r, p] for r, p in zip(self.row, self.places, strict=True)]

    def scatter(self, values: Sequence[Any], dtype: Any = np.float32) -> np.ndarray:
        """`[rows, length]` array with `values[i]` at the response tokens of sequence i and 0 elsewhere."""
        out = np.zeros(self.tokens.shape, dtype)
        for r, p, value in zip(self.row, self.places, values, strict=True):
            out[r, p] = value
        return out


@dataclass(eq=False)
class _Segment:
    """A run of tokens hanging below token `fork` (depth) of its parent segment."""

    tokens: np.ndarray
    depth: int
    forks: dict[int, list[_Segment]] = field(default_factory=dict)
    start: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class _Path:
    """A sequence inside a tree: its ids, and per token the segment that holds it."""

    index: int
    ids: np.ndarray
    response_from: int
    segments: list[tuple[_Segment, int]]
    """(segment, first depth not in it): the path runs through each segment up to that depth."""


@dataclass(eq=False)
class _Tree:
    root: _Segment
    paths: list[_Path]
    size: int


def _grow(trees: list[_Tree], index: int, sequence: Scored, limit: int) -> None:
    """Hangs `sequence` onto the tree of its family that shares the longest prefix, or starts a new one."""
    ids = np.concatenate([sequence.context_ids, sequence.response_ids]).astype(np.int32)
    context = len(sequence.context_ids)
    if len(ids) > limit:
        raise ValueError(f"a sequence of {len(ids)} tokens does not fit a row of {limit}; raise config.row_tokens")
    shared, tree, path = 0, None, None
    for candidate in trees:
        for known in reversed(candidate.paths):
            length = common_prefix(known.ids, ids[:context])
            if length > shared and candidate.size + len(ids) - length <= limit:
                shared, tree, path = length, candidate, known
    new = _Segment(ids[shared:], shared)
    if tree is None or path is None:
        trees.append(_Tree(new, [_Path(index, ids, context, [(new, len(ids))])], len(ids)))
        return
    through = []
    for segment, until in path.segments:
        through.append((segment, min(until, shared)))
        if until >= shared:
            segment.forks.setdefault(shared, []).append(new)
            break
    tree.paths.append(_Path(index, ids, context, [*through, (new, len(ids))]))
    tree.size += len(new.tokens)


def _write(tree: _Tree, offset: int, tokens, positions, subtree_end, parent) -> None:
    """Writes `tree` depth-first into the row arrays from `offset` on, and notes in each segment what went where."""
    at = offset

    def emit(segment: _Segment, before: int | None) -> None:
        nonlocal at
        written = []
        for k, token in enumerate(segment.tokens):
            depth = segment.depth + k
            tokens[at], positions[at], parent[at] = token, depth, at if before is None else before
            segment.start[depth] = before = at
            written.append(at)
            at += 1
            for child in segment.forks.get(depth + 1, ()):
                emit(child, before)
        subtree_end[written] = at

    emit(tree.root, None)


def _first_fit(sizes: Sequence[int], length: int) -> list[tuple[int, int]]:
    """(row, offset) of each piece, largest first into the first row with room."""
    free: list[int] = []
    placed = [(0, 0)] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        row = next((r for r, room in enumerate(free) if room >= sizes[i]), len(free))
        if row == len(free):
            free.append(length)
        placed[i] = (row, length - free[row])
        free[row] -= sizes[i]
    return placed


def pack(sequences: Sequence[Scored], *, length: int) -> Packed:
    """Packs `sequences` into rows of `length` tokens.

    Args:
        sequences: responses with their contexts, in any order; those of one family should follow one another in the
            order in which they extend each other.
        length: tokens of a row.

    Raises:
        ValueError: a sequence is longer than a row, or has an empty context or response.
    """
    families: dict[Hashable, list[_Tree]] = {}
    for index, sequence in enumerate(sequences):
        if not len(sequence.context_ids) or not len(sequence.response_ids):
            raise ValueError(f"sequence {index} of family {sequence.family!r} has an empty context or response")
        _grow(families.setdefault(sequence.family, []), index, sequence, length)
    trees = [tree for family in families.values() for tree in family]
    placed = _first_fit([tree.size for tree in trees], length)
    rows = 1 + max((row for row, _ in placed), default=-1)
    own = np.tile(np.arange(length, dtype=np.int32), (rows, 1))
    packed = Packed(
        np.zeros((rows, length), np.int32), np.zeros((rows, length), np.int32), own + 1, own.copy(),
        np.zeros(len(sequences), np.int32), [np.zeros(0, np.int32)] * len(sequences),
    )  # fmt: skip
    for tree, (row, offset) in zip(trees, placed, strict=True):
        _write(tree, offset, packed.tokens[row], packed.positions[row], packed.subtree_end[row], packed.parent[row])
        for path in tree.paths:
            last = path.segments[-1][0]
            packed.row[path.index] = row
            packed.places[path.index] = np.asarray(
                [last.start[d] for d in range(path.response_from, len(path.ids))], np.int32
            )
    return packed
