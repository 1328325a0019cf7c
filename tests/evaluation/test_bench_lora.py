"""The arithmetic of memory, against sums made by hand."""

from __future__ import annotations

import pytest

from pivotopd_jax.evaluation.bench_lora import bench_lora
from pivotopd_jax.models.qwen3 import Qwen3Config


def test_a_run_with_adapters_holds_the_base_once():
    found = bench_lora(Qwen3Config(100, 64, 96, 1, 4, 2, 16, 1e6, 1e-6, True, 128), rank=4)
    projections = 64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 96
    others = 100 * 64 + 3 * 64 + 2 * 16
    adapters = 4 * (128 + 2 * 96 + 128 + 3 * 160)
    columns = 64 + 2 * 32 + 64 + 2 * 96 + 64
    moments = 2 * 4e-9  # two moments of four bytes each
    for name, base, trained in (
        ("full", 0, projections + others),
        ("lora", 2 * (projections + others), adapters),
        ("lora_int8", projections + 2 * columns + 2 * others, adapters),
    ):
        held = found[name]
        assert held["base"] == pytest.approx(base / 1e9)
        assert held["trained"] == held["gradient"] == pytest.approx(4 * trained / 1e9)
        assert held["reference"] == pytest.approx(2 * trained / 1e9)
        assert held["optimizer"] == pytest.approx(moments * trained, abs=1e-8)  # and counters of steps
        assert held["total"] == pytest.approx(sum(held[part] for part in held if part != "total"))
