"""Measures how fast things are: `bench.py --suite=envs [--data=DIR] [--seconds=5]`; prints JSON, last line complete.

--suite=envs: ALFWorld on one core: steps a second of a random policy (lists of admissible commands included), snapshot
and restore in microseconds, L(s) in milliseconds from the start of held-out games and from recorded states amid games.
"""

from __future__ import annotations

import argparse
import json
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=["envs"], required=True)
    parser.add_argument(
        "--data", default=os.environ.get("ALFWORLD_DATA"), help="real ALFWorld games ($ALFWORLD_DATA); else generated"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="how long the random policy plays")
    arguments = parser.parse_args()
    from pivotopd_jax.evaluation.bench_envs import bench_alfworld

    try:
        print(json.dumps({"alfworld": bench_alfworld(arguments.data, arguments.seconds)}))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
