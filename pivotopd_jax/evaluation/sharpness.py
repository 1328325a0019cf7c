"""How sharp a policy is, and where: entropy a response before, at and after the first oracle-pivotal mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pivotopd_jax.evaluation.pivotal import first_pivotal
from pivotopd_jax.learner.learner import DivergenceTerm
from pivotopd_jax.losses.divergences import entropy
from pivotopd_jax.methods.method import Divergence
from pivotopd_jax.records import TEACHER, Row, Trajectory
from pivotopd_jax.rollout.rows import divergence_batch
from pivotopd_jax.run import Run

PLACES = ("before", "at", "after")


def sharpness(run: Run, params: Any, trajectories: Sequence[Trajectory]) -> dict[str, dict[str, float]]:
    """Entropy of the student with `params` on the turns of `trajectories`, whoever played them.

    Returns:
        For each of `PLACES` that occurs: "turns", and "nats": the entropies of all next-token distributions along a
        response, summed, mean over responses. A trajectory without a mistake is all "before".
    """
    rows: dict[str, list[Row]] = {place: [] for place in PLACES}
    for index, trajectory in enumerate(trajectories):
        found = first_pivotal(run.world.planner, trajectory)
        first = len(trajectory.turns) if found is None else found
        for turn, played in enumerate(trajectory.turns):
            place = "before" if turn < first else "at" if turn == first else "after"
            row = Row("rollout", index, trajectory.group, turn, played.context_ids, played.response_ids)
            rows[place].append(row)
    return {
        place: {"turns": len(found), "nats": mean_entropy(run, params, found)} for place, found in rows.items() if found
    }


def _of_student(_: Any, student_logits: Any) -> Any:
    return entropy(student_logits)


def mean_entropy(run: Run, params: Any, rows: Sequence[Row]) -> float:
    """Mean over `rows` of the entropy along the response, nats."""
    learner, length = run.learner, run.config.learner.row_tokens
    measure = Divergence(_of_student, 1.0, ("rollout",), TEACHER)
    batch = divergence_batch(lambda packed: learner.hidden(params, packed), rows, measure, length=length)
    a_token = learner.divergence(params, DivergenceTerm(batch, learner.graphdef, params, _of_student))
    return a_token * sum(len(row.response_ids) for row in rows) / len(rows)
