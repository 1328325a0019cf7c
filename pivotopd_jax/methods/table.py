"""The space of methods as a table, read off the definitions."""

from __future__ import annotations

import inspect
from typing import Any

from rich.table import Table

from pivotopd_jax.methods import METHODS
from pivotopd_jax.methods.method import Method


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
    behaviour = method.behaviour
    if behaviour.depth:
        return (
            f"{behaviour.actor}, depth {' '.join(str(behaviour.depth(step)) for step in (0, 10, 20))} at step 0 10 20"
        )
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
    count = "" if chosen.turns == "every" else f", m = {chosen.max_actions}"
    return f"{chosen.turns} turns{count}, {chosen.hint.replace('_', ' ')}"


def _extend(method: Method) -> str:
    chosen = method.extension
    if method.labels:
        return f"labels at {method.labels.turns} turns"
    if chosen is None:
        return "–"
    return f"K = {chosen.depth}, {chosen.sampler} sampler, {chosen.hint.replace('_', ' ')}, at most {chosen.limit}"


def _shape(method: Method) -> str:
    parts = [f"A_RL by {method.normalization}"] if method.rollouts else []
    if keywords := getattr(method.shape, "keywords", None):
        parts.append(", ".join(f"{key} {value:g}" for key, value in keywords.items()))
    if method.step_advantage:
        parts.append(f"step advantage × {method.step_advantage.weight:g}, γ = {method.step_advantage.discount:g}")
    if method.divergence:
        term = method.divergence
        name = getattr(term.function, "func", term.function).__name__
        parts.append(f"{name} × {term.weight:g} on {' and '.join(term.rows)} rows, view {term.view}")
    if not method.uniform_groups:
        parts.append("groups of equal scores dropped")
    parts += [f"{key} {value}" for key, value in method.update.items()]
    if method.aggregation:
        parts.append(method.aggregation)
    return "; ".join(parts)
