"""Methods are data: every name builds, is described by a table, and differs from the others where it should."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pivotopd_jax.methods import METHODS, make_method
from pivotopd_jax.methods.table import methods_table

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "alfworld.py"


@pytest.fixture(scope="module")
def knobs() -> Any:
    spec = importlib.util.spec_from_file_location("alfworld_config", CONFIG)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config("paper").knobs


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_knows_its_name_and_says_in_one_sentence_what_it_is(knobs, name):
    assert make_method(name, knobs).name == name
    assert (METHODS[name].__doc__ or "").strip().endswith(".")


def test_the_table_shows_what_each_stage_does(knobs, capsys):
    Console(width=1500).print(methods_table(knobs))
    text = capsys.readouterr().out
    assert all(name in text for name in METHODS)
    for expected in (
        "named turns, m = 5, gold action",
        "K = 2, hinted sampler",
        "K = 2, plain sampler",
        "clip_high 0.28",
        "kl_divergence × 1 on recovery rows",
        "groups of equal scores dropped",
        "shown 6 skills",
        "mix 0.5 0.25 0.01 at step 0 25 49 of 50",
        "depth by a probe every 8 steps",
        "single offline turns with a mean reward in [0.1, 0.6]",
        "by the student's own vote",
        "gated × 0.01, view lesson",
        "the group's first success",
        "labels at every turns, those of earlier steps too",
    ):
        assert expected in text, expected


def test_ablations_change_one_thing(knobs):
    paper = make_method("pivotopd", knobs)
    changed = {
        "random_turns": ["annotation"],
        "hints_without_gold": ["annotation", "extension"],
        "reverse_kl_recovery": ["extension", "shape"],
        "exact_recovery": ["divergence", "shape"],
    }
    fields = ["annotation", "extension", "views", "divergence", "normalization", "update", "aggregation"]
    for name, expected in changed.items():
        method = make_method(name, knobs)
        found = [f for f in fields if getattr(method, f) != getattr(paper, f)]
        if getattr(method.shape, "keywords", None) != getattr(paper.shape, "keywords", None):
            found.append("shape")
        assert found == expected
