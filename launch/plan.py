"""What a step would take on a pod: `plan.py --config=configs/webshop.py --mesh=16x1x1 --topology=v5e:4x4 [options]`.

Compiles the learner's programs at full size for a mesh of TPUs that is only described (no weights, no TPU), and prints
memory on each device, operations, and estimated seconds of each stage for named chips, as Markdown. The seconds follow
from data sheets and the assumptions printed with them; they are not measurements.
"""

from __future__ import annotations

import argparse
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="configs/webshop.py", help="whose step is planned")
    parser.add_argument("--student", help="a hub id or a directory with a config.json, in place of the config's")
    parser.add_argument("--mesh", required=True, help="FSDPxTENSORxEXPERT, like 16x1x1")
    parser.add_argument("--topology", required=True, help="TPUs of that number, like v5e:4x4, v5p:2x2x4, v6e:4x4")
    parser.add_argument("--chips", default="v5e,v5p,v6e,h100,h200", help="whose seconds are estimated")
    parser.add_argument("--row_tokens", type=int, help="in place of config.learner.row_tokens")
    parser.add_argument("--turns", type=float, help="mean of an episode; by default config.max_turns")
    parser.add_argument("--prompt", type=float, help="mean tokens of a context; by default config.prompt.prompt_tokens")
    parser.add_argument("--response", type=float, help="likewise; by default config.prompt.response_tokens")
    parser.add_argument("--pivotal", type=float, default=1.0, help="mean pivotal turns of an episode")
    parser.add_argument("--utilisation", type=float, default=0.4, help="share of peak operations (MFU)")
    parser.add_argument("--reading", type=float, default=0.6, help="share of peak bandwidth while decoding")
    parser.add_argument("--chips_per_process", type=int, default=4)
    given = parser.parse_args()
    # The compiler of TPUs would look for them, and for a cloud's metadata.
    os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}
    os.environ |= {"TPU_WORKER_HOSTNAMES": "localhost", "TPU_WORKER_ID": "0"}
    try:
        print(_plan(given))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _plan(given: argparse.Namespace) -> str:
    from pivotopd_jax.command_line import load_config
    from pivotopd_jax.planning.plan import Assumptions, make_plan, render
    from pivotopd_jax.planning.programs import described_mesh, mesh_shape
    from pivotopd_jax.planning.workload import Lengths

    config = load_config(given.config)
    config.student = given.student or config.student
    config.learner.row_tokens = given.row_tokens or config.learner.row_tokens
    lengths = Lengths(
        given.turns or config.max_turns, given.prompt or config.prompt.prompt_tokens,
        given.response or config.prompt.response_tokens, given.pivotal,
    )  # fmt: skip
    assumed = Assumptions(lengths, given.utilisation, given.reading, given.chips_per_process)
    mesh = described_mesh(given.topology, mesh_shape(given.mesh))
    return render(
        make_plan(config, mesh, given.chips.split(","), assumed, report=lambda line: print(line, file=sys.stderr))
    )


if __name__ == "__main__":
    sys.exit(main())
