"""Training seeds of one policy are put together, by hand; what is no seed of it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pivotopd_jax.evaluation.study import Continued, check_seeds, judged, policies, study_table


def continued(won: list[list[list[int]]], probability: list[list[float]], divergence: list[list[float]]) -> Continued:
    """Every continuation takes two turns where the oracle would take one."""
    array = np.asarray(won, bool)
    nats, kl = np.log(probability), np.asarray(divergence)
    return Continued(array, np.full(array.shape, 2), np.ones(array.shape[1], int), nats, nats, {0: kl, 1: kl})


def test_each_mistake_counts_by_its_mean_over_training_seeds():
    base = continued([[[0, 0], [1, 0], [1, 1]]], [[0.5, 0.5, 0.5]], [[1, 2, np.nan]])
    policy = continued(
        [[[1, 0], [0, 0], [1, 1]], [[1, 1], [1, 1], [1, 1]]],
        [[0.1, 0.2, 0.3], [0.3, 0.4, 0.5]],
        [[1, 3, np.nan], [3, 5, np.nan]],
    )
    found = judged(policy, base)
    assert (found.recovered, found.continuations) == (9, 12)
    assert found.by_seed == [0.5, 1.0]
    assert (found.better, found.worse, found.same) == (1, 0, 2)  # 3/4 over 0, 2/4 as 1/2, 4/4 as 2/2
    assert found.recovery
    assert (found.recovery.value, found.recovery.units) == (0.75, 3)
    assert found.over_base
    assert found.over_base.value == 0.25
    assert (found.turns, found.least_turns, found.within) == (2, 1, [0, 0, 0.75])
    assert found.mistake_probability
    assert found.mistake_probability.value == pytest.approx(0.3)  # probabilities are averaged, not their logarithms
    assert found.divergence[0]
    assert (found.divergence[0].value, found.divergence[0].units) == (3, 2)
    assert "] (50.0 100.0) |" in study_table({"policy": found})


def test_runs_are_grouped_by_what_stands_before_their_seed():
    runs = [Path("a/grpo-0"), Path("b/qwen3-grpo"), Path("a/grpo-12"), Path("c/opsd")]
    assert policies(runs) == {"grpo": [runs[0], runs[2]], "qwen3-grpo": [runs[1]], "opsd": [runs[3]]}
    for unusable in (["a/grpo", "b/grpo"], ["a/base"], ["a/base-0"]):
        with pytest.raises(ValueError, match="last names must differ, and 'base' is the base itself"):
            policies(map(Path, unusable))


def test_what_differs_in_more_than_the_seed_is_not_one_policy():
    def trained(seed: int, rate: float) -> dict[str, Any]:
        return {"configuration": {"seed": seed, "ppo": {"learning_rate": rate}}, "steps": 1}

    check_seeds("grpo", [trained(0, 0.1), trained(1, 0.1)])
    with pytest.raises(ValueError, match=r"grpo-\* .* differ in \(ppo\.learning_rate: 0\.1 → 0\.2\); rename one"):
        check_seeds("grpo", [trained(0, 0.1), trained(1, 0.2)])
    with pytest.raises(ValueError, match=r"but theirs are \[3, 3\]"):
        check_seeds("grpo", [trained(3, 0.1), trained(3, 0.1)])
