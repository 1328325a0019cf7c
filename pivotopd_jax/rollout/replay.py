"""Label rows of earlier steps, kept on disk so that an interrupted run still has them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pivotopd_jax.records import Row

_INSTEAD = "start it again in another --workdir, or set config.knobs.replay=False there"


class Replay:
    """The label rows of all steps so far, one file a step.

    Attributes:
        directory: of the files.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self._steps: dict[int, list[Row]] = {}

    def keep(self, step: int, rows: Sequence[Row]) -> None:
        """Writes the rows of `step`; what an interrupted attempt at the same step left is replaced."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self._path(step)
        temporary = path.with_suffix(".new")
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **_arrays(rows))
        os.replace(temporary, path)
        self._steps[step] = list(rows)

    def draw(self, step: int, count: int, *, seed: int, first: int) -> list[Row]:
        """Whole trajectories of the steps before `step`, drawn uniformly until they hold `count` rows.

        Args:
            step: the present one.
            count: least number of rows, if there are so many.
            seed: fixes the draw.
            first: index that the first of the trajectories gets; those of the present step come before it.
        """
        known: dict[tuple[int, int], list[Row]] = {}
        for past in range(step):
            for row in self._rows(past):
                known.setdefault((past, row.trajectory), []).append(row)
        episodes, drawn = list(known.values()), []
        for place, chosen in enumerate(np.random.default_rng(seed).permutation(len(episodes))):
            if len(drawn) >= count:
                break
            drawn += [replace(row, trajectory=first + place) for row in episodes[chosen]]
        return drawn

    def _path(self, step: int) -> Path:
        return self.directory / f"step_{step:06d}.npz"

    def _rows(self, step: int) -> list[Row]:
        if step not in self._steps:
            self._steps[step] = self._read(self._path(step))
        return self._steps[step]

    def _read(self, path: Path) -> list[Row]:
        if not path.exists():
            raise FileNotFoundError(
                f"{path} is missing: this run trains on the labels of its earlier steps; {_INSTEAD}"
            )
        try:
            with np.load(path, allow_pickle=False) as stored:
                where, sizes, ids = (
                    np.asarray(stored[name]).astype(np.int32, casting="safe") for name in ("where", "sizes", "ids")
                )
            whole = where.shape == (len(sizes), 3) and sizes.shape == (len(sizes), 2) and ids.shape == (sizes.sum(),)
        except Exception as error:  # a damaged archive shows itself in many ways
            words = " ".join(str(error).split())[:200]
            raise ValueError(f"{path} is not a file of labels ({type(error).__name__}: {words}); {_INSTEAD}") from error
        if not whole or sizes.min(initial=1) < 1:
            raise ValueError(f"{path} is not a file of labels (its parts do not fit together); {_INSTEAD}")
        rows, at = [], 0
        for (trajectory, group, turn), (context, response) in zip(where.tolist(), sizes.tolist(), strict=True):
            middle, end = at + context, at + context + response
            rows.append(Row("label", trajectory, group, turn, ids[at:middle], ids[middle:end]))
            at = end
        return rows


def _arrays(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Rows as int32 arrays: where each comes from, how long its parts are, and all ids one after the other."""
    parts = [part for row in rows for part in (row.context_ids, row.response_ids)]
    return {
        "where": np.asarray([(row.trajectory, row.group, row.turn) for row in rows], np.int32).reshape(-1, 3),
        "sizes": np.asarray([len(part) for part in parts], np.int32).reshape(-1, 2),
        "ids": np.concatenate([np.zeros(0, np.int32), *parts]),
    }
