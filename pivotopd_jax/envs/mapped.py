"""Many records in two files that are mapped into memory, so that processes share their pages."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar, overload

import numpy as np

R = TypeVar("R")
RECORDS, STARTS = "records.bin", "record_starts.npy"


class MappedRecords(Sequence[R], Generic[R]):
    """The records of a directory, each read when it is asked for; the latest 4096 are remembered."""

    def __init__(self, directory: Path, read: Callable[[bytes], R]) -> None:
        """Maps what `write_records` wrote; `read` makes a record of its bytes.

        Raises:
            ValueError: the files are damaged.
        """
        try:
            self._starts = np.load(directory / STARTS, mmap_mode="r", allow_pickle=False)
            with (directory / RECORDS).open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            whole = self._starts.dtype == np.int64 and self._starts.ndim == 1 and self._starts[-1] == len(self._bytes)
        except Exception as error:  # a damaged head of an array shows itself in many ways
            words = " ".join(str(error).split())[:200]
            raise ValueError(f"{directory} is damaged ({words}); remove it, and it is made again") from error
        if not whole:
            raise ValueError(f"{directory} is damaged (its files do not fit together); remove it, and it is made again")
        self._read = lru_cache(maxsize=4096)(lambda i: read(self._bytes[self._starts[i] : self._starts[i + 1]]))

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> R: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[R]: ...

    def __getitem__(self, index: int | slice) -> R | Sequence[R]:
        if isinstance(index, slice):
            return [self._read(i) for i in range(len(self))[index]]
        if not -len(self) <= index < len(self):
            raise IndexError(f"record {index} of {len(self)}")
        return self._read(index % len(self))


def write_records(directory: Path, records: Iterable[bytes]) -> None:
    """Writes records in the form that `MappedRecords` maps; they are gone through once."""
    starts = array("q", [0])  # 8 bytes a record; of ints there would be 40
    with (directory / RECORDS).open("wb") as file:
        for record in records:
            starts.append(starts[-1] + file.write(record))
    np.save(directory / STARTS, np.asarray(starts, np.int64))
