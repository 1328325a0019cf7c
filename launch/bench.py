"""Measures how fast things are: `bench.py --suite=NAME [options]`; prints JSON, last line complete.

--suite=envs [--data=DIR --webshop=DIR]: ALFWorld and WebShop on one core: steps a second of a random policy (lists of
admissible actions included), snapshot and restore in microseconds, L(s) in milliseconds from the start of held-out
tasks and from recorded states amid ALFWorld games; new searches a second, and megabytes that a loaded catalogue takes.
--suite=step [--config=FILE:preset --workdir=DIR]: seconds of each stage of a step, GRPO and PivotOPD with K = 0 to 3.
--suite=memory [--data=DIR]: logits of Qwen3's vocabulary in chunks against all at once, log-probs and KL with their
gradients: megabytes and seconds; token trees against padded rows: tokens held, seconds of an update. Two minutes.
--suite=peers [--peers=DIR --threads=N]: our sampler, a GRPO step, a step of distillation and a rollout, beside Tunix,
transformers, TRL and lock-step rollouts; peers are installed by launch/peers.sh. Nothing else may run meanwhile.
--suite=lora: gigabytes of arrays that a run with the sizes of Qwen3-1.7B holds, with and without adapters.
--suite=catalogue: a synthetic WebShop catalogue of the full size: seconds to make it, new searches a second, megabytes
that a process has to itself.
--suite=passages: synthetic passages as of Wikipedia: seconds to index 100,000 of them, new searches a second,
megabytes that a process has to itself.
--suite=viewing: a synthetic log of 160 steps of 128 trajectories: seconds to index, list and search it, milliseconds to
serve one trajectory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _envs(arguments: argparse.Namespace) -> Any:
    from pivotopd_jax.evaluation.bench_envs import bench_alfworld
    from pivotopd_jax.evaluation.bench_webshop import bench_webshop

    return {
        "alfworld": bench_alfworld(arguments.data, arguments.seconds),
        "webshop": bench_webshop(arguments.webshop, arguments.seconds),
    }


def _catalogue(arguments: argparse.Namespace) -> Any:
    from pivotopd_jax.evaluation.bench_catalogue import FULL_SIZE, bench_catalogue

    return {"catalogue": bench_catalogue(arguments.products or FULL_SIZE)}


def _passages(arguments: argparse.Namespace) -> Any:
    from pivotopd_jax.evaluation.bench_passages import PASSAGES, bench_passages

    return {"passages": bench_passages(arguments.passages or PASSAGES)}


def _step(arguments: argparse.Namespace) -> Any:
    from pivotopd_jax.command_line import load_config
    from pivotopd_jax.evaluation.bench_step import bench_step

    directory = Path(arguments.workdir).absolute()
    return {"step": bench_step(load_config(arguments.config), directory, rounds=arguments.rounds)}


def _memory(arguments: argparse.Namespace) -> Any:
    from pivotopd_jax.evaluation.bench_memory import bench_head
    from pivotopd_jax.evaluation.bench_packing import bench_packing

    return {"head": bench_head(), "packing": bench_packing(arguments.data)}


def _peers(arguments: argparse.Namespace) -> Any:
    from pivotopd_jax.evaluation.peers.measuring import pin

    pin(arguments.threads)
    from pivotopd_jax.command_line import load_config
    from pivotopd_jax.evaluation.bench_peers import bench_peers

    config = load_config(arguments.config)
    config.method = "grpo"
    found = bench_peers(
        config, Path(arguments.workdir).absolute(), Path(arguments.peers).absolute(), data=arguments.data,
        rounds=arguments.rounds, threads=arguments.threads, sizes=arguments.sizes.split(","), report=print,
    )  # fmt: skip
    return {"peers": found}


def _lora(arguments: argparse.Namespace) -> Any:
    from pivotopd_jax.evaluation.bench_lora import bench_lora

    return {"lora": bench_lora()}


def _viewing(arguments: argparse.Namespace) -> Any:
    from pivotopd_jax.evaluation.bench_viewing import bench_viewing

    return {"viewing": bench_viewing()}


SUITES: dict[str, Callable[[argparse.Namespace], Any]] = {
    "envs": _envs,
    "step": _step,
    "memory": _memory,
    "peers": _peers,
    "lora": _lora,
    "catalogue": _catalogue,
    "passages": _passages,
    "viewing": _viewing,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=SUITES, required=True)
    parser.add_argument(
        "--data", default=os.environ.get("ALFWORLD_DATA"), help="real ALFWorld games ($ALFWORLD_DATA); else generated"
    )
    parser.add_argument(
        "--webshop", default=os.environ.get("WEBSHOP_DATA"), help="WebShop's own files ($WEBSHOP_DATA); else generated"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="how long the random policy plays")
    parser.add_argument("--products", type=int, help="size of the synthetic catalogue; by default WebShop's")
    parser.add_argument("--passages", type=int, help="number of synthetic passages; by default a million")
    parser.add_argument("--config", default="configs/alfworld.py:mini", help="whose step is measured")
    parser.add_argument("--workdir", default="runs/bench", help="beside it a mini student is found, or made")
    parser.add_argument("--rounds", type=int, default=5, help="measured steps of each method, or repetitions")
    parser.add_argument("--peers", default=".venv-peers", help="where launch/peers.sh installed the peers")
    parser.add_argument("--threads", type=int, default=1, help="cores that we and the peers may use")
    parser.add_argument("--sizes", default="mini,larger", help="of the models that are compared with peers")
    arguments = parser.parse_args()
    try:
        print(json.dumps(SUITES[arguments.suite](arguments)))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
