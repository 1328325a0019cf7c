"""Finds and reads the files of search-based question answering: a corpus of passages and questions about it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotopd_jax.envs.real_data import named_directory

VARIABLE = "SEARCH_QA_DATA"
CORPUS = ("corpus.jsonl", "corpus.jsonl.gz")
QUESTIONS = ("questions.jsonl", "questions.jsonl.gz", "questions.parquet")


class DataError(ValueError):
    """A file of passages or questions that is not what it should be; says where and what was expected."""


@dataclass(frozen=True)
class SearchFiles:
    """Where the files are.

    Attributes:
        questions: always there.
        corpus: None where there is none.
    """

    questions: Path
    corpus: Path | None


def data_directory() -> Path:
    """The directory that $SEARCH_QA_DATA names; see `real_data.named_directory`."""
    return named_directory(VARIABLE, f"{CORPUS[0]} and {QUESTIONS[0]}")


def find(directory: Path, *, need_corpus: bool) -> SearchFiles:
    """The files in `directory`; of several forms of one file, the first in the order of `CORPUS` and `QUESTIONS`.

    Raises:
        FileNotFoundError: no questions, or no corpus although one is needed.
    """
    questions, corpus = _first(directory, QUESTIONS), _first(directory, CORPUS)
    if questions is None:
        raise FileNotFoundError(f"{directory} holds no questions: expected one of {', '.join(QUESTIONS)}")
    if corpus is None and need_corpus:
        raise FileNotFoundError(
            f"{directory} holds no passages: expected one of {', '.join(CORPUS)}, or the address of a server as the "
            "retriever"
        )
    return SearchFiles(questions, corpus)


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file with one a line, gzipped if its name ends in .gz; empty lines are skipped.

    Yields:
        where it stands, for messages, and the object.

    Raises:
        DataError: a line is not a JSON object, or the file is damaged.
        FileNotFoundError: no such file.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path}, line {number}", _object(line, f"{path}, line {number}")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}); download it again") from error


def text_of(row: dict[str, Any], key: str, where: str) -> str:
    """The text under `key`, which must be there and not be empty.

    Raises:
        DataError: it is not.
    """
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: {key!r} is {_shown(value)}; expected a text that is not empty")
    return value


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON ({error}); expected one object a line") from error
    if not isinstance(row, dict):
        raise DataError(f"{where} is {_shown(row)}; expected a JSON object")
    return row


def _shown(value: Any) -> str:
    return "missing" if value is None else repr(value)[:80]


def _first(directory: Path, names: tuple[str, ...]) -> Path | None:
    return next((directory / name for name in names if (directory / name).is_file()), None)
