"""The benchmark's helpers count what they say they count. How fast anything is, no test asks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pivotopd_jax.envs.alfworld.planner import AlfWorldPlanner
from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.evaluation import bench_envs
from pivotopd_jax.records import Observation, StepResult, Task

SCRIPT = Path(__file__).parents[2] / "launch" / "bench.py"


class Clock:
    """A processor clock that a countdown environment moves: ten milliseconds a step."""

    def __init__(self):
        self.now = 0.0

    def process_time(self):
        return self.now

    def pass_by(self, seconds):
        self.now += seconds
        return 1.0


class Countdown:
    """Ends after `length` steps."""

    def __init__(self, clock, length):
        self.clock, self.length, self.left = clock, length, 0

    def reset(self, task):
        self.left = self.length
        return Observation("go", ("a", "b"))

    def step(self, action):
        assert self.left > 0
        assert action in ("a", "b")
        self.left -= 1
        self.clock.now += 0.01
        return StepResult(Observation("go", ("a", "b")), 0.0, self.left == 0, self.left == 0)

    def accepts(self, action):
        return True

    def snapshot(self):
        self.clock.now += 2e-6
        return self.left

    def restore(self, snapshot):
        self.clock.now += 1e-6
        self.left = snapshot
        return Observation("go", ("a", "b"))


@pytest.mark.parametrize("length", [1, 7, 1000])
def test_steps_a_second(monkeypatch, length):
    clock = Clock()
    monkeypatch.setattr(bench_envs, "time", clock)
    rate = bench_envs.random_policy_steps_per_second(Countdown(clock, length), [Task("t", "k", None)], 3.0)
    assert rate == pytest.approx(100)
    assert 3.0 <= clock.now < 3.0 + bench_envs.TURNS * 0.01 + 1e-6


def test_snapshots_and_plans(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(bench_envs, "time", clock)
    env = Countdown(clock, 5)
    assert bench_envs.snapshot_restore_microseconds(env, Task("t", "k", None), 100) == pytest.approx(3.0)

    made = []

    def make():
        made.append(1)
        return lambda milliseconds: clock.pass_by(milliseconds / 1000)

    timing = bench_envs.planner_milliseconds([1, 2, 6], make)
    assert (timing.states, len(made)) == (3, 3)
    assert timing.mean_ms == pytest.approx(3.0)
    assert timing.worst_ms == pytest.approx(6.0)


def test_an_environment_without_lists_is_refused():
    class Open(Countdown):
        def reset(self, task):
            return Observation("say anything")

    with pytest.raises(ValueError, match="no admissible commands"):
        bench_envs.random_policy_steps_per_second(Open(Clock(), 1), [Task("t", "k", None)], 0.1)


def test_start_snapshots():
    world = AlfWorld("generated", receptacles=6, distractors=2)
    tasks = world.tasks("test")[:3]
    snapshots = bench_envs.start_snapshots(world.make(), tasks)
    assert [snapshot.game.id for snapshot in snapshots] == [task.id for task in tasks]
    assert bench_envs.planner_milliseconds(snapshots, lambda: AlfWorldPlanner().distance).states == 3


def test_recorded_snapshots(alfworld_data):
    path = alfworld_data / "golden_traces.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"{path} does not exist")
    snapshots = bench_envs.recorded_snapshots(path, alfworld_data)
    assert len(snapshots) == 256
    assert not any(snapshot.won for snapshot in snapshots)


@pytest.mark.slow
def test_the_script_prints_json():
    command = [sys.executable, str(SCRIPT), "--suite=envs", "--data=", "--seconds=0.1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    printed = json.loads(done.stdout.splitlines()[-1])["alfworld"]
    assert printed["tasks"] == printed["planner_starts"]["states"] == 274
    assert set(printed) == {"games", "tasks", "steps_per_second", "snapshot_restore_us", "planner_starts"}
