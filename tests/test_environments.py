"""Whole runs whose environments crash and hang: what fails once changes nothing, what fails twice costs its group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty_world import Fails, Once, crash, guarded, hang
from test_train import of_training, same, tiny_config

from pivotopd_jax.envs.guard import EnvironmentFailure
from pivotopd_jax.learner.checkpoints import Checkpoints
from pivotopd_jax.learner.learner import Learner
from pivotopd_jax.recording import read_metrics
from pivotopd_jax.train import train


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs share a student."""
    return tmp_path_factory.mktemp("runs")


def fail_as(monkeypatch: pytest.MonkeyPatch, fails: Fails) -> None:
    monkeypatch.setattr(
        "pivotopd_jax.run.GuardedWorld", lambda world, *, deadline_seconds: guarded(world, fails, deadline_seconds)
    )


def without_faults(directory: Path) -> list[dict[str, float]]:
    return [{k: v for k, v in line.items() if not k.startswith("envs/")} for line in of_training(directory)]


def logged_tasks(directory: Path, step: int) -> list[str]:
    lines = (directory / "trajectories" / f"step_{step:06d}.jsonl").read_text().splitlines()
    return [json.loads(line)["task"] for line in lines]


@pytest.mark.parametrize(("fail", "kind", "threads"), [(crash, "crashed", 0), (hang, "hung", 2)])
def test_a_run_whose_environments_fail_once_is_the_run_without(place, monkeypatch, fail, kind, threads):
    def config() -> Any:
        c = tiny_config()
        c.sampler.env_threads, c.log.trajectories_every = threads, 1
        c.sampler.env_deadline_seconds = 0.4 if fail is hang else 300.0
        return c

    calm, rough = place / f"calm_{kind}", place / f"rough_{kind}"
    _, expected = train(config(), calm)
    once = Once({1, 12, 30}, fail, ("reset", "step", "restore"))
    fail_as(monkeypatch, once)
    _, state = train(config(), rough)
    assert not once.at
    assert same(state, expected)
    assert without_faults(rough) == without_faults(calm)
    for step in range(2):
        name = Path("trajectories", f"step_{step:06d}.jsonl")
        assert (rough / name).read_bytes() == (calm / name).read_bytes()
    assert sum(line[f"envs/{kind}"] for line in read_metrics(rough)) == 3
    assert sum(line["envs/crashed"] + line["envs/hung"] for line in read_metrics(calm)) == 0


def test_a_group_that_cannot_be_played_is_dropped_and_counted(place, monkeypatch):
    """Its rollouts are nowhere: not in the log, not in a mean, not in the denominators of the loss."""
    config = tiny_config()
    config.log.trajectories_every, config.tasks_per_step = 1, 3
    broken: list[str] = []

    def fails(name: str, given: Any) -> None:
        # The first task that is ever asked for.
        if name == "reset":
            broken.append(given.id) if not broken else None
            if given.id == broken[0]:
                crash()

    shares: list[float] = []
    update = Learner.update

    def watched(self: Learner, state: Any, batch: Any, **options: Any) -> Any:
        shares.append(float(batch.weights.sum()))
        return update(self, state, batch, **options)

    fail_as(monkeypatch, fails)
    monkeypatch.setattr(Learner, "update", watched)
    run, state = train(config, place / "dropped")
    first, second = read_metrics(place / "dropped")
    assert (first["train/dropped_groups"], second["train/dropped_groups"]) == (1, 0)
    assert first["envs/crashed"] == 4  # two rollouts, each tried twice
    assert len(logged_tasks(place / "dropped", 0)) == 4
    assert broken[0] not in logged_tasks(place / "dropped", 0)
    assert len(logged_tasks(place / "dropped", 1)) == 6
    assert shares == pytest.approx([1.0] * len(shares))
    assert not same(state.params, run.reference)
    turns = [len(json.loads(x)["turns"]) for x in (place / "dropped/trajectories/step_000000.jsonl").open()]
    assert first["train/turns"] == np.mean(turns)


def test_steps_without_a_group_are_skipped_and_end_the_run_if_they_go_on(place, monkeypatch, caplog):
    def fails(name: str, given: Any) -> None:
        if name == "reset":
            crash()

    config = tiny_config(steps=9)
    config.evaluate.every = 100
    fail_as(monkeypatch, fails)
    with pytest.raises(EnvironmentFailure, match=r"latest 3 steps failed in every group.*max_skipped"):
        train(config, place / "outage")
    lines = read_metrics(place / "outage")
    assert [line["train/dropped_groups"] for line in lines] == [2, 2, 2]
    assert not any(name.startswith(("train/success", "update/")) for line in lines for name in line)
    assert "step 1 is skipped: the environments failed in every group" in caplog.text
    # When the outage is over the run goes on, with the parameters that it had.
    monkeypatch.undo()
    assert Checkpoints(place / "outage", keep=2).latest == 3
    config.steps = 4
    _, state = train(config, place / "outage")
    assert int(state.step) == 1
    assert read_metrics(place / "outage")[-1]["train/dropped_groups"] == 0


def test_a_game_of_the_evaluation_that_cannot_be_played_is_left_out(place, monkeypatch):
    def fails(name: str, given: Any) -> None:
        if name == "reset" and given.id == panel[0]:
            crash()

    panel: list[str] = []
    config = tiny_config("grpo", steps=1)
    train(config, place / "panel")
    lines = (place / "panel" / "trajectories" / "validation_000001.jsonl").read_text().splitlines()
    panel += [json.loads(line)["task"] for line in lines]
    fail_as(monkeypatch, fails)
    train(config, place / "smaller_panel")
    assert read_metrics(place / "panel")[-1]["eval/games"] == 4
    assert read_metrics(place / "smaller_panel")[-1]["eval/games"] == 3
    lines = (place / "smaller_panel" / "trajectories" / "validation_000001.jsonl").read_text().splitlines()
    assert [json.loads(line)["task"] for line in lines] == panel[1:]


def test_a_recovery_whose_environment_fails_makes_no_row(place, monkeypatch):
    """The trajectory that it follows is whole, and trains as ever."""

    def fails(name: str, given: Any) -> None:
        if name == "restore":
            crash()

    config = tiny_config(steps=1)
    config.log.trajectories_every = 1
    train(config, place / "with_recoveries")
    fail_as(monkeypatch, fails)
    train(config, place / "without_recoveries")
    one, other = (read_metrics(place / name)[-1] for name in ("with_recoveries", "without_recoveries"))
    assert one["train/pivotal_turns"] == other["train/pivotal_turns"] > 0
    assert other["recovery/lost"] > 0
    assert "recovery/rows" not in other
    assert other["train/dropped_groups"] == 0
    assert len(logged_tasks(place / "without_recoveries", 0)) == 4
