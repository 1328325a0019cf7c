"""A whole run in two processes is that of one; and what goes wrong in one is said once, by all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import yaml
from local_processes import PROJECT, addressed, assert_all_well, free_port, run_processes
from pod_run import pod_config

from pivotopd_jax.processes import COORDINATOR, COUNT, INDEX, join
from pivotopd_jax.recording import read_metrics
from pivotopd_jax.summary import summarise_run
from pivotopd_jax.train import train

RUN = str(Path(__file__).with_name("pod_run.py"))


def steps_of(directory: Path) -> list[dict[str, float]]:
    """The lines of a run's metrics without seconds and without evaluations before the last step."""
    lines = [
        {k: v for k, v in line.items() if not k.startswith(("seconds/", "compile/"))}
        for line in read_metrics(directory)
    ]
    return [{k: v for k, v in line.items() if line is lines[-1] or not k.startswith("eval/")} for line in lines]


@pytest.mark.slow
def test_a_run_of_two_processes_is_that_of_one(tmp_path):
    results = run_processes([RUN, str(tmp_path)], addressed(2))
    assert_all_well(results)
    said = [[line for line in out.splitlines() if line.startswith("step ")] for _, out, _ in results]
    assert [len(lines) for lines in said] == [3, 0]
    assert "held-out games" in results[0][1]
    assert "held-out games" not in results[1][1]
    # Parameters that every process holds are the same in each, and so are those that are divided.
    for name in ("replicas", "whole"):
        first, second = (np.load(tmp_path / f"{name}_{index}.npz") for index in range(2))
        assert len(first.files) > 1
        assert all(np.array_equal(first[key], second[key]) for key in first.files)
    # The student was made once, by the first process, and is the one that a single process starts from.
    one, pod = tmp_path / "runs" / "one", tmp_path / "runs" / "pod"
    run, state = train(pod_config(1, steps=2), one)
    assert len(list((tmp_path / "runs" / "students").iterdir())) == 1
    found, expected = steps_of(pod), steps_of(one)
    assert [line["step"] for line in found] == [0, 1]
    for line, wanted in zip(found, expected, strict=True):
        assert line == pytest.approx(wanted, rel=1e-3, abs=1e-6)
    summarise_run(run, state.params, one)
    summaries = [json.loads((directory / "summary.json").read_text()) for directory in (pod, one)]
    for summary in summaries:
        del summary["seconds"], summary["compile"]
    assert summaries[0] == summaries[1]
    imitator, taught = train(pod_config(1, 1, "dagger"), tmp_path / "runs" / "one_dagger")
    moved = 0.0
    for left, right, start in zip(
        np.load(tmp_path / "whole_0.npz").values(),
        jax.tree.leaves(taught.params),
        jax.tree.leaves(imitator.reference),
        strict=True,
    ):
        moved = max(moved, float(np.abs(right - start).max()))
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-7)
    assert moved > 1e-5


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"JAX_NUM_PROCESSES": "2"}, r"there is \{'JAX_NUM_PROCESSES': '2'\}; expected an address host:port"),
        (
            {"JAX_COORDINATOR_ADDRESS": "127.0.0.1:1", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "first"},
            "'JAX_PROCESS_ID': 'first'",
        ),
    ],
)
def test_what_cannot_be_joined_is_named(monkeypatch, variables, message):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        join()


SRUN = """#!/usr/bin/env bash
# Starts the command as two tasks of a step on this host.
export SLURM_JOB_ID={job} SLURM_STEP_NODELIST=localhost SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=1
while [[ $1 == --* ]]; do shift; done
for task in 0 1; do SLURM_PROCID=$task SLURM_LOCALID=$task "$@" > {folder}/$task.out 2>&1 & tasks+=($!); done
for task in "${{tasks[@]}}"; do wait "$task"; code=$?; done
exit "$code"
"""


def test_the_slurm_script_starts_processes_that_find_one_another(tmp_path):
    """JAX's own detection and the launch script, with an srun that knows this machine only."""
    srun = tmp_path / "srun"
    srun.write_text(SRUN.format(job=free_port(), folder=tmp_path))
    srun.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": sys.executable, "JAX_PLATFORMS": "cpu"}
    arguments = ["--config=configs/alfworld.py:mini", f"--workdir={tmp_path / 'run'}", "--config.method=nope"]
    done = subprocess.run(
        ["bash", "launch/slurm.sh", *arguments], cwd=PROJECT, env={**os.environ, **variables, "SLURM_NTASKS": "2"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    for task in range(2):
        said = (tmp_path / f"{task}.out").read_text()
        assert "error: method 'nope' is not known" in said, said
        assert "Traceback" not in said


def test_the_manifest_agrees_with_itself():
    manifest = yaml.safe_load((PROJECT / "launch" / "jobset.yaml").read_text())
    (job,) = manifest["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    variables = {entry["name"]: entry["value"] for entry in container["env"]}
    nodes = int(variables[COUNT])
    assert spec["parallelism"] == spec["completions"] == nodes
    name = manifest["metadata"]["name"]
    assert variables[COORDINATOR].startswith(f"{name}-{job['name']}-0-0.{name}:")
    (command,) = container["args"]
    assert f"{INDEX}=$JOB_COMPLETION_INDEX" in command
    assert f"--config.learner.fsdp={nodes * container['resources']['limits']['nvidia.com/gpu']}" in command
    subprocess.run(["bash", "-n", "-c", command], check=True)
