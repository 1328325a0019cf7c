"""Prints every method and what it chooses for each stage of a step, read off the code: `methods.py [--config=..]`."""

from __future__ import annotations

from ml_collections import config_flags
from rich.console import Console

from pivotopd_jax import command_line
from pivotopd_jax.methods.table import methods_table

CONFIG = config_flags.DEFINE_config_file("config", "configs/alfworld.py:paper", "Whose knobs are shown.")


def main() -> None:
    Console().print(methods_table(CONFIG.value.knobs))


if __name__ == "__main__":
    command_line.run(main)
