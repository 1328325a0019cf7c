"""Our side of what is measured beside peers: sampling, a GRPO step, a step of distillation, on a case in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from pivotopd_jax.evaluation.bench_packing import longest
from pivotopd_jax.evaluation.peer_cases import Case
from pivotopd_jax.evaluation.peers.measuring import measure, multi_turn, unpad
from pivotopd_jax.learner.learner import DivergenceTerm, Learner, make_mesh, make_optimizer
from pivotopd_jax.learner.objective import UpdateOptions
from pivotopd_jax.losses.divergences import reverse_kl
from pivotopd_jax.methods.method import Divergence
from pivotopd_jax.records import TEACHER, TokenBatch
from pivotopd_jax.rollout.packing import Packed
from pivotopd_jax.rollout.rows import batch_rows, divergence_batch
from pivotopd_jax.sampling.engine import Sampler
from pivotopd_jax.sampling.policy import Request


def sampling(case: Case) -> dict[str, Any]:
    """Seconds of an answer to every prompt, and of all turns of the multi-turn case.

    A span is from ids to ids, with the log-probs of the answers; the cache is empty at its start.
    """
    settings, rounds = case.settings["sampling"], case.settings["rounds"]
    prompts = unpad(case.prompts["tokens"], case.prompts["lengths"])
    single = Answers(case, max(map(len, prompts)), settings["new_tokens"])
    turns = Answers(case, settings["capacity"], settings["turn_tokens"])
    return {
        "single_turn": measure(lambda: single.fresh()(prompts, settings["new_tokens"]), rounds=rounds),
        "multi_turn": measure(lambda: multi_turn(turns.fresh(), case.prompts, settings["turn_tokens"]), rounds=rounds),
    }


class Answers:
    """Answers prompts with our sampler, at temperature 1 and without an early end."""

    def __init__(self, case: Case, capacity: int, new_tokens: int):
        self.sampler = Sampler(
            case.config, case.graphdef, case.student, slots=len(case.prompts["tokens"]), capacity=capacity,
            max_new=new_tokens, end_ids=(),
        )  # fmt: skip

    def fresh(self) -> Answers:
        """Itself, with an empty cache."""
        self.sampler.load(self.sampler.params)
        return self

    def __call__(self, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
        assert new_tokens == self.sampler.max_new
        requests = [Request(i, np.asarray(ids, np.int32), i) for i, ids in enumerate(prompts)]
        return [sample.response_ids.tolist() for sample in self.sampler.sample(requests, temperature=1.0)]


class Step:
    """One optimizer step after another on the rows of a case."""

    def __init__(self, case: Case):
        learning = case.settings["learning"]
        self.case, self.length = case, longest(case.rows)
        optimizer = make_optimizer(
            learning["learning_rate"], warmup_steps=1, max_grad_norm=learning["max_grad_norm"], weight_decay=0.0
        )
        options = UpdateOptions(clip_low=learning["clip"], clip_high=learning["clip"], kl_coefficient=0.0)
        tokens = case.settings["size"]["micro_batch_tokens"]
        self.learner = Learner(case.graphdef, optimizer, make_mesh(), micro_batch_tokens=tokens, options=options)
        self.state = self.learner.init(case.student)
        self.metrics: dict[str, float] = {}

    def batch(self) -> tuple[TokenBatch, Packed]:
        """The rows, packed as token trees."""
        return batch_rows(self.case.rows, length=self.length)

    def grpo(self) -> None:
        """Packing, old log-probs in a pass of their own, loss, backward, clip and AdamW."""
        batch, packed = self.batch()
        old = self.learner.score(self.state.params, packed)
        batch = batch._replace(advantages=batch.reward_advantages, old_log_probs=old)
        self.state, self.metrics = self.learner.update(self.state, batch)

    def distillation(self) -> None:
        """Packing, the teacher's forward pass, reverse KL over the whole vocabulary, backward, clip and AdamW.

        As in training with `opd` and `full_vocabulary`: the policy's objective, here 0, is computed beside it.
        """
        wanted = Divergence(reverse_kl, 1.0, ("rollout",), TEACHER)
        given = divergence_batch(
            lambda packed: self.learner.hidden(self.case.teacher, packed), self.case.rows, wanted, length=self.length
        )
        assert given is not None
        term = DivergenceTerm(given, self.case.graphdef, self.case.teacher, reverse_kl)
        self.state, self.metrics = self.learner.update(self.state, self.batch()[0], on_policy=True, divergence=term)


def grpo(case: Case) -> dict[str, Any]:
    """Seconds of a GRPO step, and the tokens it held, padding included."""
    step = Step(case)
    return {**measure(step.grpo, rounds=case.settings["rounds"]), **_held(step)}


def distillation(case: Case) -> dict[str, Any]:
    """Seconds of a step of distillation, and the tokens it held, padding included."""
    step = Step(case)
    return {**measure(step.distillation, rounds=case.settings["rounds"]), **_held(step)}


def _held(step: Step) -> dict[str, Any]:
    return {"tokens": step.batch()[0].tokens.size, "micro_batch_tokens": step.learner.micro_batch_tokens}
