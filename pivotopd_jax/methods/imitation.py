"""Learning from a teacher's actions by cross-entropy; methods differ in the states at which the teacher is asked.

Multi-turn DAgger and its AggreVaTe-style relative are arXiv 2605.12913. There an iteration collects all its data and
then trains for some epochs; here, as everywhere in this package, every step collects and then trains once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pivotopd_jax.losses.credit import dagger_beta
from pivotopd_jax.methods.method import Behaviour, Labels, Method
from pivotopd_jax.records import TokenBatch, View

ITERATIONS = 5


def shape_imitation(batch: TokenBatch, views: Mapping[View, Any]) -> Any:
    """1 on every trained token: with the "likelihood" objective, cross-entropy. `[rows, length]` float32."""
    del views
    return 1.0 * batch.mask


def sft(knobs: Any) -> Method:
    """Cross-entropy on whole episodes of the teacher."""
    del knobs
    return Method(
        "sft",
        shape=shape_imitation,
        behaviour=Behaviour("expert"),
        labels=Labels(),
        rollouts=False,
        update={"objective": "likelihood", "kl_coefficient": 0.0},
    )


def dagger(knobs: Any) -> Method:
    """The teacher plays a turn with a probability that falls, and labels every state visited (arXiv 2605.12913)."""
    mixture = Behaviour("mixture", dagger_beta, ITERATIONS)
    return replace(sft(knobs), name="dagger", behaviour=mixture, replay=knobs.replay)


def aggrevate(knobs: Any) -> Method:
    """The student plays some turns, then the teacher to the end; labels from there on (arXiv 2605.12913)."""
    handed_over = Behaviour("switch", lambda iteration: 1 - dagger_beta(iteration), ITERATIONS)
    return replace(sft(knobs), name="aggrevate", behaviour=handed_over, labels=Labels("teacher"), replay=knobs.replay)
