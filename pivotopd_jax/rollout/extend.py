"""Extra rows: what the hinted self-teacher does after a mistake.

The first recovery turn is sampled under the recorded context after the mistake. Every turn is then played in a copy of
the environment that was restored from a snapshot, never by replaying actions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from absl import logging

from pivotopd_jax.envs.guard import EnvironmentFailure
from pivotopd_jax.envs.protocol import World
from pivotopd_jax.methods.method import Recovery
from pivotopd_jax.processes import draw
from pivotopd_jax.prompts.hints import REFLECTION, action_hint, leaks_hint
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Note, RecoveryTurn, Row, Trajectory
from pivotopd_jax.rollout.episode import Episode
from pivotopd_jax.sampling.policy import Policy, Request, Sample, request_seed
from pivotopd_jax.teachers.protocol import Situation, Teacher
from pivotopd_jax.teachers.resolve import resolved


@dataclass(eq=False)
class _Branch:
    """A recovery under way."""

    trajectory: int
    turn: int
    episode: Episode
    hint: str = ""
    named: str = ""


def followed_up(
    trajectories: Sequence[Trajectory], notes: Sequence[Note], extension: Recovery | None, seed: int
) -> list[Note]:
    """The pivotal turns that recoveries follow: those with a recorded turn after them.

    If all processes have more than `extension.limit`, so many are drawn uniformly. All processes must call this.
    """
    if extension is None or extension.depth == 0:
        return []
    points = [n for n in notes if n.pivotal and n.turn + 1 < len(trajectories[n.trajectory].turns)]
    return [points[place] for place in draw(len(points), extension.limit, seed)]


def extend(
    policy: Policy,
    teacher: Teacher,
    world: World,
    prompter: Prompter,
    trajectories: Sequence[Trajectory],
    points: Sequence[Note],
    extension: Recovery | None,
    *,
    temperature: float,
    top_p: float = 1.0,
    seed: int,
    first: int = 0,
) -> tuple[list[Row], dict[str, int]]:
    """Recovery rows after the pivotal turns that `followed_up` has chosen.

    Samples go by the index of a trajectory, counted from `first` where others come before these.

    Returns:
        Rows, and how often each outcome occurred: "rows", "followed" (the response carried out the named action),
        "no_action_named", "unresolved", "no_action_said", "leaked", "lost" (the environment failed twice).
    """
    outcomes: Counter[str] = Counter()
    if extension is None or extension.depth == 0:
        return [], dict(outcomes)
    rows: list[Row] = []
    found = [_branch(world, prompter, trajectories[point.trajectory], point, outcomes) for point in points]
    branches = [branch for branch in found if branch is not None]
    for depth in range(extension.depth):
        branches = _name_actions(teacher, branches, extension, outcomes)
        sampled = partial(policy.sample, temperature=temperature, top_p=top_p)
        rows += _sample(sampled, branches, extension, request_seed(seed, depth), first, outcomes)
        branches = [b for b in branches if len(b.episode.turns) > b.turn + 1 + depth and not b.episode.finished]
    return rows, dict(outcomes)


def _branch(
    world: World, prompter: Prompter, trajectory: Trajectory, point: Note, outcomes: Counter[str]
) -> _Branch | None:
    # One turn of grace: the last branch may still answer when its trajectory ran into the turn limit.
    most = len(trajectory.turns) + 1
    try:
        episode = Episode.resume(world.make(), prompter, trajectory, point.turn, most)
    except EnvironmentFailure as failure:
        return _lost(failure, outcomes)
    return _Branch(point.trajectory, point.turn, episode)


def _lost(failure: EnvironmentFailure, outcomes: Counter[str]) -> None:
    """A recovery whose environment failed makes no row, and does no harm to the trajectory that it follows."""
    logging.warning("a recovery is left out: %s", failure)
    outcomes["lost"] += 1


def _name_actions(
    teacher: Teacher, branches: list[_Branch], extension: Recovery, outcomes: Counter[str]
) -> list[_Branch]:
    """Branches for which the teacher named an action that could be resolved, with their hints."""
    situations = [Situation(b.episode.observation, b.episode.turns, b.episode.snapshot) for b in branches]
    kept = []
    for branch, named in zip(branches, teacher.recovery_actions(situations), strict=True):
        action = resolved(named, branch.episode.observation) if named else None
        if action is None:
            outcomes["unresolved" if named else "no_action_named"] += 1
            continue
        branch.named = action
        branch.hint = REFLECTION if extension.hint == "reflection" else action_hint(action)
        kept.append(branch)
    return kept


def _sample(
    sampled: Callable[[Sequence[Request]], list[Sample]],
    branches: list[_Branch],
    extension: Recovery,
    seed: int,
    first: int,
    outcomes: Counter[str],
) -> list[Row]:
    """Samples and plays one turn of every branch; rows of those that count."""
    # Of a trajectory the latest turn comes first, since its context is the one in the policy's cache.
    branches = sorted(branches, key=lambda branch: -branch.turn)
    plain = [b.episode.context() for b in branches]
    hinted = [b.episode.context(b.hint) for b in branches]
    requests = [
        Request(b.trajectory, ids, request_seed(seed, first + b.trajectory, b.turn))
        for b, ids in zip(branches, hinted if extension.sampler == "hinted" else plain, strict=True)
    ]
    rows = []
    for branch, context, privileged, sample in zip(branches, plain, hinted, sampled(requests), strict=True):
        if _play(branch, context, sample, outcomes):
            outcomes["rows"] += 1
            rows.append(_row(branch, context, privileged, sample.response_ids))
    return rows


def _play(branch: _Branch, context, sample, outcomes: Counter[str]) -> bool:
    """Plays the response in the branch's own copy of the environment; says whether it makes a row."""
    episode = branch.episode
    if leaks_hint(episode.prompter.chat.decode(sample.response_ids)):
        outcomes["leaked"] += 1
        return False
    try:
        episode.respond(context, sample)
    except EnvironmentFailure as failure:
        _lost(failure, outcomes)
        return False
    said = episode.turns[-1].action
    outcomes["no_action_said" if said is None else "followed" if said == branch.named else "differed"] += 1
    if said is None:
        episode.done = True
    return said is not None


def _row(branch: _Branch, context: np.ndarray, privileged: np.ndarray, response_ids: np.ndarray) -> Row:
    return Row(
        "recovery",
        branch.trajectory,
        branch.episode.group,
        len(branch.episode.turns) - 1,
        context,
        response_ids,
        views={"hinted": privileged},
        recovery=RecoveryTurn(branch.turn, branch.named, branch.episode.turns[-1], branch.episode.observation),
    )
