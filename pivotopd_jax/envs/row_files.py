"""Reads files of rows, JSON objects one a line or parquet, and says where one is not what it should be."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class DataError(ValueError):
    """A file of rows that is not what it should be; says where and what was expected."""


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a .parquet file, or of any other name as `read_lines` does.

    Yields:
        where it stands, for messages, and the row.

    Raises:
        DataError: the file is damaged, or a line is not a JSON object.
        ImportError: a .parquet file, and nothing to read it with.
        FileNotFoundError: no such file.
    """
    if path.suffix != ".parquet":
        return read_lines(path)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    return ((f"{path}, row {number}", row) for number, row in enumerate(_read_parquet(path), 1))


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


def _read_parquet(path: Path) -> list[dict[str, Any]]:
    """Rows as plain values, by pyarrow: pandas needs it, too."""
    try:
        from pyarrow import parquet  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(f"{path} is a parquet file; pip install pyarrow, or convert it to .jsonl") from error
    try:
        return parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as parquet ({error}); download it again") from error
