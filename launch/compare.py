"""Compares methods from one base: `compare.py --config=configs/alfworld.py:mini --methods=pivotopd,grpo --workdir=DIR`.

Finished cells are kept: started again, it goes on where it stopped, and in the end only prints.
"""

from __future__ import annotations

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from pivotopd_jax import command_line
from pivotopd_jax.evaluation.cells import Judging, run_cells
from pivotopd_jax.evaluation.compare import comparison_table, draw_comparison
from pivotopd_jax.evaluation.grids import methods

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file, with its preset after a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the comparison.")
METHODS = flags.DEFINE_list("methods", ["pivotopd", "grpo"], "Methods; the first is compared with each other, paired.")
SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "Training seeds.")
EVALUATION_SEEDS = flags.DEFINE_integer("evaluation_seeds", 4, "Times the panel is played at each temperature.")


def main() -> None:
    cells = run_cells(
        CONFIG.value, methods(METHODS.value), [int(s) for s in SEEDS.value], Path(str(WORKDIR.value)),
        Judging(evaluation_seeds=EVALUATION_SEEDS.value), print,
    )  # fmt: skip
    print(comparison_table(cells, METHODS.value))
    figure = Path(str(WORKDIR.value)) / "comparison.png"
    draw_comparison(cells, METHODS.value, figure)
    print(f"figure: {figure}")


if __name__ == "__main__":
    command_line.run(main, required=["config", "workdir"])
