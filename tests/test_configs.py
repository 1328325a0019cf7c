"""The configuration files: the papers' settings, and a mini preset of each world that trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_train import load_config, shrink

from pivotopd_jax.recording import read_metrics
from pivotopd_jax.summary import summarise_run
from pivotopd_jax.train import train

# arXiv 2609.40285, table of settings:
# m, K, w_rec, tasks a step, PPO mini-batch, prompt tokens, turns, history, validation tasks.
PAPER = {
    "alfworld": (5, 2, 1.0, 16, 128, 2048, 30, 5, 128),
    "webshop": (5, 1, 0.25, 16, 64, 4096, 15, 2, 128),
    "search_qa": (2, 1, 0.125, 64, 256, 4096, 4, 4, 256),
}


@pytest.mark.parametrize("world", PAPER)
def test_paper_presets_hold_the_papers_settings(world):
    c = load_config("paper", world)
    found = (
        c.knobs.max_actions, c.knobs.recovery_depth, c.knobs.recovery_weight, c.tasks_per_step,
        c.ppo.mini_batch, c.prompt.prompt_tokens, c.max_turns, c.prompt.history_turns, c.evaluate.tasks,
    )  # fmt: skip
    assert found == PAPER[world]
    assert (c.rollouts, c.steps, c.temperature, c.eval_temperature) == (8, 160, 1.0, 0.4)
    assert (c.knobs.preventive_weight, c.knobs.lesson_weight, c.knobs.recovery_clip) == (0.001, 0.001, 5.0)
    assert (c.ppo.learning_rate, c.ppo.kl_coefficient, c.ppo.clip_low, c.ppo.max_grad_norm) == (1e-6, 0.01, 0.2, 1.0)
    assert (c.teacher.kind, c.prompt.style, c.prompt.response_tokens) == ("served", "windowed", 512)


def test_the_swe_preset_holds_the_papers_setting():
    """Its own: one gold action, no recovery turns, rollouts at the temperature of the paper's section."""
    c = load_config("paper", "swe")
    found = (c.knobs.max_actions, c.knobs.recovery_depth, c.knobs.preventive_weight, c.tasks_per_step, c.rollouts)
    assert found == (1, 0, 0.1, 32, 16)
    assert (c.max_turns, c.prompt.prompt_tokens, c.temperature, c.ppo.learning_rate) == (100, 196_608, 0.6, 3e-6)
    assert (c.teacher.kind, c.world.actions) == ("served", "bash")


@pytest.mark.parametrize("world", [*PAPER, "swe"])
def test_an_unknown_preset_is_named(world):
    with pytest.raises(ValueError, match=rf"configs/{world}.py has no preset 'maxi'; choose one of paper, mini"):
        load_config("maxi", world)


def test_webshop_trains_and_ends_with_its_score(tmp_path):
    """All six stages on generated shops; what counts as reward is the whole success, what is shown is the score too."""
    config: Any = shrink(load_config("mini", "webshop"), "pivotopd", steps=1)
    run, state = train(config, tmp_path / "run")
    (line,) = read_metrics(tmp_path / "run")
    assert line["train/pivotal_turns"] > 0
    assert 0 <= line["train/success"] <= line["train/score"] <= 1
    result = summarise_run(run, state.params, tmp_path / "run")
    assert np.isfinite(result["after"]["score"])
    assert list(result["after"]["by_kind"]) == ["WebShop"]


def test_search_qa_trains_on_generated_questions(tmp_path):
    """All six stages in an open action space; what is named to the student are searches and answers."""
    config: Any = shrink(load_config("mini", "search_qa"), "pivotopd", steps=1)
    run, state = train(config, tmp_path / "run")
    (line,) = read_metrics(tmp_path / "run")
    assert line["train/pivotal_turns"] > 0
    result = summarise_run(run, state.params, tmp_path / "run")
    assert list(result["after"]["by_kind"]) == ["2 hops"]
