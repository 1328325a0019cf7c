"""However rows and parameters are divided among processes, an update is the same; see test_learner.py for devices."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from local_processes import addressed, assert_all_well, run_processes
from sharded_updates import CASES, LENGTH, MESHES, REFUSED, config_for, updated

from pivotopd_jax.learner.learner import make_mesh
from pivotopd_jax.models.qwen3 import Qwen3Config

SCRIPT = str(Path(__file__).parents[1] / "sharded_updates.py")
DIVIDED = [(MESHES[0], case) for case in CASES] + [(mesh, "uneven") for mesh in MESHES[1:]]


@pytest.fixture(scope="module")
def expected() -> dict[Qwen3Config, dict[str, np.ndarray]]:
    """The update of each model on one device."""
    configs = {config_for(mesh) for mesh in MESHES}
    return {c: updated(c, make_mesh(), range(13), micro_batch_tokens=4 * LENGTH) for c in configs}


@pytest.fixture(scope="module")
def of_two(tmp_path_factory) -> list[dict[str, np.ndarray]]:
    """What each of two processes with four devices finds."""
    folder = tmp_path_factory.mktemp("two")
    assert_all_well(run_processes([SCRIPT, str(folder)], addressed(2), devices=4))
    return [dict(np.load(folder / f"{index}_of_2.npz")) for index in range(2)]


def assert_equal_update(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], prefix: str) -> int:
    """Compares what `found` has under `prefix`; returns how many scores that were."""
    own = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    assert {n for n in own if not n.startswith("score/")} == {n for n in expected if not n.startswith("score/")}
    for name, value in own.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-5, err_msg=prefix + name)
    return sum(name.startswith("score/") for name in own)


@pytest.mark.parametrize(("mesh", "case"), DIVIDED)
def test_divided_among_two_processes_equals_unsharded(of_two, expected, mesh, case):
    whole, prefix = expected[config_for(mesh)], f"{'x'.join(map(str, mesh))}/{case}/"
    assert np.abs(whole["gradient/0"]).max() > 1e-2
    scores = [assert_equal_update(found, whole, prefix) for found in of_two]
    assert scores == [len(share) for share in CASES[case]]


def test_a_row_that_is_too_long_is_refused_in_every_process(of_two):
    first, second = (found["said"][0] for found in of_two)
    assert re.match(
        r"ValueError: turn 0 of trajectory 7 has 44 tokens, context and response \(rollout row\); it does not fit a "
        r"row of 32: raise config\.learner\.row_tokens",
        second,
    )
    assert first == f"ProcessFailure: process 1: {second}"


def test_a_mesh_that_does_not_divide_is_refused(of_two):
    for found in of_two:
        refused, fit = np.split(found["meshes"], [len(REFUSED)])
        assert fit.tolist() == ["nothing"] * len(MESHES)
        for (fsdp, tensor, expert), message in zip(REFUSED, refused, strict=True):
            shape = f"fsdp {fsdp} × tensor {tensor} × expert {expert}"
            assert message.startswith(f"a mesh of {shape} does not divide evenly among 2 processes with 4 devices each")


def test_what_processes_tell_one_another(of_two):
    told = [eval(str(found["said"][1])) for found in of_two]
    gathered = [{"process": 0, "text": ""}, {"process": 1, "text": "Ω" * 40}]
    assert [t["gathered"] for t in told] == [gathered] * 2
    assert [t["place"] for t in told] == [(0, 7), (2, 7)]
    kept = sorted(np.random.default_rng(5).choice(7, 3, replace=False).tolist())
    assert told[0]["drawn"] + [2 + place for place in told[1]["drawn"]] == kept
    assert [t["own"] for t in told] == [["a", "b", 0, 1], ["c", "d", "e", 2, 3, 4]]
