"""From rows to what an update takes: mini-batches, scores under every view, and the advantages a method shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pivotopd_jax.learner.learner import DivergenceTerm, TrainState
from pivotopd_jax.losses.divergences import reverse_kl
from pivotopd_jax.methods.method import Divergence
from pivotopd_jax.processes import gather, share_of, together
from pivotopd_jax.records import PLAIN, TEACHER, TEACHER_HINTED, Row, TokenBatch, Trajectory, View
from pivotopd_jax.rollout.packing import Packed
from pivotopd_jax.rollout.rows import Counts, batch_rows, counts_of, divergence_batch, score_views
from pivotopd_jax.run import Run
from pivotopd_jax.sampling.slots import bucket
from pivotopd_jax.teachers.protocol import TokenScorer


class Shaped(NamedTuple):
    """Mini-batch, scored and shaped.

    Attributes:
        batch: what an update takes.
        views: log-probs `[rows, length]` in nats by view.
        packed: where the tokens of each row lie.
    """

    batch: TokenBatch
    views: Mapping[View, np.ndarray]
    packed: Packed


class MiniBatch(NamedTuple):
    """What one optimizer step is taken on.

    Attributes:
        rows: of this process.
        counts: those of all processes' rows.
    """

    rows: Sequence[Row]
    counts: Counts


def own_trajectories(run: Run) -> range:
    """Which of the trajectories of a step this process plays: whole groups, the tasks being divided."""
    tasks, rollouts = share_of(run.config.tasks_per_step), run.config.rollouts
    return range(tasks.start * rollouts, tasks.stop * rollouts)


def mini_batches(run: Run, rows: Sequence[Row], seed: int, *, played: int) -> list[MiniBatch]:
    """Rows split by trajectory into PPO mini-batches of `config.ppo.mini_batch` trajectories, in a seeded order.

    Which trajectories make a mini-batch does not depend on how they are divided among processes. Those from `played`
    on, the number that this process has played, are of earlier steps. They are dealt out to the mini-batches of the new
    ones, so that their number, and with it the learning rate's schedule, does not depend on them.
    """
    own, total = own_trajectories(run), run.config.tasks_per_step * run.config.rollouts
    order = np.random.default_rng(seed).permutation(total)
    count = max(1, -(-total // run.config.ppo.mini_batch))
    part_of = {int(t): part for part, chunk in enumerate(np.array_split(order, count)) for t in chunk}
    parts: list[list[Row]] = [[] for _ in range(count)]
    for row in sorted(rows, key=lambda row: (row.trajectory, row.turn)):
        new = row.trajectory < played
        parts[part_of[own[row.trajectory]] if new else row.trajectory % count].append(row)
    return [MiniBatch(part, counts) for part, counts in zip(parts, all_counts(parts), strict=True) if counts.rows]


def all_counts(parts: Sequence[Sequence[Row]]) -> list[Counts]:
    """What all processes together have in each of `parts`."""
    found = gather([counts_of(part) for part in parts])
    return [Counts(*np.sum(counts, axis=0).tolist()) for counts in zip(*found, strict=True)]


def shaped_batch(run: Run, state: TrainState, mini_batch: MiniBatch, step: int, *, only_update: bool) -> Shaped:
    """Packs rows, scores them under every view of θ₀ and the reference, and lets the method shape advantages.

    In the only update of a step θ is still θ₀: old log-probs are those of the update's own forward pass, and just the
    rows with a privileged view are scored. An external teacher scores all of them beside the student.
    """
    length, penalty = run.config.learner.row_tokens, run.method.penalty
    by_teacher = TEACHER in run.method.views
    rows, counts = mini_batch
    batch, packed = batch_rows(rows, length=length, view=penalty and penalty.view, counts=counts, **loss_shares(run))
    views = score_views(
        lambda p: run.learner.score(state.params, p), rows, packed,
        [view for view in run.method.views if view not in (TEACHER, TEACHER_HINTED)], length=length,
        every_row=by_teacher or not only_update,
    )  # fmt: skip
    if by_teacher:
        views[TEACHER] = teacher_log_probs(run, rows, packed, views[PLAIN]) * batch.mask
    if TEACHER_HINTED in run.method.views:
        views[TEACHER_HINTED] = hinted_teacher_log_probs(run, rows, packed, views[PLAIN]) * batch.mask
    batch = batch._replace(old_log_probs=views[PLAIN])
    if penalty:
        batch = batch._replace(privileged_log_probs=views[penalty.view])
    if run.learner.options.kl_coefficient:
        batch = batch._replace(reference_log_probs=run.learner.score(run.reference, packed) * batch.mask)
    if not rows:  # another process has some
        return Shaped(batch, views, packed)
    return Shaped(batch._replace(advantages=advantages(run, batch, views, step)), views, packed)


def advantages(run: Run, batch: TokenBatch, views: Mapping[View, np.ndarray], step: int) -> np.ndarray:
    """What the method makes of a batch, `[rows, length]` float32.

    Its operations are compiled one by one for the number of rows. That is another one in every step, and so rounded up
    to a power of two.
    """
    rows = len(batch.tokens)
    padding = ((0, bucket(rows, 1) - rows), (0, 0))
    padded, seen = jax.tree.map(lambda array: np.pad(array, padding), (batch, dict(views)))
    shaped = run.method.advantages(padded, seen, step=step, steps=run.config.steps)
    return np.asarray(shaped, np.float32)[:rows]


def token_advantages(mini_batches: Sequence[MiniBatch], shaped: Sequence[Shaped]) -> Iterator[tuple[Row, np.ndarray]]:
    """Every row with the advantages `[response_length]` of its tokens."""
    for (rows, _), (batch, _, packed) in zip(mini_batches, shaped, strict=True):
        yield from zip(rows, packed.gather(batch.advantages), strict=True)


def teacher_log_probs(run: Run, rows: Sequence[Row], packed: Packed, plain: np.ndarray) -> np.ndarray:
    """The external teacher's log-probs of the responses, `[rows, length]` float32 nats.

    A response that a served teacher could not score gets the student's own (`plain`): it loses its term and no more.
    """
    if run.teacher_model is not None:
        return run.teacher_model.learner.score(run.teacher_model.params, packed)
    if not isinstance(run.teacher, TokenScorer):
        raise ValueError("there is no external teacher in this run; set config.teacher.model")
    with together():
        scores = run.teacher.score([(row.context_ids, row.response_ids) for row in rows])
    own = packed.gather(plain)
    return packed.scatter([mine if score is None else score for score, mine in zip(scores, own, strict=True)])


def hinted_teacher_log_probs(run: Run, rows: Sequence[Row], packed: Packed, plain: np.ndarray) -> np.ndarray:
    """The external teacher's log-probs of the responses whose rows have a hinted context for it, under that context.

    Returns:
        `[rows, length]` float32 nats; where there is no such context, or no score, those of the student (`plain`).
    """
    hinted = [i for i, row in enumerate(rows) if TEACHER_HINTED in row.views]
    asked = [replace(rows[i], context_ids=rows[i].views[TEACHER_HINTED], views={}) for i in hinted]
    length = run.config.learner.row_tokens
    own = packed.gather(plain)
    with together():
        _, alone = batch_rows(asked, length=length)
    values = alone.gather(teacher_log_probs(run, asked, alone, alone.scatter([own[i] for i in hinted])))
    found = dict(zip(hinted, values, strict=True))
    return packed.scatter([found.get(i, own[i]) for i in range(len(rows))])


def loss_shares(run: Run) -> dict[str, Any]:
    """What a token counts for: as the method says, else as the configuration does."""
    return {
        "aggregation": run.method.aggregation or run.config.ppo.aggregation,
        "constant": float(run.config.prompt.response_tokens),
    }


def divergence_terms(run: Run, state: TrainState, chunks: Sequence[MiniBatch]) -> list[DivergenceTerm | None]:
    """For each mini-batch the full-vocabulary term that the method asks for, taught by θ₀ or the external teacher."""
    wanted = run.method.divergence
    if wanted is None:
        return [None] * len(chunks)
    if wanted.view == TEACHER and run.teacher_model is not None:
        learner, teacher = run.teacher_model.learner, run.teacher_model.params
    else:
        # An update consumes the state's own parameters.
        learner, teacher = run.learner, state.params if len(chunks) == 1 else jax.tree.map(jnp.copy, state.params)
    batches = [
        divergence_batch(
            lambda packed: learner.hidden(teacher, packed), chunk.rows, wanted,
            length=run.config.learner.row_tokens, counts=chunk.counts, **loss_shares(run),
        )
        for chunk in chunks
    ]  # fmt: skip
    return [DivergenceTerm(batch, learner.graphdef, learner.whole(teacher), wanted.function) for batch in batches]


def turn_mass(shaped: Sequence[Shaped], view: View, turns: int) -> np.ndarray:
    """Σ |log(view) − log(plain)| over the tokens of each turn, `[turns]` nats, of what `shaped_batch` returned here."""
    mass = np.zeros(turns)
    for batch, scores, _ in shaped:
        np.add.at(mass, batch.turn, np.abs(scores[view] - scores[PLAIN]) * batch.mask)
    return mass


def teacher_divergence(run: Run, params: Any, trajectories: Sequence[Trajectory]) -> float:
    """Mean KL(student ‖ external teacher) over the student's tokens in `trajectories`, nats a token.

    Over training this is the covariate-shift curve of arXiv 2605.12913: how far the student is from its teacher on the
    states that it gets itself into. nan if the student never acted. All processes give the trajectories that they have.
    """
    teacher, length = run.teacher_model, run.config.learner.row_tokens
    if teacher is None:
        raise ValueError("there is no external teacher in this run; set config.teacher.model")
    rows = [
        Row("rollout", index, trajectory.group, turn, played.context_ids, played.response_ids)
        for index, trajectory in enumerate(trajectories)
        for turn, played in enumerate(trajectory.turns)
        if played.actor == "student"
    ]
    (counts,) = all_counts([rows])
    if not counts.rows:
        return float("nan")
    measure = Divergence(reverse_kl, 1.0, ("rollout",), TEACHER)
    batch = divergence_batch(
        lambda p: teacher.learner.hidden(teacher.params, p), rows, measure, length=length, counts=counts
    )
    taught = teacher.learner.graphdef, teacher.learner.whole(teacher.params)
    return run.learner.divergence(params, DivergenceTerm(batch, *taught, reverse_kl))


def assert_unprivileged(run: Run, rows: Sequence[Row], trajectories: Sequence[Trajectory]) -> None:
    """No hint may stand in a context that is trained under; checked where hints are about, on every recovery row.

    What the student itself said earlier in the episode is its own affair, even if it sounds like a hint.
    """
    for row in rows:
        if row.kind == "recovery":
            said = [turn.response for turn in trajectories[row.trajectory].turns[: row.turn]]
            run.prompter.assert_unprivileged(row.context_ids, said)
