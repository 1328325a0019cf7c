"""What a run survives: a second start, updates that are not finite, SIGTERM, a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_train import PROJECT, of_training, same, tiny_config

from pivotopd_jax import preemption
from pivotopd_jax.files import DirectoryInUse, held_alone
from pivotopd_jax.learner.checkpoints import Checkpoints
from pivotopd_jax.learner.learner import NonFiniteUpdates
from pivotopd_jax.recording import read_metrics
from pivotopd_jax.records import TokenBatch
from pivotopd_jax.scoring import advantages
from pivotopd_jax.train import train, train_step

HOLD = """
import sys, time
from pathlib import Path
from pivotopd_jax.files import held_alone
with held_alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_start_is_refused_until_the_first_is_dead(tmp_path):
    directory = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLD, directory], stdout=subprocess.PIPE, cwd=PROJECT) as first:
        try:
            assert first.stdout
            assert first.stdout.readline() == b"held\n"
            with pytest.raises(DirectoryInUse, match=rf"in use by process {first.pid} on .*choose another --workdir"):
                train(tiny_config(), directory)
        finally:
            first.kill()
    with held_alone(directory), pytest.raises(DirectoryInUse), held_alone(directory):
        pass
    with held_alone(directory):
        pass


def poisoned(*arguments: Any) -> np.ndarray:
    return np.full_like(advantages(*arguments), np.nan)


def test_a_run_stops_after_some_updates_in_a_row_that_are_not_finite(tmp_path, monkeypatch):
    """The second update of every step but the first is poisoned, then both: only those in a row count."""
    config = tiny_config("grpo", steps=9)
    config.ppo.mini_batch = 2
    bad, calls = {3, 5, 6, 7}, iter(range(99))
    monkeypatch.setattr(
        "pivotopd_jax.scoring.advantages", lambda *given: (poisoned if next(calls) in bad else advantages)(*given)
    )
    with pytest.raises(NonFiniteUpdates, match=r"latest 3 updates was not finite.*skipped_update\.npz"):
        train(config, tmp_path / "run")
    lines = read_metrics(tmp_path / "run")
    assert [line["update/skipped"] for line in lines] == [0, 0.5, 0.5, 1]
    with np.load(tmp_path / "run" / "skipped_update.npz", allow_pickle=False) as kept:
        assert kept["step"] == 3
        assert {*TokenBatch._fields} <= {*kept.files}
        assert np.isnan(kept["advantages"][kept["mask"]]).all()
    assert Checkpoints(tmp_path / "run", keep=2).latest == 4


INTERRUPTED = """
import sys
from pathlib import Path
from test_survival import rarely_saved
from pivotopd_jax.train import train
train(rarely_saved(), Path(sys.argv[1]))
"""


def rarely_saved() -> Any:
    """A run that saves nothing before its end, unless it is told to end."""
    config = tiny_config("grpo", steps=6)
    config.checkpoint.every = config.evaluate.every = 100
    return config


def test_a_run_that_is_told_to_end_saves_and_goes_on_exactly(tmp_path):
    straight = train(rarely_saved(), tmp_path / "straight")[1]
    directory = tmp_path / "interrupted"
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "tests")])}
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, directory], cwd=PROJECT, env=variables) as process:
        try:
            until = time.monotonic() + 500
            while not read_metrics(directory) and process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            assert process.wait(100) == 0
        finally:
            process.kill()
    done = Checkpoints(directory, keep=2).latest
    assert done == len(read_metrics(directory))
    assert done in range(1, 6)
    resumed = train(rarely_saved(), directory)[1]
    assert same(straight, resumed)
    assert of_training(directory) == of_training(tmp_path / "straight")


def test_the_signal_comes_into_its_own_again():
    before = signal.getsignal(signal.SIGTERM)
    with preemption.noticed():
        preemption.check()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(preemption.Preempted):
            preemption.check()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of 64 MiB; only root can have one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk to be had: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk_costs_a_checkpoint_and_no_more(small_disk, monkeypatch, caplog):
    """It is full during the second of three steps, which writes a checkpoint and an evaluation."""
    found: dict[int, int | None] = {}

    def step(run, progress, step, recorder):
        while any(thread.name == "save_finalize" for thread in threading.enumerate()):
            time.sleep(0.01)  # orbax is still writing
        found[step] = Checkpoints(small_disk / "run", keep=2).latest
        if step == 1:
            fill(small_disk)
        if step == 2:
            (small_disk / "ballast").unlink()
        return train_step(run, progress, step, recorder)

    straight = train(tiny_config("grpo", steps=3), small_disk / "straight")[1]
    monkeypatch.setattr("pivotopd_jax.train.train_step", step)
    state = train(tiny_config("grpo", steps=3), small_disk / "run")[1]
    assert same(state, straight)
    assert found == {0: None, 1: 1, 2: 1}
    assert "the checkpoint after 2 steps could not be written, and the run goes on without" in caplog.text
    assert [line["step"] for line in read_metrics(small_disk / "run")] == [0, 1, 2]
    checkpoints = Checkpoints(small_disk / "run", keep=2)
    assert checkpoints.latest == 3
    assert same(checkpoints.restore(3, straight), straight)
    assert {path.name for path in (small_disk / "run" / "checkpoints").iterdir()} == {"1", "3"}
