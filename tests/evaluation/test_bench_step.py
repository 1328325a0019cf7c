"""The stages of a step are measured for each method from one base. How long they take, no test asks."""

from __future__ import annotations

from pathlib import Path

from test_train import tiny_config

from pivotopd_jax.evaluation import bench_step


def test_every_stage_of_every_method_is_measured(tmp_path, monkeypatch):
    steps = []
    seconds_of_a_step = bench_step._seconds_of_a_step

    def counted(run, step):
        steps.append((run.method.name, run.config.knobs.recovery_depth, step))
        return seconds_of_a_step(run, step)

    monkeypatch.setattr(bench_step, "_seconds_of_a_step", counted)
    found = bench_step.bench_step(tiny_config(), tmp_path / "run", rounds=2, depths=(0, 2))
    assert list(found) == ["grpo", "K=0", "K=2"]
    each = [("grpo", 0), ("pivotopd", 0), ("pivotopd", 2)]
    assert steps == 2 * [(*which, step) for step in range(2) for which in each]
    for row in found.values():
        assert set(row) == {*bench_step.STAGES, "total", "over_grpo"}
        assert row["total"] > row["collect"] > 0
    assert found["grpo"]["over_grpo"] == 1
    assert found["K=2"]["extend"] > found["grpo"]["extend"]


def test_steps_are_compared_on_the_same_tasks(monkeypatch):
    spent = {
        ("grpo", 0): {"collect": 1.0, "update": 2.0}, ("grpo", 1): {"collect": 6.0}, ("grpo", 2): {"collect": 4.0},
        ("K", 0): {"collect": 3.0, "update": 3.0}, ("K", 1): {"collect": 9.0}, ("K", 2): {"collect": 4.0},
    }  # fmt: skip
    monkeypatch.setattr(bench_step, "_run", lambda config, directory, method, depth: "K" if depth else method)
    monkeypatch.setattr(bench_step, "_seconds_of_a_step", lambda run, step: spent[run, step])
    found = bench_step.bench_step(None, Path("runs"), rounds=3, depths=(1,))
    assert (found["grpo"]["collect"], found["grpo"]["update"], found["grpo"]["total"]) == (4.0, 0.0, 4.0)
    assert (found["K=1"]["total"], found["K=1"]["over_grpo"]) == (6.0, 1.5)  # the median of 2, 1.5 and 1
