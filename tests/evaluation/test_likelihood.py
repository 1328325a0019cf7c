"""Likelihoods of actions, against log-probs taken one response at a time without packing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripted_play import said
from toy_student import Toy, make_toy

from pivotopd_jax.evaluation.likelihood import action_log_probs, before_action, self_teacher_divergence
from pivotopd_jax.learner.learner import Learner, make_mesh, make_optimizer
from pivotopd_jax.models.qwen3 import apply, compute_logits
from pivotopd_jax.prompts.hints import action_hint


@pytest.fixture(scope="module")
def toy() -> Toy:
    return make_toy()


@pytest.fixture(scope="module")
def run(toy: Toy) -> Any:
    optimizer = make_optimizer(1e-3, warmup_steps=1, max_grad_norm=1.0)
    learner = Learner(toy.graphdef, optimizer, make_mesh(), micro_batch_tokens=512)
    config = SimpleNamespace(learner=SimpleNamespace(row_tokens=256))
    return SimpleNamespace(world=toy.world, prompter=toy.prompter, learner=learner, config=config, policy=toy.sampler())


def alone(toy: Toy, context: np.ndarray, response: np.ndarray) -> float:
    ids = jnp.concatenate([context, response])[None]
    causal = jnp.tril(jnp.ones((ids.shape[1],) * 2, bool))[None]
    hidden, _ = apply(toy.graphdef, toy.params, ids, jnp.arange(ids.shape[1])[None], causal)
    log_p = jax.nn.log_softmax(compute_logits(toy.graphdef, toy.params, hidden))[0, len(context) - 1 : -1]
    return float(log_p[jnp.arange(len(response)), jnp.asarray(response)].sum())


def test_where_an_action_begins(toy):
    plain, thoughtful, silent = said(toy, ["left", "!Nothing happens.<action>left</action>", "!left"]).turns
    assert before_action(toy.prompter, plain) == (0, "")
    count, rest = before_action(toy.prompter, thoughtful)
    assert toy.prompter.chat.decode(thoughtful.response_ids[:count]) + rest == thoughtful.response.partition("<")[0]
    assert count > 0
    assert before_action(toy.prompter, silent) == (0, "")


def test_both_actions_follow_the_same_thought(toy, run):
    """The prize lies in cell 1; the oracle goes right there, and grabs it."""
    played = said(toy, ["right", "!Nothing happens.<action>right</action>"])
    taken, oracle = action_log_probs(run, toy.params, [(played, 0), (played, 1)])
    first, second = played.turns
    assert taken[0] == pytest.approx(alone(toy, first.context_ids, first.response_ids), rel=1e-4)
    assert oracle[0] == pytest.approx(taken[0], rel=1e-6)
    count, rest = before_action(toy.prompter, second)
    context = np.concatenate([second.context_ids, second.response_ids[:count]])
    assert taken[1] == pytest.approx(alone(toy, context, second.response_ids[count:]), rel=1e-4)
    chat = toy.prompter.chat
    grab = chat.encode(f"{rest}<action>grab</action>{chat.template.end}")
    assert oracle[1] == pytest.approx(alone(toy, context, grab), rel=1e-4)


def test_the_divergence_is_the_log_ratio_of_what_the_hinted_student_says(toy, run):
    played = said(toy, ["right", "right"])
    asked: list[Any] = []

    def sample(requests, temperature):
        asked.extend(requests)
        return toy.sampler().sample(requests, temperature=temperature)

    spied = SimpleNamespace(**{**vars(run), "policy": SimpleNamespace(sample=sample)})
    found = self_teacher_divergence(spied, toy.params, [(played, 1)], seed=0)  # type: ignore[arg-type]
    turn = played.turns[1]
    hinted = toy.prompter.context(played.turns[:1], turn.observation, action_hint("grab"))
    (request,) = asked
    np.testing.assert_array_equal(request.context_ids, hinted)
    (answer,) = toy.sampler().sample([request], temperature=1.0)
    expected = alone(toy, hinted, answer.response_ids) - alone(toy, turn.context_ids, answer.response_ids)
    assert found == pytest.approx([expected], rel=1e-3, abs=1e-4)
