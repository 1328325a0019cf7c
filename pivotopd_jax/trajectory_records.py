"""Trajectories as plain JSON: what was shown and said, what a teacher noted, what each token was credited with.

`viewing/` reads them; docs/viewing.md lists the keys. Whoever adds one leaves the others as they are: logs are kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pivotopd_jax.prompts.chat import Chat
from pivotopd_jax.records import Note, RecoveryTurn, Row, Trajectory, Turn
from pivotopd_jax.run import Run

DIGITS = 3
"""Significant ones of log-probs and advantages."""


def trajectory_records(
    run: Run,
    trajectories: Sequence[Trajectory],
    notes: Sequence[Note] = (),
    advantages: Iterable[tuple[Row, np.ndarray]] = (),
) -> Iterator[dict[str, Any]]:
    """A record of each of `trajectories`, made when it is asked for.

    Args:
        run: `config.log` says whether prompts and tokens are written.
        trajectories: played.
        notes: on their turns.
        advantages: rows of these trajectories (others are left out), with what their tokens are credited with.
    """
    log, chat = run.config.log, run.prompter.chat
    noted = {(note.trajectory, note.turn): note for note in notes}
    rollouts, recoveries = _by_turn(advantages)
    for index, trajectory in enumerate(trajectories):
        before = ""
        turns = []
        for number, turn in enumerate(trajectory.turns):
            record = turn_record(turn, noted.get((index, number)))
            if log.prompts:
                prompt = chat.decode(turn.context_ids)
                kept = _shared(before, prompt)
                record |= {"prompt_kept": kept, "prompt": prompt[kept:]}
                before = prompt + turn.response
            if log.tokens:
                record |= token_record(turn, chat, rollouts.get((index, number)))
            turns.append(record)
        yield {
            "task": trajectory.task.id,
            "kind": trajectory.task.kind,
            "group": trajectory.group,
            "won": bool(trajectory.won),
            "score": float(trajectory.score),
            "turns": turns,
            "final": trajectory.final.text,
            "recoveries": [_branch(rows, chat, log.tokens) for rows in recoveries.get(index, {}).values()],
        }


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    lengths = range(1, min(len(one), len(other)) + 1)
    return bisect_left(lengths, True, key=lambda length: one[:length] != other[:length])


def turn_record(turn: Turn, note: Note | None = None) -> dict[str, Any]:
    """A turn without its tokens."""
    record = {
        "observation": turn.observation.text,
        "response": turn.response,
        "action": turn.action,
        "accepted": bool(turn.accepted),
        "actor": turn.actor,
        "log_prob": round(float(turn.log_probs.sum()), 4),
    }
    if note is not None:
        record |= {"gold_action": note.gold_action, "lesson": note.lesson, "pivotal": note.pivotal}
    return record


def token_record(turn: Turn, chat: Chat, credited: tuple[Row, np.ndarray] | None) -> dict[str, Any]:
    """The tokens of a response, their log-probs, and their advantages if they are trained."""
    record: dict[str, Any] = {"tokens": chat.pieces(turn.response_ids), "log_probs": _rounded(turn.log_probs)}
    if credited is not None:
        row, advantages = credited
        record |= {"advantages": _rounded(advantages), "reward_advantage": _rounded([row.reward_advantage])[0]}
    return record


def _branch(rows: Sequence[tuple[Row, RecoveryTurn, np.ndarray]], chat: Chat, tokens: bool) -> dict[str, Any]:
    """One recovery: its turns in order."""
    turns = []
    for row, recovery, advantages in rows:
        record = turn_record(recovery.played) | {"named": recovery.named}
        turns.append(record | (token_record(recovery.played, chat, (row, advantages)) if tokens else {}))
    return {"after": rows[0][1].after, "turns": turns, "final": rows[-1][1].result.text}


Credited = tuple[Row, np.ndarray]


def _by_turn(
    advantages: Iterable[Credited],
) -> tuple[Mapping[tuple[int, int], Credited], Mapping[int, Mapping[int, list[tuple[Row, RecoveryTurn, np.ndarray]]]]]:
    """Rollout rows by (trajectory, turn); recovery rows by trajectory and by the turn that they follow."""
    rollouts: dict[tuple[int, int], Credited] = {}
    recoveries: dict[int, dict[int, list[tuple[Row, RecoveryTurn, np.ndarray]]]] = {}
    for row, values in sorted(advantages, key=lambda credited: (credited[0].trajectory, credited[0].turn)):
        if row.kind == "rollout":
            rollouts[row.trajectory, row.turn] = row, values
        elif row.recovery is not None:
            branches = recoveries.setdefault(row.trajectory, {})
            branches.setdefault(row.recovery.after, []).append((row, row.recovery, values))
    return rollouts, {index: dict(sorted(branches.items())) for index, branches in recoveries.items()}


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
