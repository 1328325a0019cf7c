"""A tiny training run in one of several processes: `pod_run.py FOLDER`; writes the parameters it ends with there.

Not a test: tests/test_processes.py starts it, and trains the same in one process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sharded_updates import whole
from test_train import tiny_config

from pivotopd_jax.processes import join
from pivotopd_jax.summary import summarise_run
from pivotopd_jax.train import train


def pod_config(processes: int, steps: int, method: str = "pivotopd") -> Any:
    """Three tasks a step, so that processes have unequal shares of them, and two updates."""
    c = tiny_config(method, steps)
    c.tasks_per_step, c.ppo.mini_batch, c.learner.fsdp = 3, 3, processes
    c.evaluate.tasks = c.evaluate.final_tasks = 5
    c.knobs.recovery_limit = 2
    c.ppo.adam_epsilon = 1e-2  # so that an update is no more sensitive to rounding than its gradient is
    c.log.trajectories_every = 1
    return c


def main(folder: Path) -> None:
    join()
    processes, index = jax.process_count(), jax.process_index()
    train(pod_config(processes, steps=1), folder / "runs" / "pod")
    run, state = train(pod_config(processes, steps=2), folder / "runs" / "pod")  # goes on from the checkpoint
    summarise_run(run, state.params, folder / "runs" / "pod")
    # A student that has learned next to nothing is as good as deaf to hints; imitation moves it.
    _, state = train(pod_config(processes, 1, "dagger"), folder / "runs" / "pod_dagger")
    here = [np.asarray(leaf.addressable_data(0)) for leaf in jax.tree.leaves(state.params) if leaf.is_fully_replicated]
    np.savez(folder / f"replicas_{index}.npz", *here)
    np.savez(folder / f"whole_{index}.npz", *whole(state.params))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
