"""What a rollout asks of a policy, whoever runs the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

Item = TypeVar("Item")


def request_seed(*parts: int) -> int:
    """A 32-bit seed that depends on every part."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def waves(items: Iterable[Item], session: Callable[[Item], Hashable]) -> list[list[Item]]:
    """`items` in batches in which no session occurs twice; those of one session keep their order.

    Each then finds its session's context in the policy's cache as the one before it left it.
    """
    found: list[list[Item]] = []
    seen: Counter[Hashable] = Counter()
    for item in items:
        name = session(item)
        if seen[name] == len(found):
            found.append([])
        found[seen[name]].append(item)
        seen[name] += 1
    return found


@dataclass(frozen=True, eq=False)
class Request:
    """One response wanted.

    Attributes:
        session: requests of one session usually extend one another; an engine may keep their common prefix.
        context_ids: `[context_length]` int32, the whole prompt every time.
        seed: fixes the sample, whatever else is in the batch.
    """

    session: Hashable
    context_ids: np.ndarray
    seed: int


@dataclass(frozen=True, eq=False)
class Sample:
    """One response.

    Attributes:
        response_ids: `[response_length]` int32, the end token included if one was sampled.
        log_probs: `[response_length]` float32, nats under the raw logits (temperature 1), whatever the temperature.
        ended: an end token was sampled (False: cut at the limit).
    """

    response_ids: np.ndarray
    log_probs: np.ndarray
    ended: bool


class Policy(Protocol):
    """Samples responses."""

    def sample(self, requests: Sequence[Request], *, temperature: float) -> list[Sample]:
        """One response per request, in order. Temperature 0 is greedy.

        Raises:
            ValueError: a context leaves no room for a response.
        """
        ...
