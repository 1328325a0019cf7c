"""Counting what came of a panel."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pivotopd_jax.evaluation.evaluate import panel, summarise


def episode(kind: str, won: bool, turns: list[tuple[bool, list[float]]], score: float = 0.0) -> SimpleNamespace:
    played = [SimpleNamespace(accepted=accepted, log_probs=np.asarray(values)) for accepted, values in turns]
    return SimpleNamespace(task=SimpleNamespace(kind=kind), won=won, turns=played, score=max(score, won))


def test_kinds_are_averaged_without_their_weights():
    played = [
        episode("A", True, [(True, [-0.5, -1.0])]),
        episode("A", False, [(False, [-2.0]), (True, [0.0])], score=0.5),
        episode("A", False, [(True, [-0.5])]),
        episode("B", True, [(False, [-1.0])]),
    ]
    result = summarise(played, ("A", "B", "C"))  # type: ignore[arg-type]
    assert result.by_kind == {"A": pytest.approx(1 / 3), "B": 1.0}
    assert (result.success, result.mean_over_kinds) == (0.5, pytest.approx(2 / 3))
    assert result.score == 2.5 / 4
    assert (result.turns, result.rejected) == (1.25, 0.4)
    assert result.nats == pytest.approx((1.5 + 2 + 0 + 0.5 + 1) / 5)


def test_a_panel_is_fixed(toy):
    everything = panel(toy.world, ("train", "test"), 0)
    assert [task.id for task in everything] == [f"{split}-{n}" for split in ("train", "test") for n in range(4)]
    some = panel(toy.world, ("train", "test"), 3)
    assert [task.id for task in some] == [task.id for task in panel(toy.world, ("train", "test"), 3)]
    assert len(set(some)) == 3
    assert some == sorted(some, key=everything.index)
