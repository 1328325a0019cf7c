"""Tokens and operations of a step, against numbers worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from pivotopd_jax.command_line import load_config
from pivotopd_jax.models.published import PUBLISHED, known_config
from pivotopd_jax.planning.workload import Lengths, Stage, active_parameters, operations, stages

LENGTHS = Lengths(turns=10, prompt=1000, response=100, pivotal=2)


@pytest.mark.parametrize(
    ("student", "billions"),
    # Technical report, arXiv 2505.09388, tables 1 and 2: 1.7B, 8.2B, 3.3B active; embeddings are not counted here.
    [("Qwen/Qwen3-1.7B", 1.72), ("Qwen/Qwen3-8B", 7.57), ("Qwen/Qwen3-30B-A3B", 3.04)],
)
def test_active_parameters_are_those_of_the_report(student, billions):
    assert active_parameters(PUBLISHED[student]) / 1e9 == pytest.approx(billions, abs=0.01)


def test_tokens_of_a_windowed_step():
    config = load_config("configs/webshop.py")  # 16 tasks × 8 rollouts, K = 1, at most 64 recoveries
    found = stages(config, LENGTHS)
    assert list(found) == ["collect", "extend", "score", "update"]
    assert (found["collect"].read, found["collect"].written) == (1280 * 1000, 1280 * 100)
    assert (found["extend"].read, found["extend"].written) == (64 * 1000, 64 * 100)
    assert found["update"].trained == (1280 + 64) * 1100
    assert found["score"].read == 2 * (1280 + 64) * 1100 + (64 + 64) * 1100


def test_a_transcript_is_read_once_and_grpo_extends_nothing():
    config = load_config("configs/webshop.py")
    config.prompt.style, config.method = "transcript", "grpo"
    found = stages(config, LENGTHS)
    assert list(found) == ["collect", "score", "update"]
    assert (found["collect"].read, found["collect"].written) == (128 * 1000, 1280 * 100)
    assert found["update"].trained == 128 * 1000 + 1280 * 100


def test_operations_of_a_token():
    model = dataclasses.replace(
        PUBLISHED["Qwen/Qwen3-8B"], num_layers=1, hidden_size=2, intermediate_size=3, num_heads=4, num_kv_heads=2,
        head_dim=2, vocab_size=5,
    )  # fmt: skip
    # q and o 2 × 8, k and v 2 × 4 each; three matrices of 2 × 3; head 2 × 5.
    assert active_parameters(model) == 16 + 16 + 8 + 8 + 18 + 10
    a_token = 2 * 76 + 4 * 4 * 2 * 7
    assert operations(model, Stage(read=3, context=7), remat=True) == 3 * a_token
    assert operations(model, Stage(trained=3, context=7), remat=False) == 9 * a_token
    assert operations(model, Stage(trained=3, context=7), remat=True) == 12 * a_token


def test_an_unknown_student_is_refused():
    with pytest.raises(ValueError, match=r"no sizes are known of student 'Qwen/Qwen9'; expected a directory"):
        known_config("Qwen/Qwen9")
