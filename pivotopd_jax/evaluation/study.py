"""The recovery study: the same pivotal mistakes of the base, continued by several policies (arXiv 2609.40285).

A policy is one run, or several that differ in their training seed alone. What one run's student does is measured once
and kept in a file of its own; with other settings it is measured again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pivotopd_jax.evaluation.cells import BASE, MISTAKES_FILE, arm_of
from pivotopd_jax.evaluation.checkpointed import base_record, checkpoint_params, trained_from
from pivotopd_jax.evaluation.intervals import Estimate, estimate, interval_text, percent_text, seeds_text
from pivotopd_jax.evaluation.likelihood import action_log_probs, self_teacher_divergence
from pivotopd_jax.evaluation.mistakes import Mistake, frozen_mistakes
from pivotopd_jax.evaluation.recovery import continued_by
from pivotopd_jax.files import write_json
from pivotopd_jax.run import Run, configuration_differences, configuration_record

OFFSETS = (-2, -1, 0, 1, 2, 3)
"""Turns around the mistake, which is 0, at which the divergence from the self-teacher is measured."""


@dataclass(frozen=True, eq=False)
class Continued:
    """What one policy did with the mistakes; seeds are training seeds, of which the base has one.

    Attributes:
        won: `[seeds, mistakes, continuations]` bool.
        turns: `[seeds, mistakes, continuations]` int, turns played after the mistake.
        left: `[mistakes]` int, least number of turns to success after it.
        taken, oracle: `[seeds, mistakes]` nats, log-probs of the mistake and of the oracle's action in its place.
        divergence: by offset `[seeds, mistakes]` nats, forward KL from the self-teacher; nan where there is no such
            turn.
    """

    won: np.ndarray
    turns: np.ndarray
    left: np.ndarray
    taken: np.ndarray
    oracle: np.ndarray
    divergence: Mapping[int, np.ndarray]


def policies(runs: Iterable[Path]) -> dict[str, list[Path]]:
    """Directories of runs by policy: NAME-0, NAME-1, ... are training seeds of one policy NAME, as in a comparison.

    Raises:
        ValueError: two runs have the same last name, or a policy that of the base.
    """
    found: dict[str, list[Path]] = {}
    for run in runs:
        found.setdefault(arm_of(run.name), []).append(run)
    names = [run.name for same in found.values() for run in same]
    if len(set(names)) < len(names) or BASE in found:
        raise ValueError(f"runs {', '.join(names)}: last names must differ, and {BASE!r} is the base itself")
    return found


def check_seeds(name: str, trained: Sequence[Mapping[str, Any]]) -> None:
    """Makes sure that runs which `checkpointed.trained_from` describes are different training seeds of one policy.

    Raises:
        ValueError: they are not; says what differs.
    """
    seeds = [record["configuration"]["seed"] for record in trained]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"runs {name}-* would be training seeds of one policy, but theirs are {seeds}; rename one")
    first, *others = [{**record["configuration"], "seed": None} for record in trained]
    for other in others:
        if differing := configuration_differences(first, other):
            raise ValueError(
                f"runs {name}-* would be training seeds of one policy, but they differ in ({differing}); rename one"
            )


def study(
    run: Run,
    students: Mapping[str, Sequence[Path]],
    checkpoint: str,
    directory: Path,
    report: Callable[[str], Any],
    *,
    seed: int = 1,
) -> dict[str, Continued]:
    """Measures every student that `directory` does not hold yet, the base first.

    Args:
        run: of the base; its world, temperature and number of continuations hold for all.
        students: directories of runs by the name of their policy; see `policies`.
        checkpoint: "last" or "best".
        directory: of the study.
        report: told in one line what is being done.
        seed: of the continuations, the same for every student.

    Raises:
        ValueError: a run was trained from another base or in another world, runs of a policy differ in more than their
            training seed, or there is no mistake.
        FileNotFoundError: a run has no checkpoint.
    """
    config = run.config
    trained = {name: [trained_from(config, place, checkpoint) for place in places] for name, places in students.items()}
    for name, records in trained.items():
        check_seeds(name, records)
    mistakes = frozen_mistakes(run, directory / MISTAKES_FILE)
    if not mistakes:
        raise ValueError("the base made no mistake that can be recovered from; raise config.evaluate.final_tasks")
    shared = {
        "mistakes": hashlib.sha256((directory / MISTAKES_FILE).read_bytes()).hexdigest(),
        "continuations": config.evaluate.continuations,
        "temperature": config.eval_temperature,
        "top_p": config.evaluate.top_p,
        "seed": seed,
        "base": base_record(configuration_record(config)),
    }

    def measured(name: str, place: Path | None, record: Mapping[str, Any] | None) -> dict[str, Any]:
        path, settings = directory / f"{name}.json", {**shared, "trained": record}
        kept = json.loads(path.read_text()) if path.exists() else {}
        if kept.get("settings") != settings:
            steps = f" after {record['steps']} steps" if record else ""
            report(f"{name}{steps}: {len(mistakes)} mistakes × {config.evaluate.continuations}")
            params = checkpoint_params(run, place, checkpoint)[0] if place else run.reference
            kept = {"settings": settings, "measured": measure(run, params, mistakes, seed)}
            write_json(path, kept)
        return kept["measured"]

    found = {BASE: _read([measured(BASE, None, None)])}
    for name, places in students.items():
        seeds = [measured(p.name, p, record) for p, record in zip(places, trained[name], strict=True)]
        found[name] = _read(seeds)
    return found


def measure(run: Run, params: Any, mistakes: Sequence[Mistake], seed: int) -> dict[str, Any]:
    """What the student with `params` does with `mistakes`: the arrays of `Continued`, of one seed, as plain JSON."""
    run.load(params)
    played = continued_by(run, mistakes, seed)
    shape = (len(mistakes), run.config.evaluate.continuations)
    before = np.repeat([m.turn + 1 for m in mistakes], shape[1])
    taken, oracle = action_log_probs(run, params, [(m.trajectory, m.turn) for m in mistakes])
    return {
        "won": np.reshape([int(t.won) for t in played], shape).tolist(),
        "turns": np.reshape([len(t.turns) for t in played] - before, shape).tolist(),
        "left": [m.left for m in mistakes],
        "taken": _plain(taken),
        "oracle": _plain(oracle),
        "divergence": {str(o): _plain(divergence_at(run, params, mistakes, o, seed)) for o in OFFSETS},
    }


def divergence_at(run: Run, params: Any, mistakes: Sequence[Mistake], offset: int, seed: int) -> np.ndarray:
    """`self_teacher_divergence` so many turns after each mistake, in the base's own episode; `[mistakes]` nats."""
    places = [m.turn + offset for m in mistakes]
    there = [i for i, m in enumerate(mistakes) if 0 <= places[i] < len(m.trajectory.turns)]
    divergence = np.full(len(mistakes), np.nan)
    points = [(mistakes[i].trajectory, places[i]) for i in there]
    divergence[there] = self_teacher_divergence(run, params, points, seed=seed)
    return divergence


def _plain(values: np.ndarray) -> list[float | None]:
    """JSON has no nan."""
    return [None if np.isnan(value) else float(value) for value in values]


def _read(seeds: Sequence[Mapping[str, Any]]) -> Continued:
    """What `measure` returned for each training seed."""

    def nats(values: Iterable[Sequence[float | None]]) -> np.ndarray:
        return np.asarray([[np.nan if value is None else value for value in seed] for seed in values], float)

    return Continued(
        won=np.asarray([seed["won"] for seed in seeds], bool),
        turns=np.asarray([seed["turns"] for seed in seeds]),
        left=np.asarray(seeds[0]["left"]),
        taken=nats(seed["taken"] for seed in seeds),
        oracle=nats(seed["oracle"] for seed in seeds),
        divergence={int(o): nats(seed["divergence"][o] for seed in seeds) for o in seeds[0]["divergence"]},
    )


@dataclass(frozen=True)
class Judged:
    """One policy beside the base; every mistake counts by its mean over training seeds, intervals are over mistakes.

    Attributes:
        recovered, continuations: how many succeeded, of how many.
        recovery: share that did.
        by_seed: the same of each training seed.
        over_base: the share less that of the base, mistake by mistake.
        better, worse, same: mistakes from which it comes back more often, less often and as often.
        within: share that had succeeded n turns after the mistake, for n from 0 on.
        turns: of its recoveries, mean; None without any.
        least_turns: what the oracle would need for the same.
        mistake_probability, oracle_probability: of the mistake and of the oracle's action there, mean.
        divergence: from the self-teacher in nats a response, by turns after the mistake.
    """

    recovered: int
    continuations: int
    recovery: Estimate | None
    by_seed: list[float]
    over_base: Estimate | None
    better: int
    worse: int
    same: int
    within: list[float]
    turns: float | None
    least_turns: float | None
    mistake_probability: Estimate | None
    oracle_probability: Estimate | None
    divergence: dict[int, Estimate | None]


def judged(policy: Continued, base: Continued) -> Judged:
    """Compares `policy` with `base`."""
    recovery, of_base = policy.won.mean(axis=(0, 2)), base.won.mean(axis=(0, 2))
    least = np.broadcast_to(policy.left[:, None], policy.won.shape)
    return Judged(
        recovered=int(policy.won.sum()),
        continuations=policy.won.size,
        recovery=estimate(recovery),
        by_seed=policy.won.mean(axis=(1, 2)).tolist(),
        over_base=estimate(recovery - of_base),
        better=int((recovery > of_base).sum()),
        worse=int((recovery < of_base).sum()),
        same=int((recovery == of_base).sum()),
        within=[float((policy.won & (policy.turns <= n)).mean()) for n in range(int(policy.turns.max()) + 1)],
        turns=float(policy.turns[policy.won].mean()) if policy.won.any() else None,
        least_turns=float(least[policy.won].mean()) if policy.won.any() else None,
        mistake_probability=_over_seeds(np.exp(policy.taken)),
        oracle_probability=_over_seeds(np.exp(policy.oracle)),
        divergence={offset: _over_seeds(values) for offset, values in policy.divergence.items()},
    )


def _over_seeds(values: np.ndarray) -> Estimate | None:
    """The mean of `[seeds, mistakes]`; nan, in all seeds alike, is left out."""
    means = values.mean(axis=0)
    return estimate(means[~np.isnan(means)])


def study_table(rows: Mapping[str, Judged]) -> str:
    """A Markdown table, one row a policy, with 95% bootstrap intervals and each training seed's own recovery."""
    columns = (
        "recovered", "%", "better / worse / same", "− base, paired", "turns (least)", "p(mistake)", "p(oracle's)",
        "KL at it", "KL after it",
    )  # fmt: skip
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, row in rows.items():
        cells = (
            f"{row.recovered}/{row.continuations}",
            percent_text(row.recovery) + seeds_text(row.by_seed),
            f"{row.better} / {row.worse} / {row.same}",
            percent_text(row.over_base, signed=True),
            "–" if row.turns is None else f"{row.turns:.1f} ({row.least_turns:.1f})",
            interval_text(row.mistake_probability, digits=3),
            interval_text(row.oracle_probability, digits=3),
            interval_text(row.divergence[0], digits=2),
            interval_text(row.divergence[1], digits=2),
        )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def leads_table(found: Mapping[str, Continued]) -> str:
    """A Markdown table: the first policy but the base beside each other one, mistake by mistake; "" if there is none.

    All trained policies gain from the mistakes being the base's own; this is where they are compared with one another.
    """
    trained = [name for name in found if name != BASE]
    lines = ["| | better / worse / same | difference, paired |", "|---|---|---|"]
    for other in trained[1:]:
        row = judged(found[trained[0]], found[other])
        difference = percent_text(row.over_base, signed=True)
        lines.append(f"| {trained[0]} − {other} | {row.better} / {row.worse} / {row.same} | {difference} |")
    return "\n".join(lines) if len(trained) > 1 else ""


def draw_study(rows: Mapping[str, Judged], path: Path) -> None:
    """A figure: recovery over turns after the mistake, and divergence from the self-teacher around it."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    curve, divergence = figure.subplots(1, 2)
    for name, row in rows.items():
        curve.plot([100 * share for share in row.within], label=name, drawstyle="steps-post")
        shown = [(offset, e.value, e.value - e.low, e.high - e.value) for offset, e in row.divergence.items() if e]
        offsets, means, below, above = zip(*shown, strict=True)
        divergence.errorbar(offsets, means, [below, above], marker="o", markersize=3, capsize=2, label=name)
    curve.set(xlabel="turns after the mistake", ylabel="recovered (%)")
    curve.set_ylim(bottom=0)
    curve.legend(frameon=False, fontsize=8)
    divergence.axvline(0, color="0.8", zorder=0)
    divergence.set(xlabel="turn, counted from the mistake", ylabel="KL(hinted ‖ policy), nats a response")
    figure.savefig(path, dpi=150)
