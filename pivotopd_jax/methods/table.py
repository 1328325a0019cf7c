"""The space of methods as a table, read off the definitions."""

from __future__ import annotations

import inspect
from typing import Any

from rich.table import Table

from pivotopd_jax.methods import METHODS
from pivotopd_jax.methods.method import Behaviour, Method


def methods_table(knobs: Any) -> Table:
    """One row a method, one column a stage; `knobs` as in `config.knobs`."""
    table = Table(title="methods")
    for column in ("method", "what it is", "collect", "annotate", "extend", "score under", "shape and update"):
        table.add_column(column, overflow="fold")
    table.show_lines = True
    for name, make in METHODS.items():
        method = make(knobs)
        views = ", ".join(("plain", *method.views))
        table.add_row(
            name, inspect.getdoc(make), _collect(method), _annotate(method), _extend(method), views, _shape(method)
        )
    return table


def _collect(method: Method) -> str:
    parts = [_who(method.behaviour)]
    if method.behaviour.skills:
        parts.append(f"shown {method.behaviour.skills} skills")
    if probe := method.behaviour.probe:
        parts.append(f"depth by a probe every {probe.every} steps")
    if pivots := method.behaviour.pivots:
        parts.append(f"single offline turns with a mean reward in [{pivots.least:g}, {pivots.most:g}]")
    return ", ".join(parts)


def _who(behaviour: Behaviour) -> str:
    if behaviour.depth:
        depths = " ".join(str(behaviour.depth(step)) for step in (0, 10, 20))
        return f"{behaviour.actor}, depth {depths} at step 0 10 20"
    if behaviour.actor == "prefix":
        lengths = " ".join(str(behaviour.prefix(step, 10)) for step in (0, 10, 20))
        return f"expert prefix, {lengths} of 10 turns at step 0 10 20"
    if behaviour.actor in ("student", "expert"):
        return behaviour.actor
    shares = [behaviour.share(i) for i in range(1, behaviour.iterations + 1)]
    return f"{behaviour.actor}, " + " ".join(f"{share:g}" for share in shares)


def _annotate(method: Method) -> str:
    chosen = method.annotation
    if chosen is None:
        return "–"
    parts = []
    if chosen.turns != "none":
        count = "" if chosen.turns == "every" else f", m = {chosen.max_actions}"
        by = " by the student's own vote" if method.teacher == "student" else ""
        parts.append(f"{chosen.turns} turns{by}{count}, {chosen.hint.replace('_', ' ')}")
    if chosen.lessons:
        words = {"report": "the report's lessons", "skills": f"{chosen.skills} skills of the bank"}
        parts.append(words.get(chosen.lessons, "the group's first success"))
    return "; ".join(parts)


def _extend(method: Method) -> str:
    chosen = method.extension
    if method.labels:
        replay = ", those of earlier steps too" if method.replay else ""
        return f"labels at {method.labels.turns} turns{replay}"
    if chosen is None:
        return "–"
    return f"K = {chosen.depth}, {chosen.sampler} sampler, {chosen.hint.replace('_', ' ')}, at most {chosen.limit}"


def _shape(method: Method) -> str:
    parts = [f"A_RL by {method.normalization}"] if method.rollouts else []
    if keywords := getattr(method.shape, "keywords", None):
        parts.append(", ".join(f"{key} {value}" for key, value in keywords.items() if key != "view"))
    for key in method.schedule(0, 50):
        values = " ".join(f"{method.schedule(step, 50)[key]:.2g}" for step in (0, 25, 49))
        parts.append(f"{key} {values} at step 0 25 49 of 50")
    if method.step_advantage:
        parts.append(f"step advantage × {method.step_advantage.weight:g}, γ = {method.step_advantage.discount:g}")
    if method.divergence:
        term = method.divergence
        name = getattr(term.function, "func", term.function).__name__
        parts.append(f"{name} × {term.weight:g} on {' and '.join(term.rows)} rows, view {term.view}")
    if method.penalty:
        name = getattr(method.penalty.function, "func", method.penalty.function).__name__.strip("_")
        parts.append(f"{name} × {method.penalty.weight:g}, view {method.penalty.view}")
    if not method.uniform_groups:
        parts.append("groups of equal scores dropped")
    parts += [f"{key} {value}" for key, value in method.update.items()]
    if method.aggregation:
        parts.append(method.aggregation)
    return "; ".join(parts)
