"""Passages of a corpus: a title in quotes on the first line, the text on the others."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pivotopd_jax.envs.search_qa.data_files import DataError, read_lines, text_of


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
    """The passages of a .jsonl or .jsonl.gz file, in its order; other fields than `id` and `contents` are ignored.

    Raises:
        DataError: a broken line, an id that is there twice, or no passage at all.
        FileNotFoundError: no such file.
    """
    found: dict[str, Passage] = {}
    for where, row in read_lines(path):
        id = str(row["id"]) if isinstance(row.get("id"), int) else text_of(row, "id", where)
        if id in found:
            raise DataError(f"{where}: the id {id!r} was there before; expected each passage once")
        found[id] = Passage(id, text_of(row, "contents", where))
    if not found:
        raise DataError(f"{path} is empty; expected one passage a line, as {{'id': .., 'contents': ..}}")
    return list(found.values())
