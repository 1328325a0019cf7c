"""What a rollout asks of a policy, whoever runs the model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

import numpy as np


def request_seed(*parts: int) -> int:
    """A 32-bit seed that depends on every part."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


@dataclass(frozen=True, eq=False)
class Request:
    """One response wanted.

    Attributes:
        session: requests of one session usually extend one another; an engine may keep their common prefix, and answers
            those that are asked for together in their order.
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
        log_probs: `[response_length]` float32, nats under the raw logits (temperature 1, nothing left out), whatever
            the temperature and `top_p`.
        ended: an end token was sampled (False: cut at the limit).
    """

    response_ids: np.ndarray
    log_probs: np.ndarray
    ended: bool


def check_distribution(temperature: float, top_p: float) -> None:
    """Refuses what is no distribution to sample from.

    Raises:
        ValueError: a negative temperature, or `top_p` outside (0, 1].
    """
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature is {temperature}; expected 0 (greedy) or a positive number")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}; expected more than 0 and at most 1 (1: the whole distribution)")


class Stream(Protocol):
    """Responses that are asked for one by one and come back in any order; to be used as a context.

    What comes back when depends on what was submitted and polled before, never on the clock.
    """

    def submit(self, request: Request) -> None:
        """Asks for a response.

        Raises:
            ValueError: the context leaves no room for a response.
        """
        ...

    def poll(self) -> list[tuple[Request, Sample]]:
        """Decodes for a while, and returns the responses that have ended; often none, in the midst of long ones."""
        ...

    def __enter__(self) -> Stream: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives up what has not come back."""
        ...


class Policy(Protocol):
    """Samples responses: from the logits divided by `temperature` (0 is greedy), cut to their nucleus.

    The nucleus is the smallest set of likeliest tokens that holds a probability of at least `top_p` (Holtzman et al.
    2020, section 3.1).
    """

    def sample(self, requests: Sequence[Request], *, temperature: float, top_p: float = 1.0) -> list[Sample]:
        """One response per request, in order.

        Raises:
            ValueError: a context leaves no room for a response; temperature or `top_p` out of range.
        """
        ...

    def stream(self, *, temperature: float, top_p: float = 1.0) -> Stream:
        """A stream of responses.

        Raises:
            ValueError: temperature or `top_p` out of range.
        """
        ...


class SampledStream:
    """Implements `Stream` for a policy that can only `sample`: a poll answers all that was submitted before it."""

    def __init__(self, policy: Policy, temperature: float, top_p: float):
        check_distribution(temperature, top_p)
        self._policy, self._temperature, self._top_p = policy, temperature, top_p
        self._submitted: list[Request] = []

    def submit(self, request: Request) -> None:
        self._submitted.append(request)

    def poll(self) -> list[tuple[Request, Sample]]:
        requests, self._submitted = self._submitted, []
        samples = self._policy.sample(requests, temperature=self._temperature, top_p=self._top_p)
        return list(zip(requests, samples, strict=True))

    def __enter__(self) -> SampledStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._submitted = []
