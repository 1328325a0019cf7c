"""Measures how fast things are: `bench.py --suite=NAME [--data=DIR] [--webshop=DIR]`; prints JSON, last line complete.

--suite=envs: ALFWorld and WebShop on one core: steps a second of a random policy (lists of admissible actions
included), snapshot and restore in microseconds, L(s) in milliseconds from the start of held-out tasks and from recorded
states amid ALFWorld games; new searches a second, and megabytes that loading the catalogue takes.
--suite=catalogue: a synthetic WebShop catalogue of the full size: seconds to make it, new searches a second, megabytes
that a process has to itself.
--suite=passages: synthetic passages as of Wikipedia: seconds to index 100,000 of them, new searches a second,
megabytes that a process has to itself.
"""

from __future__ import annotations

import argparse
import json
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=["envs", "catalogue", "passages"], required=True)
    parser.add_argument(
        "--data", default=os.environ.get("ALFWORLD_DATA"), help="real ALFWorld games ($ALFWORLD_DATA); else generated"
    )
    parser.add_argument(
        "--webshop", default=os.environ.get("WEBSHOP_DATA"), help="WebShop's own files ($WEBSHOP_DATA); else generated"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="how long the random policy plays")
    parser.add_argument("--products", type=int, help="size of the synthetic catalogue; by default WebShop's")
    parser.add_argument("--passages", type=int, help="number of synthetic passages; by default a million")
    arguments = parser.parse_args()
    from pivotopd_jax.evaluation.bench_catalogue import FULL_SIZE, bench_catalogue
    from pivotopd_jax.evaluation.bench_envs import bench_alfworld
    from pivotopd_jax.evaluation.bench_passages import PASSAGES, bench_passages
    from pivotopd_jax.evaluation.bench_webshop import bench_webshop

    try:
        if arguments.suite == "catalogue":
            print(json.dumps({"catalogue": bench_catalogue(arguments.products or FULL_SIZE)}))
            return 0
        if arguments.suite == "passages":
            print(json.dumps({"passages": bench_passages(arguments.passages or PASSAGES)}))
            return 0
        alfworld = bench_alfworld(arguments.data, arguments.seconds)
        print(json.dumps({"alfworld": alfworld, "webshop": bench_webshop(arguments.webshop, arguments.seconds)}))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
