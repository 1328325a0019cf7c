"""What playing, copying and planning cost. Times are processor times of one core: neighbours do not slow them much."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pivotopd_jax.envs.alfworld.engine import AlfWorldEnv, AlfWorldSnapshot
from pivotopd_jax.envs.alfworld.planner import AlfWorldPlanner
from pivotopd_jax.envs.alfworld.world import AlfWorld
from pivotopd_jax.envs.protocol import Env
from pivotopd_jax.evaluation.verify import GameFinder, read_json_lines
from pivotopd_jax.records import Task

PARTS = 20

SnapshotType = TypeVar("SnapshotType")

TURNS = 30
"""Length of the benchmark's episodes, in turns: the papers' limit for ALFWorld."""


def random_policy_steps_per_second(env: Env, tasks: Sequence[Task], seconds: float, *, seed: int = 0) -> float:
    """Steps per second of a policy that picks any admissible command, for an environment that lists them.

    Making the list of every step, choosing from it and the resets (one in `TURNS` steps) are part of the time.

    Args:
        env: its observations must have `admissible`.
        tasks: drawn from at random; reading a packed game counts, unless it was read before.
        seconds: how long to play.
        seed: of the choices.
    """
    chance, steps = random.Random(seed), 0
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        steps += _play(env, tasks[chance.randrange(len(tasks))], chance)
    return steps / spent


def _play(env: Env, task: Task, chance: random.Random) -> int:
    observation = env.reset(task)
    for turn in range(1, TURNS + 1):
        commands = observation.admissible
        if not commands:
            raise ValueError(f"task {task.id!r}: no admissible commands are listed, so none can be drawn")
        result = env.step(commands[int(chance.random() * len(commands))])
        if result.done:
            return turn
        observation = result.observation
    return TURNS


def snapshot_restore_microseconds(env: Env, task: Task, rounds: int = 100_000) -> float:
    """Mean time of taking a snapshot and going back to it, in microseconds."""
    env.reset(task)
    start = time.process_time()
    for _ in range(rounds):
        env.restore(env.snapshot())
    return (time.process_time() - start) / rounds * 1e6


@dataclass(frozen=True)
class PlannerTiming:
    """How long L(s) takes to compute.

    Attributes:
        states: how many states were timed.
        mean_ms, worst_ms: milliseconds a state.
    """

    states: int
    mean_ms: float
    worst_ms: float


def planner_milliseconds(
    snapshots: Sequence[SnapshotType], make_distance: Callable[[], Callable[[SnapshotType], float]]
) -> PlannerTiming:
    """Times the distance of every state, each by a function of its own: none profits from another's memory."""
    times = []
    for snapshot in snapshots:
        distance = make_distance()
        start = time.process_time()
        distance(snapshot)
        times.append((time.process_time() - start) * 1e3)
    return PlannerTiming(len(times), sum(times) / len(times), max(times))


def start_snapshots(env: Env, tasks: Sequence[Task]) -> list[Any]:
    """The states that the tasks start in."""
    snapshots = []
    for task in tasks:
        env.reset(task)
        snapshots.append(env.snapshot())
    return snapshots


def recorded_snapshots(episodes: str | Path, data: str | Path) -> list[AlfWorldSnapshot]:
    """The states in the middle of recorded ALFWorld episodes for which a plan length was recorded (see `verify`).

    Raises:
        FileNotFoundError: no such recording, or a game of it is not under `data`.
    """
    find, env, snapshots = GameFinder(Path(data)), AlfWorldEnv(), []
    for episode in read_json_lines(episodes):
        game = find(episode["game"])
        env.reset(Task(game.id, game.kind, game))
        for step in episode["steps"]:
            env.step(step["action"])
            if "planner_length" in step:
                snapshots.append(env.snapshot())
    return snapshots


def _fresh_distance() -> Callable[[AlfWorldSnapshot], float]:
    return AlfWorldPlanner().distance


def bench_alfworld(data: str | None, seconds: float) -> dict[str, Any]:
    """All of the above for ALFWorld.

    Args:
        data: directory of real games: its held-out games are played, and `golden_traces.jsonl.xz`, where it is there,
            gives states in the middle of games. None: 274 generated games.
        seconds: how long to play: in `PARTS` parts, of which the fastest counts, as the least disturbed one.
    """
    world = AlfWorld(data or "generated")
    held_out = [split for split in ("valid_seen", "valid_unseen", "test") if split in world.splits]
    tasks = [task for split in held_out for task in world.tasks(split)[:274]]
    env, recorded = world.make(), Path(data or ".") / "golden_traces.jsonl.xz"
    starts = start_snapshots(env, tasks)
    result = {
        "games": world.name,
        "tasks": len(tasks),
        "steps_per_second": max(
            random_policy_steps_per_second(env, tasks, seconds / PARTS, seed=part) for part in range(PARTS)
        ),
        "snapshot_restore_us": snapshot_restore_microseconds(env, tasks[0]),
        "planner_starts": asdict(planner_milliseconds(starts, _fresh_distance)),
    }
    if data and recorded.is_file():
        middle = recorded_snapshots(recorded, data)
        result["planner_recorded_states"] = asdict(planner_milliseconds(middle, _fresh_distance))
    return result
