"""The mini setting of SWE at the smallest size: all six stages, on tasks made of one package."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from test_train import load_config, shrink

from pivotopd_jax.envs.swe import world as swe_world
from pivotopd_jax.envs.swe.packages import PACKAGES
from pivotopd_jax.envs.swe.sandbox import SandboxUnavailable
from pivotopd_jax.evaluation.evaluate import panel
from pivotopd_jax.evaluation.swe_predictions import write_predictions
from pivotopd_jax.recording import read_metrics
from pivotopd_jax.summary import summarise_run
from pivotopd_jax.train import evaluate_run, train


@pytest.fixture
def config(packages: Any, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Four tasks of the package with the quickest tests, made for this test alone."""
    del packages
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(swe_world, "PACKAGES", PACKAGES[:1])
    c: Any = shrink(load_config("mini", "swe"), "pivotopd", steps=1)
    c.world.built, c.world.orders = 4, 1
    c.evaluate.tasks = c.evaluate.final_tasks = 2
    return c


def test_swe_trains_on_changes(config, tmp_path):
    """Recovery turns go on from the tree after the mistake; what was handed in is written for the official harness."""
    try:
        run, state = train(config, tmp_path / "run")
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    (line,) = read_metrics(tmp_path / "run")
    assert line["train/pivotal_turns"] > 0
    assert np.isfinite(line["update/loss"])
    result = summarise_run(run, state.params, tmp_path / "run")
    assert list(result["after"]["by_kind"]) == ["SWE"]
    played = evaluate_run(run, state.params, panel(run.world, ("train",), 2), 1.0).trajectories
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, played, "mini")
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    assert [row["instance_id"] for row in rows] == [trajectory.task.id for trajectory in played]
