"""How likely a student finds its own action and the oracle's, and how far it is from its hinted self.

Log-probs are of actions, not of the thinking before them: whatever the student thought stands in the context, and the
oracle's action is scored in the place of the student's own. All in nats, under the raw logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pivotopd_jax.learner.learner import Learner
from pivotopd_jax.prompts.hints import action_hint
from pivotopd_jax.prompts.prompter import Prompter
from pivotopd_jax.records import Trajectory, Turn
from pivotopd_jax.rollout.packing import Scored, pack
from pivotopd_jax.run import Run
from pivotopd_jax.sampling.policy import Request, request_seed

Point = tuple[Trajectory, int]
"""A trajectory and one of its turns, 0-based."""


def response_log_probs(learner: Learner, params: Any, responses: Sequence[Scored], *, length: int) -> np.ndarray:
    """Log-prob of each whole response under the student with `params`, `[responses]` float64 nats.

    Args:
        learner: of the student.
        params: what it trains.
        responses: with their contexts.
        length: tokens of a packed row.
    """
    packed = pack(responses, length=length)
    return np.asarray([np.sum(values, dtype=np.float64) for values in packed.gather(learner.score(params, packed))])


def before_action(prompter: Prompter, turn: Turn) -> tuple[int, str]:
    """How many whole tokens of a response come before its action, and what of the text before it they leave out."""
    if turn.action is None:
        return 0, ""
    opening = prompter.wording.format(turn.action).partition(">")[0] + ">"
    text = prompter.chat.decode(turn.response_ids)
    place = max(text.rfind(opening), 0)
    count = 0
    while len(prompter.chat.decode(turn.response_ids[: count + 1])) <= place and count < len(turn.response_ids):
        count += 1
    return count, text[len(prompter.chat.decode(turn.response_ids[:count])) : place]


def action_log_probs(run: Run, params: Any, points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
    """Log-probs of the action taken and of the oracle's at each point, two times `[points]` float64 nats.

    A response without an action counts as a whole. nan where the oracle has no action.
    """
    taken, best = [], []
    for index, (trajectory, place) in enumerate(points):
        turn = trajectory.turns[place]
        count, rest = before_action(run.prompter, turn)
        context = np.concatenate([turn.context_ids, turn.response_ids[:count]])
        taken.append(Scored(index, context, turn.response_ids[count:]))
        action = run.world.planner.next_action(turn.snapshot)
        wording, chat = run.prompter.wording, run.prompter.chat
        best.append(action and Scored(index, context, chat.encode(rest + wording.format(action) + chat.template.end)))
    named = [index for index, scored in enumerate(best) if scored]
    found = _scored(run, params, [*taken, *(scored for scored in best if scored)])
    oracle = np.full(len(points), np.nan)
    oracle[named] = found[len(points) :]
    return found[: len(points)], oracle


def self_teacher_divergence(run: Run, params: Any, points: Sequence[Point], *, seed: int) -> np.ndarray:
    """Forward KL(hinted student ‖ student) of the response at each point, `[points]` float64 nats.

    The hint names the oracle's action. One response is sampled from the hinted student at temperature 1, and its
    log-ratio is an unbiased estimate; single ones may be negative. `run.policy` must hold `params`. nan where the
    oracle has no action.
    """
    divergence = np.full(len(points), np.nan)
    named, hinted, plain = [], [], []
    for index, (trajectory, place) in enumerate(points):
        turn = trajectory.turns[place]
        action = run.world.planner.next_action(turn.snapshot)
        if action is not None:
            named.append(index)
            hinted.append(run.prompter.context(trajectory.turns[:place], turn.observation, action_hint(action)))
            plain.append(turn.context_ids)
    requests = [Request(i, ids, request_seed(seed, i)) for i, ids in zip(named, hinted, strict=True)]
    said = [sample.response_ids for sample in run.policy.sample(requests, temperature=1.0)]
    contexts = [*zip(named, hinted, said, strict=True), *zip(named, plain, said, strict=True)]
    found = _scored(run, params, [Scored(*item) for item in contexts])
    divergence[named] = found[: len(named)] - found[len(named) :]
    return divergence


def _scored(run: Run, params: Any, responses: Sequence[Scored]) -> np.ndarray:
    return response_log_probs(run.learner, params, responses, length=run.config.learner.row_tokens)
