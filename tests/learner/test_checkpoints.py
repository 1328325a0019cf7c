"""Checkpoints: written while training goes on, whole or not there, and the newest one that can be read is used."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_train import of_training, same, tiny_config

from pivotopd_jax.learner.checkpoints import (
    UNREADABLE,
    Checkpoints,
    ConfigurationChanged,
    Record,
    UnreadableCheckpoint,
)
from pivotopd_jax.learner.learner import TrainState
from pivotopd_jax.sampling.policy import request_seed
from pivotopd_jax.train import train

STEPS = 3


def counted(value: int) -> TrainState:
    return TrainState({"w": jnp.full((64, 64), float(value))}, (jnp.zeros(()),), jnp.int32(value))


def test_a_save_holds_what_was_there_when_it_began_and_waits_for_nothing(tmp_path, monkeypatch):
    """The files are held up; meanwhile the parameters are used up and replaced, as an update does."""
    go_on, rename = threading.Event(), os.rename

    def held_up(*given: Any, **options: Any) -> None:
        assert go_on.wait(60)
        rename(*given, **options)

    monkeypatch.setattr(os, "rename", held_up)
    checkpoints = Checkpoints(tmp_path, keep=2)
    state, expected = counted(1), np.full((64, 64), 1.0)
    checkpoints.save(1, state, Record({"a": 1}, {"depth": None}), success=-1.0)
    replaced = jax.jit(lambda w: w + 1, donate_argnums=0)(state.params["w"])
    assert float(replaced[0, 0]) == 2.0
    assert not (tmp_path / "checkpoints" / "1").exists()
    go_on.set()
    checkpoints.finish()
    assert (tmp_path / "checkpoints" / "1").exists()
    np.testing.assert_array_equal(checkpoints.restore(1, counted(0)).params["w"], expected)
    assert checkpoints.record(1) == Record({"a": 1}, {"depth": None})
    checkpoints.close()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A run of three steps, with its last two checkpoints, and what it ended with."""
    place = tmp_path_factory.mktemp("runs")
    _, state = train(tiny_config("grpo", STEPS), place / "straight")
    return place, state


def copied(place: Path, name: str) -> Path:
    return Path(shutil.copytree(place / "straight", place / name))


def test_what_a_checkpoint_holds(trained):
    place, state = trained
    checkpoints = Checkpoints(place / "straight", keep=2)
    assert checkpoints.steps == [3, 2]
    configuration, progress = checkpoints.record(2)
    assert configuration["ppo"]["learning_rate"] == 1e-4
    digest = hashlib.sha256(json.dumps(dict(configuration), sort_keys=True).encode()).hexdigest()
    assert progress["configuration_hash"] == digest
    assert progress["next"]["key"] == request_seed(0, 2)
    log = (place / "straight" / "metrics.jsonl").read_text().splitlines()
    assert len(log) == 3
    assert len(progress["next"]["tasks"]) == 2
    assert progress["teacher_replies"] is None
    restored = checkpoints.restore(3, state)
    checkpoints.close()
    assert same(restored, state)
    assert int(restored.step) == 3


def lose_a_file(checkpoint: Path) -> None:
    (checkpoint / "state" / "_METADATA").unlink()


def cut_files(checkpoint: Path) -> None:
    for path in (checkpoint / "state").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lose_the_state(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "state")


def garble_the_record(checkpoint: Path) -> None:
    (checkpoint / "progress" / "metadata").write_text('{"depth": nul')


def change_the_configuration(checkpoint: Path) -> None:
    path = checkpoint / "configuration" / "metadata"
    path.write_text(path.read_text().replace('"learning_rate":0.0001', '"learning_rate":0.5').replace(
        '"learning_rate": 0.0001', '"learning_rate": 0.5'
    ))  # fmt: skip


@pytest.mark.parametrize(
    "damage", [lose_a_file, cut_files, lose_the_state, garble_the_record, change_the_configuration]
)
def test_the_newest_checkpoint_that_can_be_read_is_used(trained, damage: Callable[[Path], None], caplog):
    place, state = trained
    directory = copied(place, damage.__name__)
    damage(directory / "checkpoints" / "3")
    _, again = train(tiny_config("grpo", STEPS), directory)
    assert "the one before it is tried" in caplog.text
    assert same(again, state)
    assert of_training(directory) == of_training(place / "straight")
    checkpoints = Checkpoints(directory, keep=2)
    assert checkpoints.steps == [3, 2]
    assert same(checkpoints.restore(3, state), state)
    checkpoints.close()
    assert [path.name for path in (directory / UNREADABLE).iterdir()] == ["3"]


@pytest.mark.parametrize(
    "content", [b"", b'{"success": 0.5}{}', b"[]", b'{"success": NaN}', "{}".encode("utf-16"), None]
)
def test_an_evaluation_that_cannot_be_read_costs_itself_alone(tmp_path, content: bytes | None, caplog):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for done in (1, 2):
        checkpoints.save(done, counted(done), Record({}, {}), success=0.3 * done)
        checkpoints.finish()
    assert checkpoints.best == 2
    checkpoints.close()
    path = tmp_path / "checkpoints" / "2" / "metrics" / "metrics"
    if content is None:
        shutil.rmtree(path.parent)
    else:
        path.write_bytes(content)
    again = Checkpoints(tmp_path, keep=2)
    assert "how that checkpoint did in its evaluation is not known" in caplog.text
    assert (again.steps, again.best) == ([2, 1], 1)
    assert int(again.restore(2, counted(0)).step) == 2
    again.close()


def test_where_none_can_be_read_nothing_is_begun_anew(trained):
    place, _ = trained
    directory = copied(place, "all")
    for done in (2, 3):
        cut_files(directory / "checkpoints" / str(done))
    before = (directory / "metrics.jsonl").read_text()
    with pytest.raises(UnreadableCheckpoint, match=r"none of the checkpoints in .*all can be read.*begin anew"):
        train(tiny_config("grpo", STEPS), directory)
    assert (directory / "metrics.jsonl").read_text() == before


def test_a_changed_configuration_is_accepted_if_that_is_said(trained, capsys):
    place, _ = trained
    directory = copied(place, "accepted")
    config = tiny_config("grpo", STEPS + 1)
    config.ppo.learning_rate = 3e-4
    with pytest.raises(ConfigurationChanged, match=r"ppo\.learning_rate: 0\.0001 → 0\.0003.*--accept_changes"):
        train(config, directory)
    train(config, directory, accept_changes=True)
    assert (
        "another configuration than it was started with: ppo.learning_rate: 0.0001 → 0.0003" in capsys.readouterr().out
    )
    checkpoints = Checkpoints(directory, keep=2)
    assert checkpoints.record(4).configuration["ppo"]["learning_rate"] == 3e-4
    checkpoints.close()


def test_other_tasks_under_the_same_configuration_are_noticed(trained, monkeypatch):
    """Where the data have changed, say: what would come next is no longer what would have come."""
    place, _ = trained
    directory = copied(place, "tasks")
    config = tiny_config("grpo", STEPS + 1)
    monkeypatch.setattr("pivotopd_jax.train.curriculum", lambda items, step, count, seed: list(items[:count]))
    with pytest.raises(ConfigurationChanged, match=r"next step\.tasks: \["):
        train(config, directory)
