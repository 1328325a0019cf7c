"""Predictions as SWE-bench's harness reads them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pivotopd_jax.envs.swe.engine import Assignment, SweSnapshot
from pivotopd_jax.envs.swe.grading import Verdict
from pivotopd_jax.envs.swe.instances import Instance
from pivotopd_jax.evaluation.swe_predictions import write_predictions
from pivotopd_jax.records import Observation, Task, Trajectory


class Desk:
    """A sandbox whose tree is the change itself."""

    start = b""

    def run(self, tree, command, **options):
        raise AssertionError(f"{command} is not to be run")

    def difference(self, tree):
        return tree


INSTANCE = Instance("a__b-1", "a/b", "", "It fails.", "", "", ("t::a",), ())


def trajectory(verdict: Verdict | None, tree: bytes = b"diff --git a/x b/x\n+caf\xe9\n") -> Trajectory:
    end = SweSnapshot(Assignment(INSTANCE, Desk()), tree, (), 0.0, Observation(""), True, verdict)
    return Trajectory(Task("a__b-1", "SWE", end.assignment), 0, (), 0.0, False, Observation(""), end)


def test_a_row_for_each_trajectory(tmp_path):
    path = tmp_path / "predictions.jsonl"
    rows = write_predictions(path, [trajectory(Verdict((0, 1), (0, 0))), trajectory(None)], "mini")
    assert [json.loads(line) for line in path.read_text().splitlines()] == rows
    assert rows[0] == {
        "instance_id": "a__b-1", "model_name_or_path": "mini", "model_patch": "diff --git a/x b/x\n+caf\ufffd\n",
    }  # fmt: skip
    assert rows[1]["model_patch"] == ""


def test_other_trajectories_are_refused(tmp_path):
    other = Trajectory(Task("x", "x", None), 0, (), 0.0, False, Observation(""), np.int32(1))
    with pytest.raises(TypeError, match="task 'x' is no SWE task: expected a SweSnapshot, got int32"):
        write_predictions(tmp_path / "p", [other], "mini")
