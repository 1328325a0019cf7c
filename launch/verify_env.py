"""Replays recorded episodes of an environment's official engine in ours; the last line printed is the count as JSON.

    python launch/verify_env.py alfworld --episodes golden_traces.jsonl.xz --data $ALFWORLD_DATA

`steps`, `observation_equal`, `admissible_equal` and `won_equal` count recorded steps; the first text and list of each
episode are counted apart, in `intro_equal`. Exit status 1 if anything differs, 2 if a file is missing or broken.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pivotopd_jax.evaluation.verify import verify_alfworld


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", choices=["alfworld"])
    parser.add_argument("--episodes", required=True, help="recorded episodes, one JSON object a line (.jsonl[.xz|.gz])")
    parser.add_argument("--data", default=os.environ.get("ALFWORLD_DATA"), help="folder of the games ($ALFWORLD_DATA)")
    parser.add_argument("--no-oracle", action="store_true", help="skip comparing L(s) with recorded plan lengths")
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("--data DIR is needed, or the environment variable ALFWORLD_DATA")
    beside_data = Path(arguments.data) / arguments.episodes
    episodes = beside_data if not Path(arguments.episodes).exists() and beside_data.exists() else arguments.episodes
    try:
        agreement = verify_alfworld(episodes, arguments.data, oracle=not arguments.no_oracle)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(agreement.to_json())
    return 0 if agreement.complete else 1


if __name__ == "__main__":
    sys.exit(main())
