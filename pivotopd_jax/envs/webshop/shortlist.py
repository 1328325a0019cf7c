"""Which documents can be among the best of a search, without scoring every one exactly.

Rare words are added up exactly, frequent ones from a byte for each document that bounds what they add. A word that is
in most documents adds little, so often none of its bytes need be read (Turtle and Flood 1995 call this MaxScore).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FEW = 1000
"""Groups of documents that are still in question; with so few, exact scores cost less than another frequent word."""
CHUNK = 16_384
"""Documents at a time, so that what is written stays in the cache."""
GROUPS = 4096
"""Groups that documents are put into; the highest sums of groups stand for the highest sums of documents."""
_STEP = 1 / 255
_ROUNDING = 2.0**-22


class Word(NamedTuple):
    """A word of a query, and the documents that hold it.

    Attributes:
        weight: float32, what no document gets more than from it.
        documents: `[postings]` int32, ascending.
        saturations: `[postings]` float32.
        impacts: `[all documents]` uint8 of a frequent word, see `impact_bytes`.
    """

    weight: np.float32
    documents: np.ndarray
    saturations: np.ndarray
    impacts: np.ndarray | None = None

    def adds(self, places: np.ndarray | slice = slice(None)) -> np.ndarray:
        """What it adds to the scores of the documents at `places`, `[places]` float32, rounded as Lucene rounds."""
        return self.weight - self.weight / (np.float32(1) + self.saturations[places])


def impact_bytes(documents: np.ndarray, saturations: np.ndarray, size: int) -> np.ndarray:
    """⌈255 · saturation / (1 + saturation)⌉ of each of `size` documents, `[size]` uint8; 0 without the word."""
    impacts, saturations = np.zeros(size, np.uint8), saturations.astype(np.float64)
    impacts[documents] = np.ceil(255 * (saturations / (1 + saturations)))
    return impacts


def shortlist(words: Sequence[Word], size: int, count: int) -> np.ndarray:
    """Some of `size` documents, among them the `count` best and all that share the last one's score; ascending int32.

    A document is left out only if the most it can reach is less than what `count` others reach at least. The most is
    the sum of exact or bounding parts, and the whole weight of a word not yet added. The least is the same without
    what the bounds may exaggerate. Rounding can move two sums of n words apart by (n + 8) · 2⁻²³ of the sum of
    weights; the margin is twice that.
    """
    rare = [word for word in words if word.impacts is None]
    frequent = [(float(word.weight), word.impacts) for word in words if word.impacts is not None]
    frequent.sort(key=lambda pair: -pair[0])
    rows = max(1, size // GROUPS)
    most = np.zeros((rows, -(-size // rows)), np.float32)
    for word in rare:
        most.reshape(-1)[word.documents.astype(np.intp)] += word.adds()
    added, left = sum(float(word.weight) for word in rare), sum(weight for weight, _ in frequent)
    slack = (added + left) * (len(words) + 8) * _ROUNDING
    for weight, impacts in frequent:
        if added > left:  # else no sum is more than what is left
            tops = most.max(axis=0)
            limit = _least(tops, count) - slack - left
            if limit > 0 and np.count_nonzero(tops >= limit) <= FEW:
                return _at_least(most, tops, limit)
        _add_bounds(most.reshape(-1), impacts, weight)
        added, left, slack = added + weight, left - weight, slack + weight * _STEP
    tops = most.max(axis=0)
    return _at_least(most, tops, _least(tops, count) - slack)


def _least(tops: np.ndarray, count: int) -> float:
    """What no less than `count` documents reach, from the highest sum of each group."""
    return float(np.partition(tops, -count)[-count]) if len(tops) >= count else 0.0


def _at_least(most: np.ndarray, tops: np.ndarray, limit: float) -> np.ndarray:
    """Documents whose sums are no less than `limit`, and not 0; only groups that reach it are looked through."""
    groups = np.flatnonzero(tops >= limit if limit > 0 else tops)
    found = most[:, groups]
    rows, columns = np.nonzero(found >= limit if limit > 0 else found)
    return (rows * most.shape[1] + groups[columns]).astype(np.int32)


def _add_bounds(most: np.ndarray, impacts: np.ndarray, weight: float) -> None:
    for start in range(0, len(impacts), CHUNK):
        part = impacts[start : start + CHUNK].astype(np.float32)
        part *= np.float32(weight * _STEP)
        most[start : start + len(part)] += part
