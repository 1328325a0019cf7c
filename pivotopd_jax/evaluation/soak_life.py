"""One life of a soak: trains until it is killed. `python -m pivotopd_jax.evaluation.soak_life CONFIG DIR URL SEED`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest import mock

from pivotopd_jax.command_line import load_config
from pivotopd_jax.envs.guard import GuardedWorld
from pivotopd_jax.evaluation.soak_faults import FaultyWorld
from pivotopd_jax.train import train

DEADLINE = 2.0
"""Seconds that a call to an environment may take; one that hangs takes four times as long."""


def soak_config(name: str, url: str = "http://127.0.0.1:1/v1") -> Any:
    """A configuration cut down to steps of a second or two, without an end, with a served teacher at `url`."""
    c = load_config(name)
    c.steps, c.tasks_per_step, c.rollouts, c.max_turns = 1_000_000, 2, 3, 6
    c.ppo.mini_batch, c.ppo.decay_until = 3, 0
    c.knobs.recovery_limit, c.knobs.recovery_depth = 4, 2
    c.sampler.slots, c.sampler.env_threads, c.sampler.env_deadline_seconds = 8, 2, DEADLINE
    c.evaluate.every, c.evaluate.tasks = 20, 4
    c.checkpoint.every = 5
    c.log.trajectories_every, c.log.prompts, c.log.tokens = 1, False, False
    c.mini.update({"games": 300, "hidden_size": 32, "intermediate_size": 64, "num_layers": 1, "num_heads": 4,
                   "num_kv_heads": 2, "head_dim": 8})  # fmt: skip
    # An outage must not end the run: how that is done is the business of other tests.
    c.teacher.update({"kind": "served", "base_url": url, "retries": 1, "deadline_seconds": 5.0, "failure_share": 1.0})
    return c


def live(name: str, directory: Path, url: str, seed: int) -> None:
    """Trains; environments fail as `seed` says."""

    def faulty(world: Any, **options: Any) -> GuardedWorld:
        return GuardedWorld(FaultyWorld(world, hang_seconds=4 * DEADLINE, seed=seed), **options)

    config = soak_config(name, url)
    with mock.patch("pivotopd_jax.run.GuardedWorld", faulty):
        train(config, directory)


if __name__ == "__main__":
    _, name, directory, url, seed = sys.argv
    live(name, Path(directory), url, int(seed))
