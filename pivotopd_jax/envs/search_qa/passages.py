"""Passages of a corpus: a title in quotes on the first line, the text on the others."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pivotopd_jax.envs.row_files import DataError, read_lines, text_of


class Passage(NamedTuple):
    """One passage.

    Attributes:
        id: unique in its corpus.
        contents: title and text, as in the files of Search-R1.
    """

    id: str
    contents: str

    @property
    def title(self) -> str:
        """The first line without its quotes."""
        return self.contents.partition("\n")[0].strip().strip('"').strip()

    @property
    def text(self) -> str:
        """What follows the title."""
        return self.contents.partition("\n")[2].strip()


def make_passage(id: str, title: str, text: str) -> Passage:
    """A passage in the form of the files."""
    return Passage(id, f'"{title}"\n{text}')


def read_passages(path: Path) -> list[Passage]:
    """The passages of a file; see `stream_passages`."""
    return list(stream_passages(path))


def stream_passages(path: Path) -> Iterator[Passage]:
    """The passages of a .jsonl or .jsonl.gz file, one by one; other fields than `id` and `contents` are ignored.

    An id that is there twice is found at the end: of each only a hash of 8 bytes is held.

    Raises:
        DataError: a broken line, an id that is there twice, or no passage at all.
        FileNotFoundError: no such file.
    """
    hashes = array("q")
    for _, passage in _passages(path):
        hashes.append(hash(passage.id))
        yield passage
    if not hashes:
        raise DataError(f"{path} is empty; expected one passage a line, as {{'id': .., 'contents': ..}}")
    ordered = np.sort(np.frombuffer(hashes, np.int64))
    twice = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    if twice:
        _check_ids(path, twice)


def find_passages(path: Path, ids: Collection[str]) -> dict[str, Passage]:
    """Those of the passages of a file that have one of `ids`; the file is read until all are found.

    Raises:
        DataError: a broken line before that.
        FileNotFoundError: no such file.
    """
    found: dict[str, Passage] = {}
    passages = (passage for _, passage in _passages(path))
    while len(found) < len(ids) and (passage := next(passages, None)):
        if passage.id in ids:
            found[passage.id] = passage
    return found


def _passages(path: Path) -> Iterator[tuple[str, Passage]]:
    """Where each stands, for messages, and the passage."""
    for where, row in read_lines(path):
        id = str(row["id"]) if isinstance(row.get("id"), int) else text_of(row, "id", where)
        yield where, Passage(id, text_of(row, "contents", where))


def _check_ids(path: Path, hashes: Collection[int]) -> None:
    """Goes through the file again, for ids that are there twice among those with one of `hashes`."""
    found: set[str] = set()
    for where, passage in _passages(path):
        if passage.id in found:
            raise DataError(f"{where}: the id {passage.id!r} was there before; expected each passage once")
        if hash(passage.id) in hashes:
            found.add(passage.id)
