"""Files and directories that are whole or not there."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from pivotopd_jax.envs.mapped import MappedRecords, write_records
from pivotopd_jax.files import one_at_a_time, user_cache, whole_directory, write_json


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a" / "b.json", {"x": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a" / "b.json", {"x": object()})
    assert json.loads((tmp_path / "a" / "b.json").read_text()) == {"x": 1}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.json"]


def make(directory: Path, name: str) -> None:
    with whole_directory(directory) as unfinished:
        (unfinished / "half").touch()
        (unfinished / "half").rename(unfinished / name)


def test_a_directory_is_whole_or_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        make(tmp_path / "d", "no/such/place")
    assert list(tmp_path.iterdir()) == []
    make(tmp_path / "d", "first")
    make(tmp_path / "d", "second")
    assert [path.name for path in tmp_path.rglob("*")] == ["d", "first"]


def test_one_at_a_time(tmp_path):
    """Another that wants to enter waits until the first one has left; other directories are free."""
    entered = threading.Event()

    def enter():
        with one_at_a_time(tmp_path / "a"):
            entered.set()

    other = threading.Thread(target=enter)
    with one_at_a_time(tmp_path / "a"), one_at_a_time(tmp_path / "b"):
        other.start()
        assert not entered.wait(0.05)
    other.join(10)
    assert entered.is_set()
    assert list((tmp_path / "a").iterdir()) == []


def test_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path / "pivotopd_jax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert str(user_cache()) == "/h/.cache/pivotopd_jax"


def test_records_are_found_again(tmp_path):
    write_records(tmp_path, iter([b"one", b"", b"three"]))
    records = MappedRecords(tmp_path, bytes.decode)
    assert list(records) == ["one", "", "three"]
    assert (records[-1], records[1:], records[::-2]) == ("three", ["", "three"], ["three", "one"])
    with pytest.raises(IndexError, match="record 3 of 3"):
        records[3]
