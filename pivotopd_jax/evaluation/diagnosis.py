"""Why does a policy fail? What the oracle sees in its trajectories (arXiv 2609.40285, its diagnosis)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pivotopd_jax.envs.protocol import Planner
from pivotopd_jax.evaluation.agreement import agreement, agreement_text
from pivotopd_jax.evaluation.intervals import Estimate, estimate, interval_text, percent_text
from pivotopd_jax.evaluation.likelihood import Point, action_log_probs
from pivotopd_jax.evaluation.pivotal import first_pivotal
from pivotopd_jax.evaluation.replays import REPLAYS, replayed
from pivotopd_jax.evaluation.sharpness import sharpness
from pivotopd_jax.records import Trajectory
from pivotopd_jax.run import Run
from pivotopd_jax.teachers.protocol import Teacher


@dataclass(frozen=True)
class Pivots:
    """Where trajectories go wrong.

    Attributes:
        trajectories: all of them.
        success: share that was won.
        in_failures: share of the failures with an oracle-pivotal turn; None without failures.
        in_successes: likewise of the successes.
        first_turn: median over failures with one: the first such turn, counted from 1.
        wasted: median over the same: turns played after it.
    """

    trajectories: int
    success: Estimate | None
    in_failures: Estimate | None
    in_successes: Estimate | None
    first_turn: Estimate | None
    wasted: Estimate | None


def failure_points(planner: Planner, trajectories: Sequence[Trajectory]) -> list[Point]:
    """Each failed trajectory that has an oracle-pivotal turn, with the first one."""
    failed = [(t, first_pivotal(planner, t)) for t in trajectories if not t.won]
    return [(trajectory, turn) for trajectory, turn in failed if turn is not None]


def find_pivots(planner: Planner, trajectories: Sequence[Trajectory]) -> Pivots:
    """Counts oracle-pivotal turns; intervals are over trajectories."""
    firsts = [(t.won, first_pivotal(planner, t)) for t in trajectories]
    points = failure_points(planner, trajectories)
    return Pivots(
        trajectories=len(trajectories),
        success=estimate([won for won, _ in firsts]),
        in_failures=estimate([first is not None for won, first in firsts if not won]),
        in_successes=estimate([first is not None for won, first in firsts if won]),
        first_turn=estimate([turn + 1 for _, turn in points], statistic=np.median),
        wasted=estimate([len(t.turns) - turn - 1 for t, turn in points], statistic=np.median),
    )


def pivots_text(found: Pivots) -> str:
    """Readable lines."""
    return "\n".join(
        [
            f"success: {percent_text(found.success)}% of {found.trajectories} trajectories",
            f"failures with an oracle-pivotal turn: {percent_text(found.in_failures)}% of {_units(found.in_failures)}",
            f"successes with one: {percent_text(found.in_successes)}% of {_units(found.in_successes)}",
            f"first one in failures: turn {interval_text(found.first_turn)}, median",
            f"turns wasted after it: {interval_text(found.wasted)}, median",
        ]
    )


def replay_all(run: Run, points: Sequence[Point], *, temperature: float) -> dict[str, Estimate | None]:
    """Success of each of `REPLAYS` by the student that `run.policy` holds; intervals are over trajectories."""
    config = run.config
    found = {}
    for name, replay in REPLAYS.items():
        won = replayed(
            run.policy, run.world, run.prompter, points, replay, continuations=config.evaluate.continuations,
            temperature=temperature, top_p=config.evaluate.top_p, seed=1, max_turns=config.max_turns,
            concurrency=run.policy.slots, threads=config.sampler.env_threads,
        )  # fmt: skip
        found[name] = estimate(won.mean(axis=1))
    return found


def replays_text(found: dict[str, Estimate | None], continuations: int) -> str:
    """A Markdown table."""
    units = _units(next(iter(found.values())))
    lines = [f"| from the first oracle-pivotal turn, {units} failures × {continuations} | success, % |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {percent_text(success)} |" for name, success in found.items())])


@dataclass(frozen=True)
class Likelihoods:
    """How likely actions are at the first oracle-pivotal turn of failures.

    Attributes:
        taken, oracle: mean probability of the action that was taken there, and of the oracle's.
        taken_nats, oracle_nats: median log-prob of them.
    """

    taken: Estimate | None
    oracle: Estimate | None
    taken_nats: Estimate | None
    oracle_nats: Estimate | None


def likelihoods(run: Run, params: Any, points: Sequence[Point]) -> Likelihoods:
    """Of the actions at `points`, under the student with `params` at temperature 1."""
    taken, oracle = action_log_probs(run, params, points) if points else (np.zeros(0), np.zeros(0))
    oracle = oracle[~np.isnan(oracle)]
    return Likelihoods(
        estimate(np.exp(taken)), estimate(np.exp(oracle)),
        estimate(taken, statistic=np.median), estimate(oracle, statistic=np.median),
    )  # fmt: skip


def likelihoods_text(found: Likelihoods) -> str:
    """Readable lines."""
    rows = {"taken": (found.taken, found.taken_nats), "oracle's": (found.oracle, found.oracle_nats)}
    return "\n".join(
        f"the {name} action at it: probability {interval_text(mean, digits=3)}, median log-prob "
        f"{interval_text(median, digits=2)} nats"
        for name, (mean, median) in rows.items()
    )


@dataclass(frozen=True, eq=False)
class Case:
    """A student and what it is diagnosed on.

    Attributes:
        run: of the student; `run.policy` holds `params`.
        params: of the student.
        trajectories: what is looked at; the student need not have played it.
        teachers: for "agreement", see `agreement.agreement`.
        temperature: of replays.
    """

    run: Run
    params: Any
    trajectories: Sequence[Trajectory]
    teachers: Sequence[Teacher]
    temperature: float

    @cached_property
    def points(self) -> list[Point]:
        """See `failure_points`."""
        return failure_points(self.run.world.planner, self.trajectories)


Finding = tuple[str, Any]
"""Readable text, and the same as plain JSON."""


def _pivots(case: Case) -> Finding:
    found = find_pivots(case.run.world.planner, case.trajectories)
    return pivots_text(found), asdict(found)


def _likelihoods(case: Case) -> Finding:
    found = likelihoods(case.run, case.params, case.points)
    return likelihoods_text(found), asdict(found)


def _agreement(case: Case) -> Finding:
    if not case.points:
        return "teacher and oracle: no failure holds an oracle-pivotal turn", None
    run = case.run
    found = agreement(run.world.planner, case.teachers, case.trajectories, max_actions=run.config.knobs.max_actions)
    return f"teacher and oracle {agreement_text(found)}", asdict(found)


def _replays(case: Case) -> Finding:
    if not case.points:
        return "replays: no failure holds an oracle-pivotal turn", None
    found = replay_all(case.run, case.points, temperature=case.temperature)
    text = replays_text(found, case.run.config.evaluate.continuations)
    return text, {name: success and asdict(success) for name, success in found.items()}


def _sharpness(case: Case) -> Finding:
    found = sharpness(case.run, case.params, case.trajectories)
    nats = ", ".join(f"{place} {numbers['nats']:.3f}" for place, numbers in found.items())
    return f"entropy a response by place of the first mistake, nats: {nats}", found


PARTS: Mapping[str, Callable[[Case], Finding]] = {
    "pivots": _pivots,
    "likelihoods": _likelihoods,
    "agreement": _agreement,
    "replays": _replays,
    "sharpness": _sharpness,
}


def diagnose(case: Case, parts: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """Readable text, and plain JSON by part, of the `parts` of a diagnosis (names in `PARTS`)."""
    found = {part: PARTS[part](case) for part in parts}
    return "\n".join(text for text, _ in found.values()), {part: record for part, (_, record) in found.items()}


def _units(found: Estimate | None) -> int:
    return found.units if found else 0
