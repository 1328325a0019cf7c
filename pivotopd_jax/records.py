"""The nouns of the project: what a rollout leaves behind and what a learner is fed.

Token ids are kept exactly as they were sampled; nothing downstream ever tokenises a response again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

View = str
"""Name of a context under which the same response is scored: "plain", "reference", "hinted", "lesson", ..."""

PLAIN: View = "plain"
TEACHER: View = "teacher"
"""The plain context under an external teacher's parameters."""

TEACHER_HINTED: View = "teacher_hinted"
"""The hinted context under an external teacher's parameters."""


@dataclass(frozen=True)
class Task:
    """One start state of one environment.

    Attributes:
        id: unique name, stable across processes.
        kind: the column of the result table this task counts in (ALFWorld: its task type).
        source: whatever the environment needs to build the start state.
    """

    id: str
    kind: str
    source: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class Observation:
    """What the student is shown of the world at one turn.

    Attributes:
        text: the environment's words.
        admissible: commands the environment would accept now, sorted; None where the action space is open.
        free_verbs: "search" means that search[anything] would be accepted, too.
    """

    text: str
    admissible: tuple[str, ...] | None = None
    free_verbs: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepResult:
    """What one action led to.

    Attributes:
        observation: shown before the next action.
        reward: the environment's own reward for this action.
        done: the episode is over (won, or ended by the environment; turn limits are the rollout's business).
        won: the task is fully solved.
    """

    observation: Observation
    reward: float
    done: bool
    won: bool


@dataclass(frozen=True, eq=False)
class Turn:
    """One decision of the student: the context it saw, what it said, what came of it.

    Attributes:
        observation: what was shown before this turn.
        context_ids: `[context_length]` int32, the unprivileged prompt.
        response_ids: `[response_length]` int32, exactly as sampled, end token included if one was sampled.
        log_probs: `[response_length]` float32, log-probability in nats of each token under the sampler's policy at
            temperature 1 (raw logits).
        response: decoded text of the response.
        action: the action parsed from it; None when it contains no well-formed one.
        reward: the environment's reward for it.
        accepted: the environment carried the action out (False: nothing happened).
        snapshot: environment state before the action.
        actor: who chose the action; a teacher's response was not sampled and its log_probs are 0.
    """

    observation: Observation
    context_ids: np.ndarray
    response_ids: np.ndarray
    log_probs: np.ndarray
    response: str
    action: str | None
    reward: float
    accepted: bool
    snapshot: Hashable = field(repr=False)
    actor: Literal["student", "teacher"] = "student"


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One episode of one student on one task.

    Attributes:
        task: the start state.
        group: index of its group: rollouts of one group share a start state and are compared with one another.
        turns: decisions in order.
        score: outcome R(τ), before any scaling.
        won: the task was fully solved.
        final: the observation after the last action.
        final_snapshot: environment state after the last action.
    """

    task: Task
    group: int
    turns: tuple[Turn, ...]
    score: float
    won: bool
    final: Observation
    final_snapshot: Hashable = field(repr=False)

    def observation_after(self, turn: int) -> Observation:
        """What the student saw after turn `turn` (0-based)."""
        return self.turns[turn + 1].observation if turn + 1 < len(self.turns) else self.final

    def snapshot_after(self, turn: int) -> Hashable:
        """Environment state after turn `turn` (0-based)."""
        return self.turns[turn + 1].snapshot if turn + 1 < len(self.turns) else self.final_snapshot


@dataclass(frozen=True)
class Note:
    """What a teacher attached to one turn.

    Attributes:
        trajectory: index into the step's trajectories.
        turn: 0-based index of the turn.
        gold_action: the action the teacher names there; None when it names none.
        lesson: a remark in words; None when there is none.
        pivotal: the student's action differs from the gold action (METHODS: the mismatch check).
    """

    trajectory: int
    turn: int
    gold_action: str | None = None
    lesson: str | None = None
    pivotal: bool = False


@dataclass(frozen=True, eq=False)
class RecoveryTurn:
    """One turn of what was tried after a mistake.

    Attributes:
        after: 0-based pivotal turn that the recovery follows.
        named: the action that the teacher named; the response was sampled under a hint that names it.
        played: what was said, and what it was said to; its log_probs are those under the hint.
        result: what was shown after it.
    """

    after: int
    named: str
    played: Turn
    result: Observation


@dataclass(frozen=True, eq=False)
class Row:
    """One response to be scored and trained: a (context, response) pair and where it came from.

    Attributes:
        kind: "rollout" for a turn the student played, "recovery" for a response sampled from the hinted self-teacher,
            "label" for a demonstration.
        trajectory: index of the trajectory the context comes from.
        group: index of that trajectory's group.
        turn: 0-based turn of the response within its trajectory.
        context_ids: `[context_length]` int32, unprivileged: this is the prompt the student is trained under.
        response_ids: `[response_length]` int32.
        views: other contexts `[view_context_length]` int32 under which the same response is scored (never trained).
        reward_advantage: A_RL of the trajectory (rollout rows), 0 for others.
        pivotal: the turn is pivotal, so that its "hinted" view carries a preventive signal.
        recovery: how the response of a recovery row came about.
        sampled_log_probs: `[response_length]` float32, nats, those of the sampler under this context at temperature 1;
            None where the response was not sampled, or under another context.
    """

    kind: Literal["rollout", "recovery", "label"]
    trajectory: int
    group: int
    turn: int
    context_ids: np.ndarray
    response_ids: np.ndarray
    views: Mapping[View, np.ndarray] = field(default_factory=dict)
    reward_advantage: float = 0.0
    pivotal: bool = False
    recovery: RecoveryTurn | None = field(default=None, repr=False)
    sampled_log_probs: np.ndarray | None = field(default=None, repr=False)


class TokenBatch(NamedTuple):
    """Rows of token trees (rollout/packing.py) with what training needs to know of each token.

    All fields are `[rows, length]`. Fields after `parent` concern trained response tokens and are 0 elsewhere.

    Attributes:
        tokens, positions, subtree_end, parent: int32, the trees.
        mask: bool, the token is trained.
        weights: float32, the token's share of the loss; they sum to 1 over a batch.
        advantages: float32, what the method's `shape` made.
        reward_advantages: float32, A_RL of the token's trajectory.
        old_log_probs: float32, nats under θ₀ and the plain context.
        reference_log_probs: float32, nats under the reference policy and the plain context.
        privileged_log_probs: float32, nats under the view that the method's penalty compares with.
        privileged: bool, there is such a view of the token.
        recovery: bool, the token belongs to a recovery row.
        pivotal: bool, the token belongs to a pivotal turn.
        trajectory, turn: int32, where the token comes from.
        sampled: bool, the token was sampled under the plain context.
        sampled_log_probs: float32, nats, those of the sampler then.
    """

    tokens: Any
    positions: Any
    subtree_end: Any
    parent: Any
    mask: Any
    weights: Any
    advantages: Any
    reward_advantages: Any
    old_log_probs: Any
    reference_log_probs: Any
    privileged_log_probs: Any
    privileged: Any
    recovery: Any
    pivotal: Any
    trajectory: Any
    turn: Any
    sampled: Any
    sampled_log_probs: Any


class DivergenceBatch(NamedTuple):
    """Responses whose whole distributions are drawn towards a teacher's, packed as in a `TokenBatch`.

    Attributes:
        tokens, positions, subtree_end, parent: `[rows, length]` int32, the trees of plain contexts and responses.
        mask: `[rows, length]` bool, the response tokens.
        weights: `[rows, length]` float32, each token's share of the loss, the weight of the term included.
        teacher_hidden: `[rows, length, width]` float32, the teacher's last hidden state before each response token: its
            logits, one head away, at a fraction of the memory.
    """

    tokens: Any
    positions: Any
    subtree_end: Any
    parent: Any
    mask: Any
    weights: Any
    teacher_hidden: Any
