"""Packed trees: every response keeps its own context, whatever shares a row with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotopd_jax.rollout.packing import Packed, Scored, pack


def ids(*tokens: int) -> np.ndarray:
    return np.asarray(tokens, np.int32)


def path(packed: Packed, row: int, place: int) -> list[int]:
    """Tokens that `place` may attend to, by the rule of `subtree_end`, in order."""
    ancestors = [j for j in range(place + 1) if place < packed.subtree_end[row, j]]
    return packed.tokens[row, ancestors].tolist()


def assert_faithful(packed: Packed, sequences: list[Scored]) -> None:
    used = set()
    for sequence, row, places in zip(sequences, packed.row, packed.places, strict=True):
        whole = np.concatenate([sequence.context_ids, sequence.response_ids]).tolist()
        assert packed.tokens[row, places].tolist() == sequence.response_ids.tolist()
        for k, place in enumerate(places):
            seen = whole[: len(sequence.context_ids) + k + 1]
            assert path(packed, row, place) == seen
            assert packed.positions[row, place] == len(seen) - 1
            assert path(packed, row, int(packed.parent[row, place])) == seen[:-1]
            assert (row, place) not in used
            used.add((row, place))


def test_a_transcript_with_a_list_a_hint_and_a_recovery():
    first, reply, more = [1, 2, 3], [10, 11], [4, 5]
    sequences = [
        Scored(0, ids(*first, 90, 91), ids(*reply)),  # a list shown for this turn only
        Scored(0, ids(*first, *reply, *more), ids(12, 13)),
        Scored(0, ids(*first, *reply, *more, 77), ids(12, 13)),  # the same response under a hint
        Scored(0, ids(*first, *reply, *more), ids(12, 14)),  # another response in the same place
        Scored(1, ids(*first), ids(*reply)),
    ]
    packed = pack(sequences, length=32)
    assert_faithful(packed, sequences)
    # 5 + 2 for the first; the second adds its reply as context and 2 + 2; the third 1 + 2; the fourth 2; the fifth 5.
    assert packed.tokens.shape == (1, 32)
    assert int((packed.subtree_end[0] > np.arange(32) + 1).sum() > 0)
    assert np.count_nonzero(packed.tokens) == 7 + 6 + 3 + 2 + 5


def test_a_tree_that_would_overflow_its_row_starts_anew():
    context = list(range(1, 20))
    sequences = [Scored(0, ids(*context), ids(50 + i, 60 + i)) for i in range(5)]
    packed = pack(sequences, length=24)
    assert packed.tokens.shape[0] == 3
    assert_faithful(packed, sequences)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_families_are_faithful(data):
    token = st.integers(1, 4)
    sequences, known = [], [[1]]
    for family in range(data.draw(st.integers(1, 3))):
        for _ in range(data.draw(st.integers(1, 6))):
            start = data.draw(st.sampled_from(known))
            context = [*start[: data.draw(st.integers(1, len(start)))], *data.draw(st.lists(token, max_size=4))]
            response = data.draw(st.lists(token, min_size=1, max_size=3))
            sequences.append(Scored(family, ids(*context), ids(*response)))
            known.append([*context, *response])
    length = data.draw(st.integers(max(len(k) for k in known), 64))
    assert_faithful(pack(sequences, length=length), sequences)


def test_scatter_and_gather_are_inverse():
    sequences = [Scored(0, ids(1, 2), ids(3, 4, 5)), Scored(0, ids(1, 2), ids(6))]
    packed = pack(sequences, length=8)
    values = packed.scatter([np.array([0.5, 1.5, 2.5]), 7.0])
    assert [v.tolist() for v in packed.gather(values)] == [[0.5, 1.5, 2.5], [7.0]]
    assert values.sum() == 11.5


def test_a_sequence_longer_than_a_row_is_refused():
    with pytest.raises(ValueError, match="a sequence of 9 tokens does not fit a row of 8; raise config"):
        pack([Scored(0, np.ones(7, np.int32), np.ones(2, np.int32))], length=8)


def test_an_empty_response_is_refused():
    with pytest.raises(ValueError, match="sequence 0 of family 0 has an empty context or response"):
        pack([Scored(0, ids(1), ids())], length=8)
