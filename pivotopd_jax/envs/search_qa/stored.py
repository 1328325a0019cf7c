"""Corpora kept with their index in files: made once on a machine, then mapped, so that processes share their pages.

Up to `MAX_PASSAGES` passages bm25s searches them, above tantivy, whose build never holds the corpus in memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path

import bm25s

from pivotopd_jax.envs.mapped import MappedRecords, write_records
from pivotopd_jax.envs.search_qa.passages import Passage, stream_passages
from pivotopd_jax.envs.search_qa.retrieval import MAX_PASSAGES, Bm25, index_passages
from pivotopd_jax.envs.search_qa.tantivy_bm25 import TantivyBm25, add_passages, open_writer
from pivotopd_jax.files import one_at_a_time, user_cache, whole_directory

_FORMAT = f"2 bm25s {version('bm25s')} tantivy {version('tantivy')}"
"""Part of an index's name: an index of another form is never loaded."""
_TANTIVY = "tantivy"


def load_bm25(corpus: Path, cache: Path | None = None) -> Bm25 | TantivyBm25:
    """The index of a corpus of any size, built at the first call on this machine and mapped from then on.

    Each first call of a process reads the file once, for its hash.

    Args:
        corpus: .jsonl or .jsonl.gz file of passages.
        cache: directory in which indices are kept, each under a hash of its corpus; None for the user's own.

    Raises:
        DataError: a broken corpus.
        FileNotFoundError: no such file.
    """
    with corpus.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(_FORMAT.encode())
    return _load(corpus, (cache or user_cache() / "search_qa") / digest.hexdigest()[:32])


@lru_cache(maxsize=8)
def _load(corpus: Path, directory: Path) -> Bm25 | TantivyBm25:
    if not directory.is_dir():
        with one_at_a_time(directory.parent):
            if not directory.is_dir():
                build(directory, stream_passages(corpus))
    return open_index(directory)


def open_index(directory: Path) -> Bm25 | TantivyBm25:
    """Maps what `build` made."""
    passages = stored_passages(directory)
    if (directory / _TANTIVY).is_dir():
        return TantivyBm25(directory / _TANTIVY, passages)
    return Bm25(passages, bm25s.BM25.load(str(directory), mmap=True, show_progress=False))


def stored_passages(directory: Path) -> MappedRecords[Passage]:
    """The passages that were kept with an index."""
    return MappedRecords(directory, lambda record: Passage(*json.loads(record)))


def build(directory: Path, passages: Iterable[Passage]) -> None:
    """Makes `directory`, whole or not at all, of `passages`, which are gone through once.

    Raises:
        DataError: no passage, or none with a word in it.
    """
    rest = iter(passages)
    first = list(islice(rest, MAX_PASSAGES + 1))
    with whole_directory(directory) as unfinished:
        if len(first) <= MAX_PASSAGES:
            index_passages(first).save(str(unfinished), show_progress=False)
            return write_records(unfinished, map(_record, first))
        with open_writer(unfinished / _TANTIVY) as writer:
            write_records(unfinished, map(_record, add_passages(writer, chain(first, rest))))


def _record(passage: Passage) -> bytes:
    return json.dumps(passage).encode()
