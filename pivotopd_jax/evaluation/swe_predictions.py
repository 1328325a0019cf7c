"""What a student handed in, as the official harness of SWE-bench reads it: `swebench.harness.run_evaluation`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from pivotopd_jax.envs.swe.engine import SweSnapshot
from pivotopd_jax.records import Trajectory


def prediction(trajectory: Trajectory, model: str) -> dict[str, str]:
    """One row: the change that the trajectory ends with, as a diff; empty where nothing was handed in.

    Args:
        trajectory: of a SWE task.
        model: name of the student, for the harness' tables.

    Raises:
        TypeError: it is of another environment.
    """
    end = trajectory.final_snapshot
    if not isinstance(end, SweSnapshot):
        raise TypeError(f"task {trajectory.task.id!r} is no SWE task: expected a SweSnapshot, got {type(end).__name__}")
    change = end.assignment.sandbox.difference(end.tree) if end.verdict is not None else b""
    return {
        "instance_id": end.assignment.instance.id,
        "model_name_or_path": model,
        "model_patch": change.decode("utf-8", "replace"),
    }


def write_predictions(path: Path, trajectories: Iterable[Trajectory], model: str) -> Sequence[dict[str, str]]:
    """Writes a row a trajectory, one a line; returns them."""
    rows = [prediction(trajectory, model) for trajectory in trajectories]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return rows
