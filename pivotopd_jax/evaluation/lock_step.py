"""Rollouts in lock-step, as a baseline for ours: all environments take a turn together until the last one has ended.

This is how verl-agent collects (arXiv 2505.10978, its multi-turn loop): every turn waits for the slowest response, an
episode that has ended goes on being answered, and every prompt is read from its first token, also where several are
alike. The model, its jitted functions and the seeds are those of `rollout.collect.play`, so that only the order of the
work differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pivotopd_jax.evaluation.peers.measuring import measure
from pivotopd_jax.records import Trajectory
from pivotopd_jax.rollout.collect import Start, fresh_starts, play
from pivotopd_jax.run import Run
from pivotopd_jax.sampling.engine import Sampler
from pivotopd_jax.sampling.policy import Request, request_seed
from pivotopd_jax.train import step_tasks


def play_lock_step(
    sampler: Sampler, starts: Sequence[Start], *, temperature: float, seed: int, keep_cache: bool = False
) -> list[Trajectory]:
    """Plays every start to its end, `sampler.slots` at a time.

    Args:
        sampler: samples the responses; to read every prompt, one without `twins`.
        starts: one a trajectory.
        temperature, seed: as in `rollout.collect.play`, which gives the same trajectories.
        keep_cache: read only what is new in each prompt; not verl-agent's way, it tells what reading anew costs.

    Returns:
        Trajectories in the order of `starts`.
    """
    found: list[Trajectory] = []
    for first in range(0, len(starts), sampler.slots):
        episodes = [start() for start in starts[first : first + sampler.slots]]
        while not all(episode.finished for episode in episodes):
            if not keep_cache:
                sampler.load(sampler.params)
            contexts = [episode.context() for episode in episodes]
            requests = [
                Request(i, ids, request_seed(seed, i, len(e.turns)))
                for i, (e, ids) in enumerate(zip(episodes, contexts, strict=True), first)
            ]
            samples = sampler.sample(requests, temperature=temperature)
            for episode, ids, sample in zip(episodes, contexts, samples, strict=True):
                if not episode.finished:
                    episode.respond(ids, sample)
        found += [episode.trajectory() for episode in episodes]
    return found


def bench_rollout(run: Run, *, rounds: int = 5) -> dict[str, Any]:
    """The rollouts of a training step of `run`, ours and in lock-step, from one start with the same seeds.

    Args:
        run: its first step's tasks are played.
        rounds: measured rollouts of each policy.

    Returns:
        By policy the median seconds, and what was played; how many of the trajectories are the same token by token.
    """
    config, seed = run.config, 0
    starts = fresh_starts(
        run.world, run.prompter, step_tasks(run, 0), rollouts=config.rollouts, max_turns=config.max_turns
    )

    def ours() -> list[Trajectory]:
        run.policy.load(run.reference)  # as every step does
        return play(run.policy, starts, temperature=config.temperature, seed=seed, concurrency=run.policy.slots)

    def lock_step(sampler: Sampler, *, keep_cache: bool = False) -> list[Trajectory]:
        sampler.load(run.reference)
        return play_lock_step(sampler, starts, temperature=config.temperature, seed=seed, keep_cache=keep_cache)

    policy = run.policy
    every_prompt = policy.resized(
        slots=policy.slots, capacity=policy.capacity - policy.max_new, max_new=policy.max_new, twins=False
    )
    played = {"ours": ours(), "lock_step": lock_step(every_prompt)}
    seconds = {
        "ours": measure(ours, rounds=rounds),
        "lock_step": measure(lambda: lock_step(every_prompt), rounds=rounds),
        "lock_step_equal_prompts_once": measure(lambda: lock_step(policy), rounds=rounds),
        "lock_step_with_cache": measure(lambda: lock_step(policy, keep_cache=True), rounds=rounds),
    }
    return {
        **{name: {**spent, **_counts(played.get(name, []))} for name, spent in seconds.items()},
        "same_trajectories": sum(map(same_tokens, played["ours"], played["lock_step"])),
    }


def same_tokens(left: Trajectory, right: Trajectory) -> bool:
    """Whether two trajectories said the same in as many turns."""
    return [turn.response_ids.tolist() for turn in left.turns] == [turn.response_ids.tolist() for turn in right.turns]


def _counts(trajectories: Sequence[Trajectory]) -> dict[str, int]:
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    return {
        "episodes": len(trajectories),
        "won": sum(trajectory.won for trajectory in trajectories),
        "turns": len(turns),
        "tokens": sum(len(turn.response_ids) for turn in turns),
    }
