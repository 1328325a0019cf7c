"""Questions in every form that they come in, and the real ones."""

from __future__ import annotations

import json
import sys

import pytest

from pivotopd_jax.envs import row_files
from pivotopd_jax.envs.row_files import DataError
from pivotopd_jax.envs.search_qa import questions
from pivotopd_jax.envs.search_qa.passages import Passage, read_passages
from pivotopd_jax.envs.search_qa.questions import Question, held_out, in_split, read_questions

UPSTREAM = {
    "data_source": "searchR1_nq",
    "prompt": [{"role": "user", "content": "Answer the given question. \nQuestion: who sang it?\n"}],
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Eva", "Eva Lee"]}},
    "extra_info": {"split": "test", "index": 0},
}
GOOD = {"data_source": "nq", "question": "who?", "golden_answers": ["me"]}


def write(path, *rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_rows(directory):
    passages = {passage.id: passage for passage in read_passages(directory / "corpus.jsonl")}
    found = read_questions(directory / "questions.jsonl", passages)
    assert [(q.id, q.kind, q.golds, q.split) for q in found] == [
        ("a", "hotpotqa", ("Ann Lee",), "train"),
        ("b", "nq", ("yes",), "test"),
        ("questions-2", "musique", ("Ann", "Ann Lee"), "validation"),
    ]
    assert [q.supports for q in found] == [(passages["f"],), (), (passages["d"],)]
    assert read_questions(directory / "questions.jsonl")[0].supports == (Passage("f", ""),)


def test_upstream_rows(tmp_path):
    found = read_questions(write(tmp_path / "q.jsonl", UPSTREAM))
    assert found == [Question("q-0", "nq", "who sang it?", ("Eva", "Eva Lee"), split="test")]


def test_parquet_needs_a_reader(tmp_path, monkeypatch):
    path = tmp_path / "q.parquet"
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_questions(path)
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"q.parquet is a parquet file; pip install pyarrow, or convert it to .jsonl"):
        read_questions(path)


def test_parquet_rows(tmp_path, monkeypatch):
    """As any reader gives them: sequences may be arrays."""
    path = tmp_path / "q.parquet"
    path.write_bytes(b"PAR1")
    row = {**UPSTREAM, "question": None, "golden_answers": (gold for gold in ["Eva"])}
    monkeypatch.setattr(row_files, "_read_parquet", lambda path: [row])
    assert read_questions(path)[0][2:4] == ("who sang it?", ("Eva",))
    monkeypatch.setattr(row_files, "_read_parquet", lambda path: [{**row, "data_source": "x"}])
    with pytest.raises(DataError, match=r"q.parquet, row 1: data_source 'x' is not known"):
        read_questions(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"data_source": "web"},
            "line 2: data_source 'web' is not known; expected one of nq, triviaqa, popqa, hotpotqa",
        ),
        ({"data_source": None}, "line 2: 'data_source' is missing; expected a text"),
        ({"question": ""}, "line 2: 'question' is ''; expected a text that is not empty"),
        ({"golden_answers": []}, r"golden_answers are \[\]; expected a list of texts"),
        ({"golden_answers": ["x", ""]}, "expected a list of texts"),
        ({"golden_answers": {"a": 1}}, "expected a list of texts"),
        ({"golden_answers": 2.5}, "expected a list of texts"),
        ({"golden_answers": None, "reward_model": [1]}, "expected a list of texts"),
        ({"supporting_ids": ["9"]}, "the supporting passage '9' is not in the corpus; expected one of its ids"),
        ({"id": "one"}, "the id 'one' was there before; expected each question once"),
    ],
)
def test_broken_rows(tmp_path, change, message):
    path = write(tmp_path / "q.jsonl", {**GOOD, "id": "one"}, {**GOOD, **change})
    with pytest.raises(DataError, match=message):
        read_questions(path, {})


def test_splits():
    rows = [Question(str(i), "nq", f"question {i}", ("x",), split=s) for i, s in enumerate(["train", "test", ""] * 100)]
    assert [len(in_split(rows, split)) for split in questions.SPLITS] == [200, 0, 100]
    alike = [row._replace(split="train") for row in rows]
    parts = {split: in_split(alike, split) for split in questions.SPLITS}
    assert sum(map(len, parts.values())) == 300
    assert all(20 < len(parts[split]) < 45 for split in ("validation", "test"))
    assert all(held_out(row.text) == split for split, part in parts.items() for row in part)


def test_the_hash_is_the_same_everywhere():
    """By `printf 'question 2' | sha256sum`: the first byte modulo 10 it is 9, 1 and 0."""
    assert [held_out(text) for text in ("who?", "question 2", "question 3")] == ["train", "validation", "test"]
    assert held_out("\ud800") in questions.SPLITS


def test_real_questions(search_qa_data):
    passages = read_passages(search_qa_data / "corpus.jsonl.gz")
    by_id = {passage.id: passage for passage in passages}
    assert len(by_id) == 9_347
    found = read_questions(search_qa_data / "questions.jsonl.gz", by_id)
    assert len(found) == 200
    assert {kind: sum(q.kind == kind for q in found) for kind in ("hotpotqa", "musique")} == {
        "hotpotqa": 100, "musique": 100,
    }  # fmt: skip
    assert sum(len(q.supports) for q in found) == 2 * 168 + 3 * 27 + 4 * 5
    assert all(support.contents for q in found for support in q.supports)
    assert len(read_questions(search_qa_data / "eval_questions_only.jsonl.gz")) == 1_625
