"""From trajectories and notes to padded token batches, and from scores back onto them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from pivotopd_jax.losses.surrogate import Aggregation
from pivotopd_jax.methods.method import Annotation, Divergence, Method, reward_advantages
from pivotopd_jax.prompts.hints import REFLECTION, action_hint, lesson_hint
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import (
    PLAIN,
    TEACHER,
    TEACHER_HINTED,
    DivergenceBatch,
    Note,
    Row,
    TokenBatch,
    Trajectory,
    View,
)
from pivotopd_jax.rollout.packing import Packed, Scored, pack


def rollout_rows(
    trajectories: Sequence[Trajectory], notes: Sequence[Note], method: Method, prompter: Prompter
) -> list[Row]:
    """One row for each turn the student played, with the views its notes call for; none if the method wants none."""
    if not method.rollouts:
        return []
    returns = np.asarray([t.won for t in trajectories], np.float32)
    groups = np.asarray([t.group for t in trajectories], np.int32)
    advantages = np.asarray(reward_advantages(method, returns, groups))
    added = step_advantages(trajectories, method)
    noted = {(note.trajectory, note.turn): note for note in notes}
    rows = []
    for index, trajectory in enumerate(trajectories):
        if not method.uniform_groups and not np.any(advantages[groups == trajectory.group]):
            continue
        for turn, played in enumerate(trajectory.turns):
            if played.actor != "student":
                continue
            note = noted.get((index, turn))
            views = _views(trajectory, turn, note, method, prompter) if note else {}
            advantage = float(advantages[index]) + added.get((index, turn), 0.0)
            pivotal = bool(note and note.pivotal)
            rows.append(
                Row(
                    "rollout", index, trajectory.group, turn, played.context_ids, played.response_ids, views,
                    advantage, pivotal, sampled_log_probs=played.log_probs,
                )
            )  # fmt: skip
    return rows


def step_advantages(trajectories: Sequence[Trajectory], method: Method) -> dict[tuple[int, int], float]:
    """What is added to A_RL at each (trajectory, turn): the turn's discounted return against those of its group's turns
    that started from the same observation (GiGPO, arXiv 2505.10978, step-level groups). Empty if the method adds none.
    """
    wanted = method.step_advantage
    if wanted is None:
        return {}
    turns = [(index, turn) for index, t in enumerate(trajectories) for turn in range(len(t.turns))]
    anchors: dict[Hashable, int] = {}
    ids, returns = [], []
    for index, turn in turns:
        trajectory = trajectories[index]
        key = (trajectory.group, trajectory.turns[turn].observation)
        ids.append(anchors.setdefault(key, len(anchors)))
        returns.append(trajectory.won * wanted.discount ** (len(trajectory.turns) - 1 - turn))
    found = np.asarray(reward_advantages(method, np.asarray(returns, np.float32), np.asarray(ids, np.int32)))
    return {place: wanted.weight * float(value) for place, value in zip(turns, found, strict=True)}


def _views(trajectory: Trajectory, turn: int, note: Note, method: Method, prompter: Prompter) -> dict[View, np.ndarray]:
    """Privileged contexts of one turn, as far as the method asks for them."""
    gold = _hint(note, method.annotation)
    hints: dict[View, str | None] = {
        "hinted": gold,
        TEACHER_HINTED: gold,
        "lesson": lesson_hint(note.lesson) if note.lesson else None,
    }
    observation = trajectory.turns[turn].observation
    return {
        view: prompter.context(trajectory.turns[:turn], observation, hint)
        for view, hint in hints.items()
        if hint is not None and view in method.views
    }


def _hint(note: Note, annotation: Annotation | None) -> str | None:
    if note.gold_action is None or annotation is None:
        return None
    return REFLECTION if annotation.hint == "reflection" else action_hint(note.gold_action)


class Counts(NamedTuple):
    """What the loss of an update is divided by; in a run of many processes, what all of them have.

    Attributes:
        rows: responses.
        tokens: of them.
    """

    rows: int
    tokens: int


def counts_of(rows: Sequence[Row]) -> Counts:
    """Those of `rows`."""
    return Counts(len(rows), sum(len(row.response_ids) for row in rows))


def check_lengths(rows: Sequence[Row], length: int) -> None:
    """Makes sure that every response fits a packed row of `length` tokens with each of its contexts.

    Raises:
        ValueError: one does not; says how long it is.
    """
    for row in rows:
        size = max(map(len, (row.context_ids, *row.views.values()))) + len(row.response_ids)
        if size > length:
            raise ValueError(
                f"turn {row.turn} of trajectory {row.trajectory} has {size} tokens, context and response ({row.kind} "
                f"row); it does not fit a row of {length}: raise config.learner.row_tokens, or lower "
                "config.prompt.prompt_tokens"
            )


def batch_rows(
    rows: Sequence[Row],
    *,
    length: int,
    aggregation: Aggregation = "token_mean",
    constant: float = 1.0,
    view: View | None = None,
    counts: Counts | None = None,
) -> tuple[TokenBatch, Packed]:
    """Packs the plain contexts and responses of `rows` into token rows of `length`.

    Args:
        rows: responses with their contexts.
        length: tokens of a packed row.
        aggregation, constant: what each token counts for, see `losses.surrogate.aggregate`.
        view: rows that have it are `privileged`.
        counts: of all rows of the update, if `rows` are a part of them.

    Returns:
        The batch, advantages and log-probs still 0, and the packing that maps rows to tokens.
    """
    packed = pack([Scored(row.trajectory, row.context_ids, row.response_ids) for row in rows], length=length)
    zeros = np.zeros(packed.tokens.shape, np.float32)
    batch = TokenBatch(
        packed.tokens, packed.positions, packed.subtree_end, packed.parent,
        mask=packed.scatter([True] * len(rows), bool),
        weights=packed.scatter(token_shares(rows, aggregation, constant, counts)),
        advantages=zeros,
        reward_advantages=packed.scatter([row.reward_advantage for row in rows]),
        old_log_probs=zeros,
        reference_log_probs=zeros,
        privileged_log_probs=zeros,
        privileged=packed.scatter([view in row.views for row in rows], bool),
        recovery=packed.scatter([row.kind == "recovery" for row in rows], bool),
        pivotal=packed.scatter([row.pivotal for row in rows], bool),
        trajectory=packed.scatter([row.trajectory for row in rows], np.int32),
        turn=packed.scatter([row.turn for row in rows], np.int32),
        sampled=packed.scatter([row.sampled_log_probs is not None for row in rows], bool),
        sampled_log_probs=packed.scatter(
            [0.0 if row.sampled_log_probs is None else row.sampled_log_probs for row in rows]
        ),
    )  # fmt: skip
    return batch, packed


def token_shares(
    rows: Sequence[Row], aggregation: Aggregation, constant: float = 1.0, counts: Counts | None = None
) -> list[float]:
    """What each token of each row counts for in the loss of a batch of `rows`, or of more rows with these `counts`.

    Raises:
        ValueError: unknown `aggregation`.
    """
    whole = counts or counts_of(rows)
    if aggregation == "token_mean":
        return [1 / whole.tokens for _ in rows]
    if aggregation == "sequence_mean":
        return [1 / (len(row.response_ids) * whole.rows) for row in rows]
    if aggregation == "constant":
        return [1 / (constant * whole.rows) for _ in rows]
    raise ValueError(f'aggregation is {aggregation!r}; expected "token_mean", "sequence_mean" or "constant"')


def divergence_batch(
    hidden: Callable[[Packed], np.ndarray],
    rows: Sequence[Row],
    divergence: Divergence,
    *,
    length: int,
    aggregation: Aggregation = "token_mean",
    constant: float = 1.0,
    counts: Counts | None = None,
) -> DivergenceBatch:
    """The rows that `divergence` is taken on, with the teacher's hidden states.

    Args:
        hidden: last hidden states `[rows, length, width]` of the teacher before the response tokens.
        rows: of the update.
        divergence: which rows, and the view that makes the teacher.
        length: tokens of a packed row.
        aggregation, constant, counts: as in `batch_rows`; not only the chosen rows set the scale.

    Returns:
        A batch of no rows if there are none to take it on.
    """
    chosen = [
        (row, share * divergence.weight)
        for row, share in zip(rows, token_shares(rows, aggregation, constant, counts), strict=True)
        if row.kind in divergence.rows and (divergence.view == TEACHER or divergence.view in row.views)
    ]
    plain = pack([Scored(row.trajectory, row.context_ids, row.response_ids) for row, _ in chosen], length=length)
    seen = pack(
        [
            Scored(row.trajectory, row.views.get(divergence.view, row.context_ids), row.response_ids)
            for row, _ in chosen
        ],
        length=length,
    )
    states = hidden(seen)
    teacher_hidden = np.zeros((*plain.tokens.shape, states.shape[-1]), np.float32)
    for r, places, values in zip(plain.row, plain.places, seen.gather(states), strict=True):
        teacher_hidden[r, places] = values
    return DivergenceBatch(
        plain.tokens, plain.positions, plain.subtree_end, plain.parent,
        mask=plain.scatter([True] * len(chosen), bool),
        weights=plain.scatter([weight for _, weight in chosen]),
        teacher_hidden=teacher_hidden,
    )  # fmt: skip


class Scorer(Protocol):
    """Scores packed tokens under some parameters."""

    def __call__(self, packed: Packed, /) -> np.ndarray:
        """Log-probs `[rows, length]` float32 in nats."""
        ...


def score_views(
    frozen: Scorer, rows: Sequence[Row], packed: Packed, views: Sequence[View], *, length: int, every_row: bool = True
) -> dict[View, np.ndarray]:
    """Log-probs of every row's response under its views, laid out like the batch.

    One pass of the frozen student serves the plain context and all privileged ones: they share their trees.

    Args:
        frozen: scores under θ₀.
        rows: as given to `batch_rows`.
        packed: as returned by it.
        views: privileged views wanted. A row that lacks one gets its plain log-probs there.
        length: tokens of a row of the scoring batch.
        every_row: score the plain context of rows without any view too; otherwise all their entries are 0.

    Returns:
        `[rows, length]` float32 for "plain" and every view, 0 outside the responses.
    """
    seen = [bool(row.views.keys() & set(views)) for row in rows]
    wanted = [(i, PLAIN, row.context_ids) for i, row in enumerate(rows) if every_row or seen[i]]
    wanted += [(i, view, row.views[view]) for i, row in enumerate(rows) for view in views if view in row.views]
    # Branches must follow the row they hang off, or a tree could fill up before they are hung.
    wanted.sort(key=lambda item: item[0])
    scored = pack(
        [Scored(rows[i].trajectory, context, rows[i].response_ids) for i, _, context in wanted], length=length
    )
    by_view: Mapping[tuple[int, View], Any] = {
        (i, view): values for (i, view, _), values in zip(wanted, scored.gather(frozen(scored)), strict=True)
    }
    return {
        view: packed.scatter([by_view.get((i, view), by_view.get((i, PLAIN), 0.0)) for i in range(len(rows))])
        for view in (PLAIN, *views)
    }
