"""Sweeps a grid of configurations: `sweep.py ablations --config=configs/alfworld.py:mini --workdir=DIR`.

ablations: PivotOPD without one of its parts, or with another one in its place.
recovery: K recovery turns × their weight.
teacher_errors: how wrong a teacher may be.
Everything is trained from one base and judged on the same games and mistakes. Finished cells are kept: started again,
it goes on where it stopped, and in the end only prints.
"""

from __future__ import annotations

from pathlib import Path

from absl import flags
from ml_collections import config_flags

from pivotopd_jax import command_line
from pivotopd_jax.evaluation.cells import Judging, run_cells
from pivotopd_jax.evaluation.compare import comparison_table, draw_comparison, draw_curves
from pivotopd_jax.evaluation.grids import GRIDS

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file, with its preset after a colon.")
WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the sweep.")
SEEDS = flags.DEFINE_list("seeds", ["0"], "Training seeds.")
EVALUATION_SEEDS = flags.DEFINE_integer("evaluation_seeds", 2, "Times the panel is played at each temperature.")


def main(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0] not in GRIDS:
        raise ValueError(f"sweep.py was told {' '.join(arguments) or 'nothing'!r}; expected one of {', '.join(GRIDS)}")
    directory = Path(str(WORKDIR.value))
    grid = GRIDS[arguments[0]](CONFIG.value)
    judging = Judging(evaluation_seeds=EVALUATION_SEEDS.value)
    cells = run_cells(CONFIG.value, grid.arms, [int(seed) for seed in SEEDS.value], directory, judging, print)
    names = [arm.name for arm in grid.arms]
    print(comparison_table(cells, names))
    figure = directory / f"{arguments[0]}.png"
    if grid.axis:
        draw_curves(cells, grid.arms, grid.axis, figure)
    else:
        draw_comparison(cells, names, figure)
    print(f"figure: {figure}")


if __name__ == "__main__":
    command_line.run(main, required=["config", "workdir"], positional=True)
