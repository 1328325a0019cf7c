"""Checkpoints, of which any file is damaged: read as they were written, or refused in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from fuzz.documents import damaged, fuzz, read_or_refused
from hypothesis import given
from hypothesis import strategies as st

from pivotopd_jax.learner.checkpoints import Checkpoints, Record, UnreadableCheckpoint
from pivotopd_jax.learner.learner import TrainState

RECORD = Record({"a": 1, "b": {"c": [1.5, "x"]}}, {"depth": None, "next": {"key": 7, "tasks": ["t"]}})


def state(value: int) -> TrainState:
    return TrainState({"w": jnp.full((4, 4), float(value))}, (jnp.zeros(()),), jnp.int32(value))


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A directory with checkpoints after one and two steps."""
    directory = tmp_path_factory.mktemp("checkpoints")
    checkpoints = Checkpoints(directory, keep=2)
    for done in (1, 2):
        checkpoints.save(done, state(done), RECORD, success=0.5)
        checkpoints.finish()
    checkpoints.close()
    return directory


@fuzz(60)
@given(st.data())
def test_checkpoints_are_read_or_refused(saved, tmp_path, data):
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    directory = Path(shutil.copytree(saved, tmp_path / "run"))
    path = data.draw(st.sampled_from(sorted(p for p in (directory / "checkpoints" / "2").rglob("*") if p.is_file())))
    if data.draw(st.integers(0, 9)):
        path.write_bytes(data.draw(damaged(path.read_bytes())))
    else:
        path.unlink()
    checkpoints = Checkpoints(directory, keep=2)
    try:
        assert set(checkpoints.steps) <= {1, 2}
        assert checkpoints.best in {None, 1, 2}
        for done in checkpoints.steps:
            record = read_or_refused(lambda done=done: checkpoints.record(done), UnreadableCheckpoint)
            read = read_or_refused(lambda done=done: checkpoints.restore(done, state(0)), UnreadableCheckpoint)
            if done == 1:
                assert record == RECORD
                assert read is not None
                np.testing.assert_array_equal(read.params["w"], np.ones((4, 4)))
            if record is not None:
                assert all(isinstance(part, dict) for part in record)
            if read is not None:
                assert read.params["w"].shape == (4, 4)
                assert read.step.dtype == jnp.int32
    finally:
        checkpoints.close()
