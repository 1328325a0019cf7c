"""`kill -9` at any moment: what is started again ends as a run that nobody touched."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from killed_run import killed_config
from local_processes import environment
from test_train import PROJECT, of_training, same

from pivotopd_jax.learner.checkpoints import Checkpoints
from pivotopd_jax.rollout.curriculum import curriculum
from pivotopd_jax.train import train

LIVES, SEED = 24, 0


def written(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((directory / "trajectories").iterdir())}


def test_a_run_that_is_killed_again_and_again_ends_as_if_nobody_had_touched_it(tmp_path):
    config = killed_config()
    run, straight = train(config, tmp_path / "straight")
    directory = tmp_path / "killed"
    command = [sys.executable, str(Path(__file__).with_name("killed_run.py")), directory, str(LIVES), str(SEED)]
    variables = {name: value for name, value in environment(1).items() if name != "XLA_FLAGS"}
    done = subprocess.run(command, cwd=PROJECT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert [life["status"] for life in report["killed"]] == [-9] * LIVES
    assert report["status"] == 0
    # The moments were what they were meant to be.
    assert len({life["stage"] for life in report["killed"] if life["reached"]}) >= 6
    assert sum(life["unfinished"] for life in report["killed"]) >= 4
    # Nothing of it shows.
    checkpoints = Checkpoints(directory, keep=2)
    assert checkpoints.latest == config.steps
    assert same(checkpoints.restore(config.steps, straight), straight)
    checkpoints.close()
    assert written(directory) == written(tmp_path / "straight")
    assert of_training(directory) == of_training(tmp_path / "straight")
    # Every task was trained once.
    tasks = run.world.tasks(config.world.train_split)
    asked = [task.id for step in range(config.steps) for task in curriculum(tasks, step, 2, config.seed)]
    logged = Counter(
        json.loads(line)["task"]
        for name, content in written(directory).items()
        if name.startswith("step_")
        for line in content.decode().splitlines()
    )
    assert logged == dict.fromkeys(asked, config.rollouts)
    assert len(logged) == config.steps * config.tasks_per_step
