"""What a PivotOPD step costs beside a plain GRPO step, by stage and by recovery depth K, in one run.

Every step starts from the same base and plays the same tasks with the same seeds, so that rollouts cost all of them the
same; methods take turns, so that what slows the machine for a while slows all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from ml_collections import ConfigDict

from pivotopd_jax.offline import prepare
from pivotopd_jax.recording import Recorder
from pivotopd_jax.run import Run, configuration_record, make_run
from pivotopd_jax.train import Progress, train_step

DEPTHS = (0, 1, 2, 3)
STAGES = ("collect", "annotate", "extend", "score", "update")


def bench_step(config: Any, directory: Path, *, rounds: int = 5, depths: Sequence[int] = DEPTHS) -> dict[str, Any]:
    """Median seconds of the stages of a step: GRPO, and PivotOPD with each K of `depths`.

    Args:
        config: of a run; its method and recovery depth are replaced.
        directory: a mini student is made, or found, beside it.
        rounds: measured steps of each, after one that compiles.
        depths: values of K; 0 is the preventive term alone.

    Returns:
        By name ("grpo", "K=0", ...): seconds by stage, "total", and "over_grpo", the median of the ratios to the GRPO
        step on the same tasks.
    """
    runs = {"grpo": _run(config, directory, "grpo", 0)}
    runs |= {f"K={depth}": _run(config, directory, "pivotopd", depth) for depth in depths}
    spent: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    # Each round has other tasks, and so other shapes to compile: they are played once unmeasured.
    for measured in (False, True):
        for step in range(rounds):
            for name, run in runs.items():
                seconds = _seconds_of_a_step(run, step)
                if measured:
                    spent[name].append(seconds)
    totals = {name: [sum(step.values()) for step in steps] for name, steps in spent.items()}
    return {
        name: {
            **{stage: median(step.get(stage, 0.0) for step in steps) for stage in STAGES},
            "total": median(totals[name]),
            "over_grpo": median(a / b for a, b in zip(totals[name], totals["grpo"], strict=True)),
        }
        for name, steps in spent.items()
    }


def _run(config: Any, directory: Path, method: str, depth: int) -> Run:
    config = ConfigDict(config.to_dict())
    config.method, config.knobs.recovery_depth = method, depth
    return prepare(make_run(config, directory, report=lambda _: None), directory)


def _seconds_of_a_step(run: Run, step: int) -> dict[str, float]:
    """One step from the base, which is thrown away."""
    with TemporaryDirectory() as place:
        recorder = Recorder(Path(place), resume_from=0, configuration=configuration_record(run.config))
        recorder.console.quiet = True
        train_step(run, Progress(run.learner.init(run.reference)), step, recorder)
        recorder.close()
        return recorder.seconds
