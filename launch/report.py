"""Writes the report of a run that is there, finished or not: `report.py DIR` makes DIR/report.html."""

from __future__ import annotations

from pathlib import Path

from pivotopd_jax import command_line
from pivotopd_jax.viewing.report import write_report


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        raise ValueError(f"report.py was told {' '.join(arguments) or 'nothing'!r}; expected the directory of a run")
    print(write_report(Path(arguments[0])))


if __name__ == "__main__":
    command_line.run(main, positional=True)
