"""Loss and gradient are those of the rows: padding, packing, micro-batches and the rest of a batch change nothing.

For every family of losses, on what a student played, to a millionth: the gradient and the scores of their largest
entry, the loss of itself. That is more than sums in float32 can show, which come out up to 1.5 millionths apart; so the
same programs are run in double precision here. tests/rollout/test_step.py has them in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from rollout.test_step import KNOBS, forced, recover, teacher
from toy_student import Toy, make_toy

from pivotopd_jax.learner import learner, objective
from pivotopd_jax.learner.learner import DivergenceTerm, Learner, make_mesh
from pivotopd_jax.learner.objective import UpdateOptions
from pivotopd_jax.losses.divergences import jensen_shannon, kl_divergence, reverse_kl
from pivotopd_jax.methods import make_method
from pivotopd_jax.methods.method import Divergence
from pivotopd_jax.models import attention, feed_forward, head, qwen3
from pivotopd_jax.records import PLAIN, TEACHER, DivergenceBatch, Row, TokenBatch
from pivotopd_jax.rollout.annotate import annotate
from pivotopd_jax.rollout.rows import batch_rows, counts_of, divergence_batch, rollout_rows, score_views

CLOSE = 1e-6
SINGLE = (qwen3, attention, feed_forward, head, learner, objective)
"""Modules that compute in float32 whatever the parameters are."""
LENGTH = 256


class Layout(NamedTuple):
    """How rows become a batch.

    Attributes:
        length: of packed rows, tokens.
        apart: every row alone in a packed row, the rest of which is padding; otherwise trees of rows.
        at_once: packed rows of a micro-batch.
        backwards: the other order.
    """

    length: int = LENGTH
    apart: bool = False
    at_once: int = 4
    backwards: bool = False


TREES = Layout()
LAYOUTS = {
    "padding": Layout(length=2 * LENGTH, at_once=2),
    "micro-batches": Layout(at_once=1),
    "rows apart in micro-batches": Layout(apart=True, at_once=1),
    "order": Layout(backwards=True),
}


class Family(NamedTuple):
    """A family of losses.

    Attributes:
        options: of the update.
        divergence: a full-vocabulary term, for those that have one.
        surrogate: whether the policy's objective has advantages at all.
        moved: by what share the student's parameters have changed since it sampled.
    """

    options: UpdateOptions
    divergence: Divergence | None = None
    surrogate: bool = True
    moved: float = 0.5


NO_KL = UpdateOptions(kl_coefficient=0.0)
FAMILIES = {
    "surrogate with recoveries": Family(UpdateOptions(kl_coefficient=0.05), moved=0.05),
    "preventive reverse KL": Family(NO_KL, Divergence(reverse_kl, 0.5, ("rollout",)), surrogate=False),
    "recovery forward KL": Family(NO_KL, Divergence(kl_divergence, 0.5, ("recovery",)), surrogate=False),
    "distillation": Family(
        NO_KL, Divergence(partial(jensen_shannon, beta=0.3), 1.0, ("rollout", "recovery"), TEACHER), surrogate=False
    ),
    "imitation": Family(UpdateOptions(objective="likelihood", kl_coefficient=0.0)),
}


class Played(NamedTuple):
    """A student with what it played.

    Attributes:
        toy: the student.
        rows: of its episodes.
        scores: of each row under its views when it sampled; the same for all layouts.
    """

    toy: Toy
    rows: Sequence[Row]
    scores: Sequence[Mapping[str, np.ndarray]]


class Double:
    """Stands in for numpy, or for JAX's: where float32 is asked for, there is float64."""

    def __init__(self, module: Any):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, "float64" if name == "float32" else name)


@pytest.fixture(scope="module", autouse=True)
def double() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(True):
        for module in SINGLE:
            patch.setattr(module, "jnp", Double(jnp))
        patch.setattr(learner, "np", Double(np))
        yield


@pytest.fixture(scope="module")
def played(double) -> Played:
    """Three episodes with hinted views and a recovery, of a student whose opinions are strong."""
    toy = make_toy()
    toy = replace(toy, params=jax.tree.map(lambda x: (2 * x if x.ndim == 2 else x).astype(jnp.float64), toy.params))
    told = (["right", "right", "left", "grab"], ["right", "grab"], ["left", "right", "right", "left"])
    trajectories = [forced(toy, actions, max_turns=4) for actions in told]
    method = make_method("pivotopd", KNOBS)
    notes = annotate(teacher(toy), trajectories, method.annotation, seed=0)
    extra, _, _ = recover(toy, trajectories[0], ["<action>left</action>"])
    rows = [*rollout_rows(trajectories, notes, method, toy.prompter), *extra]
    assert any("hinted" in row.views for row in rows if row.kind == "rollout")
    assert [row.kind for row in rows].count("recovery") == 1
    return Played(toy, rows, scores_of(toy, rows, TREES))


def learner_of(toy: Toy, layout: Layout, options: UpdateOptions) -> Learner:
    tokens = layout.at_once * layout.length
    return Learner(
        toy.graphdef, optax.trace(decay=0), make_mesh(), micro_batch_tokens=tokens, options=options, dtype="float64"
    )


def groups(count: int, layout: Layout) -> list[list[int]]:
    """Which of `count` rows are packed together."""
    order = range(count)[::-1] if layout.backwards else range(count)
    return [[i] for i in order] if layout.apart else [[*order]]


def scores_of(toy: Toy, rows: Sequence[Row], layout: Layout) -> list[Mapping[str, np.ndarray]]:
    """Log-probs of each row under its plain and its hinted context."""
    scorer = learner_of(toy, layout, NO_KL)
    found: dict[int, Mapping[str, np.ndarray]] = {}
    for group in groups(len(rows), layout):
        chosen = [rows[i] for i in group]
        _, packed = batch_rows(chosen, length=layout.length)
        views = score_views(lambda p: scorer.score(toy.params, p), chosen, packed, ["hinted"], length=layout.length)
        apart = {view: packed.gather(values) for view, values in views.items()}
        found |= {i: {view: apart[view][place] for view in apart} for place, i in enumerate(group)}
    return [found[i] for i in range(len(rows))]


def moved(params: Any, size: float) -> Any:
    """Other parameters than `params`, by about `size` of each."""
    return jax.tree.map(lambda x: x * (1 + size * np.cos(np.arange(x.size)).reshape(x.shape)), params)


def joined(parts: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def gradient(played: Played, family: Family, layout: Layout, count: int | None = None) -> dict[str, Any]:
    """The loss and its whole gradient at a policy that has moved since it sampled.

    `count` is that of the tokens by which the loss is divided, if not those of the rows.
    """
    toy, rows, scores = played
    updater = learner_of(toy, layout, family.options)
    counts = counts_of(rows) if count is None else counts_of(rows)._replace(tokens=count)
    taught = moved(toy.params, 0.3) if family.divergence and family.divergence.view == TEACHER else toy.params
    batches, terms = [], []
    for group in groups(len(rows), layout):
        chosen = [rows[i] for i in group]
        batch, packed = batch_rows(chosen, length=layout.length, counts=counts)
        views = {view: packed.scatter([scores[i][view] for i in group]) for view in (PLAIN, "hinted")}
        batch = batch._replace(old_log_probs=views[PLAIN], reference_log_probs=views[PLAIN])
        if family.options.objective == "likelihood":
            batch = batch._replace(advantages=batch.mask.astype(np.float32))
        elif family.surrogate:
            shaped = make_method("pivotopd", KNOBS).shape(batch, views)
            batch = batch._replace(advantages=np.asarray(shaped, np.float32))
        batches.append(batch)
        if family.divergence:
            term = divergence_batch(
                lambda p: updater.hidden(taught, p), chosen, family.divergence, length=layout.length, counts=counts
            )
            terms += [term] if len(term.tokens) else []
    divergence = None
    if family.divergence and terms:
        found: DivergenceBatch = joined(terms)
        divergence = DivergenceTerm(found, toy.graphdef, updater.whole(taught), family.divergence.function)
    whole: TokenBatch = joined(batches)
    state, metrics = updater.update(updater.init(moved(toy.params, family.moved)), whole, divergence=divergence)
    assert {x.dtype for x in jax.tree.leaves(state.params)} == {np.dtype("float64")}
    trace: Any = state.opt_state
    leaves = jax.tree.leaves_with_path(trace.trace)
    return {"loss": np.asarray(metrics["loss"]), **{jax.tree_util.keystr(k): np.asarray(x) for k, x in leaves}}


def largest(arrays: Mapping[str, Any]) -> float:
    """The largest entry of a gradient."""
    return max(float(np.abs(array).max()) for name, array in arrays.items() if name != "loss")


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> tuple[float, float]:
    """Of the loss as a share of it, and of the gradient as a share of its largest entry."""
    assert set(found) == set(expected)
    apart = {name: found[name] - array for name, array in expected.items()}
    return abs(float(apart["loss"] / expected["loss"])), largest(apart) / largest(expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_layout_changes_neither_loss_nor_gradient(played, family):
    expected = gradient(played, FAMILIES[family], TREES)
    assert min(abs(expected["loss"]), largest(expected)) > 1000 * CLOSE
    for name, layout in LAYOUTS.items():
        loss, entries = differences(gradient(played, FAMILIES[family], layout), expected)
        print(f"{family}, {name}: {loss:.1e} of the loss, {entries:.1e} of the largest entry")
        assert max(loss, entries) < CLOSE, name


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_changes_no_score(played, layout):
    most = max(np.abs(values).max() for views in played.scores for values in views.values())
    for found, expected in zip(scores_of(played.toy, played.rows, LAYOUTS[layout]), played.scores, strict=True):
        for view, values in expected.items():
            assert np.abs(found[view] - values).max() < CLOSE * most


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_is_the_sum_of_its_parts(played, family):
    """What else is in a batch changes nothing of what a row contributes."""
    rows = [replace(row, trajectory=i) for i, row in enumerate(played.rows)]  # no tree is shared
    parts = [Played(played.toy, rows[part], played.scores[part]) for part in (slice(4), slice(4, None))]
    tokens = counts_of(rows).tokens
    first, second = (gradient(part, FAMILIES[family], TREES, tokens) for part in parts)
    whole = gradient(played._replace(rows=rows), FAMILIES[family], TREES)
    assert max(differences({name: first[name] + second[name] for name in whole}, whole)) < CLOSE


def test_other_rows_make_another_gradient(played):
    """That the comparison can fail: a token less is seen."""
    one = replace(played.rows[0], response_ids=played.rows[0].response_ids[:-1], sampled_log_probs=None)
    scores = [{view: values[:-1] for view, values in played.scores[0].items()}, *played.scores[1:]]
    other = Played(played.toy, [one, *played.rows[1:]], scores)
    family = FAMILIES["imitation"]
    assert min(differences(gradient(other, family, TREES), gradient(played, family, TREES))) > 1000 * CLOSE
