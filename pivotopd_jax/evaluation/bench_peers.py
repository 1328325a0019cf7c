"""Our sampler, learner and rollout beside their peers', on the same weights, prompts and rows, in one run.

Peers live in environments of their own (launch/peers.sh); each is measured in a process there, by a script of
evaluation/peers/ whose head says what its span holds. One that cannot be measured is reported with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pivotopd_jax.evaluation import bench_ours
from pivotopd_jax.evaluation.lock_step import bench_rollout
from pivotopd_jax.evaluation.peer_cases import SIZES, Case, make_case, parameter_count
from pivotopd_jax.evaluation.peer_data import transcript_arrays
from pivotopd_jax.run import make_run

SCRIPTS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Peer:
    """A script that measures peers.

    Attributes:
        name: of the environment that it runs in, as launch/peers.sh takes it.
        script: in evaluation/peers/.
        arguments: after the directory of the case.
    """

    name: str
    script: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """What is measured, by us and by whom else.

    Attributes:
        ours: seconds of ours on a case.
        peers: the others.
        goal: how many times as fast as each of them we want to be.
    """

    ours: Callable[[Case], dict[str, Any]]
    peers: tuple[Peer, ...]
    goal: float


MEASUREMENTS = {
    "sampling": Measurement(
        bench_ours.sampling, (Peer("tunix", "tunix_sampling.py"), Peer("trl", "transformers_sampling.py")), 2.0
    ),
    "grpo": Measurement(
        bench_ours.grpo, (Peer("tunix", "tunix_grpo.py"), Peer("trl", "trl_training.py", ("grpo",))), 1.5
    ),
    "distillation": Measurement(bench_ours.distillation, (Peer("trl", "trl_training.py", ("distillation",)),), 1.5),
}
ROLLOUT_GOAL = 3.0


def bench_peers(
    config: Any,
    workdir: Path,
    venvs: Path,
    *,
    data: str | None,
    rounds: int,
    threads: int,
    sizes: Sequence[str] = tuple(SIZES),
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """All measurements.

    Args:
        config: whose rollout is measured; a mini student is made, or found, beside `workdir`.
        workdir: of that run.
        venvs: directory of the peers' environments.
        data: directory of real ALFWorld games whose transcripts are trained on; None for generated ones.
        rounds: measured repetitions of everything; their median counts.
        threads: that every program may use.
        sizes: names of `SIZES`.
        report: told in one line what has been measured.

    Raises:
        ValueError: there is no such size.
    """
    if unknown := set(sizes) - set(SIZES):
        raise ValueError(f"there is no size {', '.join(sorted(unknown))}; expected some of {', '.join(SIZES)}")
    found: dict[str, Any] = {"machine": machine(threads), "versions": {"ours": our_versions()}}
    found["rollout"] = rollout(config, workdir, rounds)
    report(json.dumps({"rollout": found["rollout"]}))
    for size in sizes:
        with TemporaryDirectory() as directory:
            case = make_case(SIZES[size], Path(directory), data=data, rounds=rounds, threads=threads)
            found[size] = {"parameters": parameter_count(case), "transcripts": described(case)}
            for name, measurement in MEASUREMENTS.items():
                found[size][name] = measured(measurement, case, Path(directory), venvs, found["versions"])
                report(json.dumps({size: {name: found[size][name]}}))
    return found


def machine(threads: int) -> dict[str, Any]:
    """What the figures depend on besides the programs; the load is that of the last minute before."""
    return {"threads": threads, "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}


def our_versions() -> dict[str, str]:
    """Versions of the packages that our side runs on."""
    return {name: version(name) for name in ("jax", "flax", "optax")}


def rollout(config: Any, workdir: Path, rounds: int) -> dict[str, Any]:
    """The rollouts of a step, ours and in lock-step; see `bench_rollout`."""
    found = bench_rollout(make_run(config, workdir, report=lambda _: None), rounds=rounds)
    return {**found, **compared(found, ROLLOUT_GOAL)}


def described(case: Case) -> dict[str, Any]:
    """The transcripts that are trained on: how many, and their tokens with and without padding."""
    arrays = transcript_arrays(case.rows)
    lengths = arrays["prompt_mask"].sum(axis=1) + arrays["completion_mask"].sum(axis=1)
    return {
        "count": len(lengths),
        "turns": len(case.rows),
        "shortest": int(lengths.min()),
        "mean": float(lengths.mean()),
        "longest": int(lengths.max()),
        "padded_tokens": arrays["prompts"].size + arrays["completions"].size,
        "trained_tokens": int(arrays["trained"].sum()),
    }


def measured(
    measurement: Measurement, case: Case, directory: Path, venvs: Path, versions: dict[str, Any]
) -> dict[str, Any]:
    """Ours and the peers' figures, and how many times as fast ours is; adds the peers' versions to `versions`."""
    found = {"ours": measurement.ours(case)}
    for peer in measurement.peers:
        results = run_peer(peer, directory, venvs, case.settings["threads"])
        versions.setdefault(peer.name, {}).update(results.pop("versions", {}))
        found |= results
    if measurement.ours is bench_ours.sampling:
        for spans in found.values():
            _add_rates(spans, case)
        parts = {span: {name: each[span] for name, each in found.items() if span in each} for span in found["ours"]}
        return {**found, **{span: compared(part, measurement.goal) for span, part in parts.items()}}
    return {**found, **compared(found, measurement.goal)}


def run_peer(peer: Peer, case: Path, venvs: Path, threads: int) -> dict[str, Any]:
    """What `peer` measured on the case in directory `case`, or why it did not."""
    python = venvs / peer.name / "bin" / "python"
    if not python.exists():
        return {peer.name: {"missing": f"no {python}; install it with: bash launch/peers.sh {peer.name} {venvs}"}}
    command = [str(python), str(SCRIPTS / peer.script), str(case), *peer.arguments]
    done = subprocess.run(command, env=_environment(threads), capture_output=True, text=True, check=False)
    if done.returncode:
        return {peer.name: {"failed": f"{peer.script}: {done.stderr[-1500:]}"}}
    return json.loads(done.stdout.splitlines()[-1])


def _environment(threads: int) -> dict[str, str]:
    """Of a peer's process: its own packages, the CPU, as many threads as we use."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    each = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return {**kept, **dict.fromkeys(each, str(threads)), "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", **offline}


def compared(found: dict[str, Any], goal: float) -> dict[str, Any]:
    """How many times as fast "ours" is as each of the others that were measured, by both clocks."""
    others = {name: each for name, each in found.items() if name != "ours" and "seconds" in _mapping(each)}
    times = {name: each["seconds"] / found["ours"]["seconds"] for name, each in others.items()}
    processor = {name: each["processor_seconds"] / found["ours"]["processor_seconds"] for name, each in others.items()}
    return {"times_as_fast": times, "times_as_fast_by_processor_time": processor, "goal": goal}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _add_rates(spans: dict[str, Any], case: Case) -> None:
    """Adds the responses' tokens per second to each span."""
    size = case.settings["size"]
    tokens = {"single_turn": size["new_tokens"], "multi_turn": size["turns"] * size["turn_tokens"]}
    for name, count in tokens.items():
        if name in spans:
            spans[name]["tokens_per_second"] = count * size["prompts"] / spans[name]["seconds"]
