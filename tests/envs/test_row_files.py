"""Files of rows: read, and refused with one message that says where."""

from __future__ import annotations

import gzip
import sys
from types import SimpleNamespace

import pytest

from pivotopd_jax.envs.row_files import DataError, read_lines, read_rows, text_of

GOOD = '{"id": "1"}\n'


def test_lines(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text(GOOD + "\n" + '{"id": 2}')
    assert list(read_lines(path)) == [(f"{path}, line 1", {"id": "1"}), (f"{path}, line 3", {"id": 2})]
    assert list(read_rows(path)) == list(read_lines(path))


def test_gzipped_lines(tmp_path):
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD.encode()))
    assert [row for _, row in read_lines(path)] == [{"id": "1"}]
    path.write_bytes(gzip.compress((GOOD * 1000).encode())[:-20])
    with pytest.raises(DataError, match=r"c.jsonl.gz is damaged \(.*\); download it again"):
        list(read_lines(path))
    path.write_bytes(b"not gzip")
    with pytest.raises(DataError, match="is damaged"):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"c.jsonl, line 2 is not JSON \(.*\); expected one object a line"),
        ("[1]", r"line 2 is \[1\]; expected a JSON object"),
        ("\udcff", r"line 2 is not JSON"),
        ("[" * 100_000, r"line 2 is not JSON"),
    ],
)
def test_broken_lines(tmp_path, line, message):
    path = tmp_path / "c.jsonl"
    path.write_text(GOOD + line, errors="surrogateescape")
    with pytest.raises(DataError, match=message):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("row", "shown"), [({}, "missing"), ({"a": 5}, "5"), ({"a": " "}, "' '"), ({"a": ["x" * 99]}, r"\['xxx")]
)
def test_a_text_that_is_none(row, shown):
    assert text_of({"a": " x"}, "a", "here") == " x"
    with pytest.raises(DataError, match=f"here: 'a' is {shown}.*; expected a text that is not empty"):
        text_of(row, "a", "here")


def test_parquet(tmp_path, monkeypatch):
    """The reader of parquet is optional, and does not need to be there."""
    path = tmp_path / "q.parquet"
    with pytest.raises(FileNotFoundError, match=r"no such file: .*q.parquet"):
        read_rows(path)
    path.write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"q.parquet is a parquet file; pip install pyarrow, or convert it to"):
        read_rows(path)
    table = SimpleNamespace(to_pylist=lambda: [{"id": 1}])
    reader = SimpleNamespace(read_table=lambda path: table)
    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(parquet=reader))
    assert list(read_rows(path)) == [(f"{path}, row 1", {"id": 1})]


def test_a_broken_parquet_file(tmp_path, monkeypatch):
    def read_table(path):
        raise ValueError("no footer")

    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(parquet=SimpleNamespace(read_table=read_table)))
    (tmp_path / "q.parquet").write_bytes(b"x")
    with pytest.raises(DataError, match=r"cannot be read as parquet \(no footer\); download it again"):
        read_rows(tmp_path / "q.parquet")
