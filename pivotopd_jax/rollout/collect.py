"""Who acts: plays episodes to their end, many at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pivotopd_jax.envs.guard import EnvironmentFailure
from pivotopd_jax.envs.protocol import World
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Observation, Task, Trajectory
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.rollout.stepping import Stepping
from pivotopd_jax.sampling.policy import Policy, Request, Sample, Stream, request_seed

Actor = Callable[[int, Episode], str | None]
"""Who acts at this turn of the episode with this index: an action that a teacher forces, or None for the student."""

Start = Callable[[], Episode]
"""Makes an episode when there is room for it."""


def student(index: int, episode: Episode) -> str | None:
    """The student acts at every turn."""
    del index, episode
    return None


def ends_all(index: int, failure: EnvironmentFailure) -> None:
    """An episode whose environment failed is not done without."""
    del index
    raise failure


def play(
    policy: Policy | None,
    starts: Sequence[Start],
    *,
    temperature: float,
    seed: int,
    concurrency: int,
    top_p: float = 1.0,
    threads: int = 0,
    actor: Actor = student,
    first: int = 0,
    on_finish: Callable[[Trajectory], None] = lambda _: None,
    on_failure: Callable[[int, EnvironmentFailure], None] = ends_all,
) -> list[Trajectory]:
    """Plays every start to its end. An environment steps once its response is there, while others are decoded.

    Args:
        policy: samples the student's responses; None if the actor never lets the student speak.
        starts: one a trajectory; each is called when its episode begins, maybe on a thread.
        temperature, top_p: of sampling, see `sampling.policy.Policy`.
        seed: fixes all samples, whatever `concurrency` and `threads` are.
        concurrency: episodes alive at once; a finished one makes room for the next.
        threads: on which environments step while the policy decodes; with 0 they step between its blocks.
        actor: who acts; asked on the caller's thread.
        first: index of the first start, where others come before these: samples and actor go by it.
        on_finish: told of every finished trajectory, in order of finishing, on the caller's thread.
        on_failure: told of every episode that is lost because its environment failed, by its index and why.

    Returns:
        Trajectories in the order of `starts`, without those that were lost.

    Raises:
        EnvironmentFailure: an episode was lost, and nobody asked to be told.
        Exception: what the actor, the policy or an unguarded environment raised; nothing steps any more then.
    """
    waiting = deque(enumerate(starts, first))
    speaking: dict[int, Episode] = {}
    done: dict[int, Trajectory | None] = {}
    with Stepping[_Turn](threads) as stepping, _opened(policy, temperature, top_p) as stream:
        while len(done) < len(starts):
            while waiting and len(starts) - len(waiting) - len(done) < concurrency:
                index, start = waiting.popleft()
                stepping.begin(partial(_begin, index, start, actor))
            for turn in stepping.taken(waiting=not speaking):
                index, episode, context, failure = _forced(turn, actor)
                if failure is not None:
                    done[index] = None
                    on_failure(index, failure)
                    continue
                assert episode is not None
                if episode.finished:
                    done[index] = trajectory = episode.trajectory()
                    on_finish(trajectory)
                    continue
                assert stream is not None, "this actor lets the student speak; a policy is needed"
                speaking[index] = episode
                context = episode.context() if context is None else context
                stream.submit(Request(index, context, request_seed(seed, index, len(episode.turns))))
            for request, sample in stream.poll() if stream and speaking else ():
                index: Any = request.session
                stepping.begin(partial(_respond, index, speaking.pop(index), request.context_ids, sample, actor))
    return [trajectory for _, trajectory in sorted(done.items()) if trajectory is not None]


class _Turn(NamedTuple):
    """An episode whose environment has stepped; its context, if it is certain that the student speaks.

    Or none, and why it is lost.
    """

    index: int
    episode: Episode | None
    context: np.ndarray | None = None
    failure: EnvironmentFailure | None = None


def _opened(policy: Policy | None, temperature: float, top_p: float) -> AbstractContextManager[Stream | None]:
    return policy.stream(temperature=temperature, top_p=top_p) if policy else nullcontext()


def _begin(index: int, start: Start, actor: Actor) -> _Turn:
    try:
        return _turn(index, start(), actor)
    except EnvironmentFailure as failure:
        return _Turn(index, None, failure=failure)


def _respond(index: int, episode: Episode, context_ids: np.ndarray, sample: Sample, actor: Actor) -> _Turn:
    try:
        episode.respond(context_ids, sample)
    except EnvironmentFailure as failure:
        return _Turn(index, None, failure=failure)
    return _turn(index, episode, actor)


def _turn(index: int, episode: Episode, actor: Actor) -> _Turn:
    certain = actor is student and not episode.finished
    return _Turn(index, episode, episode.context() if certain else None)


def _forced(turn: _Turn, actor: Actor) -> _Turn:
    """Plays forced actions until the student is to speak, the episode ends or it is lost."""
    index, episode, _, _ = turn
    try:
        while episode and not episode.finished and (action := actor(index, episode)) is not None:
            episode.force(action)
    except EnvironmentFailure as failure:
        return _Turn(index, None, failure=failure)
    return turn


def fresh_starts(
    world: World,
    prompter: Prompter,
    tasks: Sequence[Task],
    *,
    rollouts: int,
    max_turns: int,
    advise: Callable[[Observation], str] | None = None,
) -> list[Start]:
    """`rollouts` starts for each task, group by group, with the advice that `advise` gives on the first observation."""

    def start(task: Task, group: int) -> Start:
        return lambda: Episode.start(world.make(), prompter, task, group, max_turns, advise)

    return [start(task, group) for group, task in enumerate(tasks) for _ in range(rollouts)]


def resumed_starts(
    world: World, prompter: Prompter, points: Sequence[tuple[Trajectory, int]], *, max_turns: int
) -> list[Start]:
    """A start after each (trajectory, turn)."""

    def start(trajectory: Trajectory, turn: int) -> Start:
        return lambda: Episode.resume(world.make(), prompter, trajectory, turn, max_turns)

    return [start(trajectory, turn) for trajectory, turn in points]
