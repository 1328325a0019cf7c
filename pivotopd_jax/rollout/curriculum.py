"""Which tasks a step plays: a seeded order without end, made without holding it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


def curriculum(items: Sequence[Item], step: int, count: int, seed: int) -> list[Item]:
    """The `count` items of `step`: all of them in a seeded order, each once before any comes again."""
    first = step * count
    return [
        items[_shuffled(len(items), seed + place // len(items), place % len(items))]
        for place in range(first, first + count)
    ]


def _shuffled(size: int, seed: int, place: int) -> int:
    """Entry `place` of a seeded permutation of `size` entries, without making the permutation: an affine one."""
    draw = np.random.default_rng(seed)
    shift = int(draw.integers(size))
    factor = int(draw.integers(size)) | 1
    while np.gcd(factor, size) != 1:
        factor += 2
    return (place * factor + shift) % size
