"""Writes the trajectories of a run as chats: `export_trajectories.py DIR --out=FILE.jsonl`; see docs/viewing.md."""

from __future__ import annotations

from pathlib import Path

from absl import flags

from pivotopd_jax import command_line
from pivotopd_jax.viewing.export import export
from pivotopd_jax.viewing.log import TrajectoryLog

OUT = flags.DEFINE_string("out", None, "File to write, one trajectory a line.")


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        told = " ".join(arguments) or "nothing"
        raise ValueError(f"export_trajectories.py was told {told!r}; expected the directory of a run")
    log, path = TrajectoryLog(Path(arguments[0])), Path(str(OUT.value))
    for problem in (problem for file in log.files.values() for problem in file.problems):
        print(f"left out: {problem}")
    print(f"{export(log, path)} trajectories: {path}")


if __name__ == "__main__":
    command_line.run(main, required=["out"], positional=True)
