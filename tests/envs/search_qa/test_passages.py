"""Passages of files: read, and refused with one message."""

from __future__ import annotations

import gzip

import pytest

from pivotopd_jax.envs.row_files import DataError
from pivotopd_jax.envs.search_qa import passages
from pivotopd_jax.envs.search_qa.passages import Passage, find_passages, make_passage, read_passages

GOOD = '{"id": "1", "contents": "\\"A B\\"\\nc d"}\n'


def test_a_passage(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text(GOOD + "\n" + '{"id": 2, "contents": "no title line", "source": "x"}')
    first, second = read_passages(path)
    assert (first, first.title, first.text) == (make_passage("1", "A B", "c d"), "A B", "c d")
    assert (second, second.title, second.text) == (Passage("2", "no title line"), "no title line", "")


def test_gzipped(tmp_path):
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD.encode()))
    assert [passage.id for passage in read_passages(path)] == ["1"]
    path.write_bytes(b"not gzip")
    with pytest.raises(DataError, match="is damaged"):
        read_passages(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"c.jsonl, line 2 is not JSON"),
        ('{"contents": "x"}', "line 2: 'id' is missing; expected a text that is not empty"),
        ('{"id": "2", "contents": 5}', "line 2: 'contents' is 5; expected a text"),
        ('{"id": "2", "contents": " "}', "line 2: 'contents' is ' '; expected a text"),
        ('{"id": "1", "contents": "x"}', "line 2: the id '1' was there before; expected each passage once"),
    ],
)
def test_broken_lines(tmp_path, line, message):
    path = tmp_path / "c.jsonl"
    path.write_text(GOOD + line)
    with pytest.raises(DataError, match=message):
        read_passages(path)


def test_nothing_to_read(tmp_path):
    (tmp_path / "c.jsonl").write_text("\n")
    with pytest.raises(DataError, match="is empty; expected one passage a line"):
        read_passages(tmp_path / "c.jsonl")
    with pytest.raises(FileNotFoundError):
        read_passages(tmp_path / "d.jsonl")


def test_only_the_wanted_ones_are_kept(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text("".join(f'{{"id": {number}, "contents": "text {number}"}}\n' for number in range(9)) + "{")
    assert find_passages(path, {"7", "2"}) == {"2": Passage("2", "text 2"), "7": Passage("7", "text 7")}
    assert find_passages(path, set()) == {}
    with pytest.raises(DataError, match="line 10 is not JSON"):
        find_passages(path, {"2", "none"})


def test_equal_hashes_are_no_equal_ids(tmp_path, monkeypatch):
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "1", "contents": "x"}\n{"id": "2", "contents": "y"}\n')
    monkeypatch.setattr(passages, "hash", lambda id: 7, raising=False)
    assert [passage.id for passage in read_passages(path)] == ["1", "2"]
    path.write_text(path.read_text() + '{"id": 1, "contents": "z"}')
    with pytest.raises(DataError, match="line 3: the id '1' was there before"):
        read_passages(path)
