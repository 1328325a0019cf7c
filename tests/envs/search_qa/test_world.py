"""Search-based question answering as a world: splits, options, retrievers, and what is said when data are missing."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter

import pytest

from pivotopd_jax.envs.row_files import DataError
from pivotopd_jax.envs.search_qa import stored
from pivotopd_jax.envs.search_qa.questions import TEST_SETS
from pivotopd_jax.envs.search_qa.serving import RetrievalServer
from pivotopd_jax.envs.search_qa.stored import load_bm25
from pivotopd_jax.envs.search_qa.world import GENERATED, SearchQA


def test_generated_tasks():
    world = SearchQA(hops=4, passages=12)
    assert world.kinds == ("2 hops", "3 hops", "4 hops")
    assert world.name == "search_qa (generated, 2 to 4 hops, 2 distractors, 12 passages, top 3)"
    assert {split: len(world.tasks(split)) for split in world.splits} == GENERATED
    tasks = world.tasks("train")
    assert tasks[3].source is world.tasks("train")[3].source
    assert [task.id for task in tasks[1:3]] == ["search-train-1", "search-train-2"]
    assert {task.kind for task in tasks[:30]} == set(world.kinds)
    assert all(task.kind == f"{len(task.source.question.supports)} hops" for task in tasks[:30])
    assert world.make().reset(tasks[0]).text == f"Question: {tasks[0].source.question.text}"
    assert SearchQA().kinds == ("2 hops",)
    with pytest.raises(ValueError, match="split 'dev' is not known; choose one of train, validation, test"):
        world.tasks("dev")


@pytest.mark.parametrize("limit", [100_000, 3])
def test_real_tasks(directory, tmp_path, monkeypatch, limit):
    """Searched by either engine: the corpus has four passages."""
    monkeypatch.setattr(stored, "MAX_PASSAGES", limit)
    world = SearchQA(directory, cache=tmp_path / "cache", top_k=2)
    found = {split: [(task.id, task.kind) for task in world.tasks(split)] for split in world.splits}
    assert found == {
        "train": [("search-a", "hotpotqa")],
        "validation": [("search-questions-2", "musique")],
        "test": [("search-b", "nq")],
    }
    assert world.kinds == TEST_SETS
    assert world.name == "search_qa (real, bm25, top 2)"
    env = world.make()
    env.reset(world.tasks("train")[0])
    assert (world.planner.distance(env.snapshot()), world.planner.next_action(env.snapshot())) == (
        2,
        "search[Who directed Red River?]",
    )
    assert env.step("search[river lee oak]").observation.text.count('\n"') == 2
    assert world.planner.next_action(env.snapshot()) == "answer[Ann Lee]"
    again = SearchQA(directory, cache=tmp_path / "cache")
    assert again.tasks("test")[0].source.retriever is world.tasks("train")[0].source.retriever


def test_the_papers_test_panel(tmp_path):
    """The first hundred questions of six sets, in their order, and all of Bamboogle."""
    sizes = {"nq": 130, "bamboogle": 125, "musique": 40}
    rows = [
        {"data_source": kind, "question": f"{kind} {n}?", "golden_answers": ["x"], "extra_info": {"split": split}}
        for n in range(130) for kind, size in sizes.items() for split in ("test", "train") if n < size
    ]  # fmt: skip
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    world = SearchQA(tmp_path, retriever="http://127.0.0.1:1", test_questions=100)
    asked = [task.source.question for task in world.tasks("test")]
    assert Counter(question.kind for question in asked) == {"nq": 100, "bamboogle": 125, "musique": 40}
    assert [q.text for q in asked if q.kind == "nq"] == [f"nq {n}?" for n in range(100)]
    assert len(world.tasks("train")) == sum(sizes.values())


def test_a_remote_retriever(directory, tmp_path):
    index = load_bm25(directory / "corpus.jsonl", tmp_path / "cache")
    server = RetrievalServer(index)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    near, far = SearchQA(directory, cache=tmp_path / "cache"), SearchQA(directory, retriever=server.url)
    try:
        shown = []
        for world in (near, far):
            env = world.make()
            env.reset(world.tasks("train")[0])
            shown.append([env.step("search[red river]").observation, world.planner.distance(env.snapshot())])
        assert shown[0] == shown[1]
        assert shown[0][1] == 1
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_remote_retriever_needs_no_corpus(directory):
    (directory / "corpus.jsonl").unlink()
    world = SearchQA(directory, retriever="http://127.0.0.1:1")
    assert world.name == "search_qa (real, http://127.0.0.1:1, top 3)"
    assert world.tasks("train")[0].source.question.supports[0].id == "f"
    with pytest.raises(
        FileNotFoundError, match=r"holds no passages: expected one of corpus.jsonl, corpus.jsonl.gz, or"
    ):
        SearchQA(directory)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hops": 1}, "hops=1: expected 2 to 4"),
        ({"passages": 5}, "passages=5: expected 6 to 64"),
        ({"top_k": 6}, "top_k=6: expected 1 to 5"),
        ({"retriever": "http://h"}, "generated questions are searched in this process; leave it ''"),
        ({"source": "x", "top_k": 0}, "top_k=0, test_questions=0: expected at least 1"),
        ({"source": "x", "test_questions": -1}, "test_questions=-1: expected at least 1"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        SearchQA(**arguments)


def test_missing_data(tmp_path, directory, monkeypatch):
    monkeypatch.delenv("SEARCH_QA_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="SEARCH_QA_DATA='' is not a directory; set it to the folder with"):
        SearchQA("real")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"holds no questions: expected one of questions.jsonl, questions.json"):
        SearchQA(tmp_path / "empty")
    with pytest.raises(ValueError, match="the retriever's address is 'nowhere'"):
        SearchQA(directory, retriever="nowhere")
    monkeypatch.setenv("SEARCH_QA_DATA", str(directory))
    assert SearchQA("real").name == "search_qa (real, bm25, top 3)"


def test_broken_files(directory, tmp_path):
    other = shutil.copytree(directory, tmp_path / "other")
    (other / "questions.jsonl").write_text("{")
    with pytest.raises(DataError, match=r"questions.jsonl, line 1 is not JSON"):
        SearchQA(other, cache=tmp_path / "cache").tasks("test")


def test_the_real_directory(search_qa_data, cache):
    world = SearchQA(search_qa_data, cache=cache)
    sizes = [len(world.tasks(split)) for split in world.splits]
    assert sum(sizes) == 200
    assert all(10 < size < 30 for size in sizes[1:])
    assert len({task.id for split in world.splits for task in world.tasks(split)}) == 200
