"""Can a policy come back from a mistake? Continuations of frozen mistakes, from right after them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pivotopd_jax.envs.protocol import World
from pivotopd_jax.evaluation.mistakes import Mistake
from pivotopd_jax.processes import gather, place_of, together
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Trajectory
from pivotopd_jax.rollout.collect import play, resumed_starts
from pivotopd_jax.run import Run
from pivotopd_jax.sampling.policy import Policy


def continued(
    policy: Policy,
    world: World,
    prompter: Prompter,
    mistakes: Sequence[Mistake],
    *,
    continuations: int,
    temperature: float,
    top_p: float = 1.0,
    seed: int,
    max_turns: int,
    concurrency: int,
    threads: int = 0,
) -> list[Trajectory]:
    """Each mistake `continuations` times in a row, played on within what was left of the turn limit.

    Each process continues its own `mistakes`; all processes must call this.
    """
    before, _ = place_of(len(mistakes))
    points = [(m.trajectory, m.turn) for m in mistakes for _ in range(continuations)]
    starts = resumed_starts(world, prompter, points, max_turns=max_turns)
    with together():
        return play(
            policy, starts, temperature=temperature, top_p=top_p, seed=seed, concurrency=concurrency,
            threads=threads, first=before * continuations,
        )  # fmt: skip


def succeeded(trajectories: Sequence[Trajectory], continuations: int) -> np.ndarray:
    """Whether each continuation succeeded, `[mistakes, continuations]` bool, those of all processes."""
    won = [result for part in gather([bool(t.won) for t in trajectories]) for result in part]
    return np.asarray(won, bool).reshape(-1, continuations)


def continued_by(run: Run, mistakes: Sequence[Mistake], seed: int = 1) -> list[Trajectory]:
    """What the student that `run.policy` holds makes of `mistakes`, as `run.config` says; see `continued`."""
    config = run.config
    return continued(
        run.policy, run.world, run.prompter, mistakes, continuations=config.evaluate.continuations,
        temperature=config.eval_temperature, top_p=config.evaluate.top_p, seed=seed, max_turns=config.max_turns,
        concurrency=run.policy.slots, threads=config.sampler.env_threads,
    )  # fmt: skip


def recoveries(run: Run, mistakes: Sequence[Mistake]) -> np.ndarray:
    """Whether each continuation by the student that `run.policy` holds succeeds, `[mistakes, continuations]` bool."""
    return succeeded(continued_by(run, mistakes), run.config.evaluate.continuations)
