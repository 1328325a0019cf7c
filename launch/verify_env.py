"""Replays recorded episodes of an environment's official engine in ours; the last line printed is the count as JSON.

    python launch/verify_env.py alfworld --episodes golden_traces.jsonl.xz --data $ALFWORLD_DATA
    python launch/verify_env.py webshop --episodes episodes_300.jsonl.gz --data $WEBSHOP_DATA

ALFWorld: `steps`, `observation_equal`, `admissible_equal` and `won_equal` count recorded steps; the first text and list
of each episode are counted apart, in `intro_equal`. WebShop: texts, and the reward of each episode, are compared; one
result page in a hundred and one reward may differ. Exit status 1 if anything else does, 2 if a file is missing or
broken.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pivotopd_jax.evaluation.verify import verify_alfworld
from pivotopd_jax.evaluation.verify_webshop import verify_webshop

VARIABLES = {"alfworld": "ALFWORLD_DATA", "webshop": "WEBSHOP_DATA"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", choices=list(VARIABLES))
    parser.add_argument("--episodes", required=True, help="recorded episodes, one JSON object a line (.jsonl[.xz|.gz])")
    parser.add_argument("--data", help="folder of the environment's files ($ALFWORLD_DATA, $WEBSHOP_DATA)")
    parser.add_argument("--no-oracle", action="store_true", help="ALFWorld: skip comparing L(s) with recorded plans")
    arguments = parser.parse_args()
    variable = VARIABLES[arguments.environment]
    data = arguments.data or os.environ.get(variable)
    if not data:
        parser.error(f"--data DIR is needed, or the environment variable {variable}")
    beside_data = Path(data) / arguments.episodes
    episodes = beside_data if not Path(arguments.episodes).exists() and beside_data.exists() else arguments.episodes
    try:
        if arguments.environment == "webshop":
            agreement = verify_webshop(episodes, data)
        else:
            agreement = verify_alfworld(episodes, data, oracle=not arguments.no_oracle)
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(agreement.to_json())
    return 0 if agreement.complete else 1


if __name__ == "__main__":
    sys.exit(main())
