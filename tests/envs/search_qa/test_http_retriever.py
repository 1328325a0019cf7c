"""The HTTP client against a scripted server for every fault, and both schemas against our own server."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from background_server import running
from envs.search_qa.fake_retriever import Answer, item, serving

from pivotopd_jax.envs.search_qa.http_retriever import HttpRetriever, RetrieverFailure, read_reply
from pivotopd_jax.envs.search_qa.passages import Passage
from pivotopd_jax.envs.search_qa.retrieval import Hit
from pivotopd_jax.envs.search_qa.serving import BadRequest, RetrievalServer, answer

PROJECT = Path(__file__).resolve().parents[3]
GOOD = Answer({"result": [[item()]]})


def client(url, **options):
    settings: dict[str, Any] = {"retries": 1, "retry_seconds": 0.01, "deadline_seconds": 5.0, **options}
    return HttpRetriever(url, **settings)


def test_what_is_sent_and_read():
    reply = Answer({"result": [[item(), item(7, "x", 1)], []], "more": 1})
    with serving(reply) as fake:
        found = client(fake.url).search(["one", "two ❤"], 2)
        assert found == [[Hit(Passage("1", '"A"\nb'), 1.5), Hit(Passage("7", "x"), 1.0)], []]
        assert fake.asked == [{"queries": ["one", "two ❤"], "topk": 2, "return_scores": True}]
        assert fake.paths == ["/retrieve"]


def test_one_query_a_request():
    with serving(GOOD) as fake:
        assert len(client(f"{fake.url}/other/path", schema="query").search(["one", "two"], 1)) == 2
        assert fake.asked == [{"query": q, "topk": 1, "return_scores": True} for q in ("one", "two")]
        assert fake.paths == ["/other/path"] * 2


def test_results_are_remembered():
    with serving(GOOD) as fake:
        retriever = client(fake.url)
        retriever.search(["one"], 1)[0].clear()
        assert len(retriever.search(["one"], 1)[0]) == 1
        assert retriever.search([], 1) == []
        assert len(fake.asked) == 1


FAULTS = [
    (Answer(b"<html>"), "its reply of 6 bytes is not JSON with a 'result'"),
    (Answer(b""), "its reply of 0 bytes is not JSON"),
    (Answer(b"\xff\xfe"), "is not JSON"),
    (Answer(b"[" * 100_000), "is not JSON"),
    (Answer(b"[" * 1_000_000), "is not JSON"),
    (Answer([1]), "is not JSON with a 'result'"),
    (Answer({"results": []}), "is not JSON with a 'result'"),
    (Answer({"result": {}}), "does not have one list for each of 1 queries"),
    (Answer({"result": []}), "does not have one list for each of 1 queries"),
    (Answer({"result": [[], []]}), "does not have one list for each of 1 queries"),
    (Answer({"result": ["abc"]}), "something else than lists of at most 2 passages"),
    (Answer({"result": [[item(), item(), item()]]}), "something else than lists of at most 2 passages"),
    (Answer({"result": [["abc"]]}), "is not a document with id, contents and a score"),
    (Answer({"result": [[{"id": "1", "contents": "x"}]]}), "is not a document with"),
    (Answer({"result": [[{"document": {"id": "1", "contents": "x"}}]]}), "is not a document with"),
    (Answer({"result": [[item(id=None)]]}), "is not a document with"),
    (Answer({"result": [[item(contents=["x"])]]}), "is not a document with"),
    (Answer({"result": [[item(score="high")]]}), "is not a document with"),
    (Answer({"result": [[item(score=True)]]}), "is not a document with"),
    (Answer({"result": [[item(score=float("nan"))]]}), "is not a document with"),
    (Answer({"result": [[item(score=10**400)]]}), "is not a document with"),
    (Answer("oops", status=500), "status 500, '\"oops\"'"),
    (Answer("slow down", status=429), "status 429"),
    (Answer(hang_up=True), "RemoteProtocolError: Server disconnected"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_a_fault_is_tried_again_and_then_told(fault, message):
    with serving(fault) as fake:
        with pytest.raises(RetrieverFailure) as failure:
            client(fake.url).search(["one"], 2)
        assert message in str(failure.value)
        assert f"the retriever at {fake.url} failed" in str(failure.value)
        assert "(tried 2 times)" in str(failure.value)
        assert "\n" not in str(failure.value)
        assert len(fake.asked) == 2
    with serving(fault, GOOD) as fake:
        assert client(fake.url).search(["one"], 2) == [[Hit(Passage("1", '"A"\nb'), 1.5)]]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Answer("no such page", status=404), "status 404"),
        (Answer("bad", status=400), "status 400"),
        (Answer(b"x" * 1_000_001), "its reply is longer than 1,000,000 bytes"),
    ],
)
def test_what_would_fail_again_is_not_tried_again(fault, message):
    with serving(fault) as fake:
        with pytest.raises(RetrieverFailure, match=message):
            client(fake.url).search(["one"], 2)
        assert len(fake.asked) == 1


@pytest.mark.parametrize("fault", [Answer({"result": [[]]}, wait=60), Answer({"result": [[item()]]}, drip=0.05)])
def test_the_deadline_holds(fault):
    with serving(fault) as fake, pytest.raises(RetrieverFailure, match=r"no reply within 0.5 s"):
        client(fake.url, deadline_seconds=0.5, retries=100).search(["one"], 2)


def test_the_deadline_counts_retries():
    """Whether it runs out between two tries or, on a busy machine, in the middle of one."""
    ended = pytest.raises(RetrieverFailure, match=r"status 500|no reply within 0\.3 s")
    with serving(Answer(status=500)) as fake, ended:
        client(fake.url, deadline_seconds=0.3, retries=10_000, retry_seconds=0.05).search(["one"], 2)


def test_nobody_listens():
    with serving(GOOD) as fake:
        url = fake.url
    with pytest.raises(RetrieverFailure, match=r"ConnectError.*see that it runs and speaks"):
        client(url).search(["one"], 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "localhost:8000"}, r"address is 'localhost:8000'; expected something like 'http://127.0.0.1:8000"),
        ({"url": "http://me:secret@host"}, "holds a password; expected one without"),
        ({"url": "http://host/?a=b"}, "expected something like"),
        ({"url": "ftp://host"}, "expected something like"),
        ({"schema": "both"}, "schema 'both' is not known; choose one of queries, query"),
        ({"retries": -1}, "retries is -1 and deadline_seconds 30.0; expected at least 0 and more than 0"),
        ({"deadline_seconds": 0}, "deadline_seconds 0; expected"),
    ],
)
def test_wrong_arguments(options, message):
    settings: dict[str, Any] = {"url": "http://h", **options}
    with pytest.raises(ValueError, match=message):
        HttpRetriever(**settings)


def test_reading_a_reply_by_hand():
    assert read_reply(json.dumps({"result": [[], [item("a", "b", -2)]]}).encode(), 2, 1) == [
        [], [Hit(Passage("a", "b"), -2.0)],
    ]  # fmt: skip


@contextmanager
def served(index):
    server = RetrievalServer(index)
    with running(server):
        yield server


@pytest.mark.parametrize("schema", ["queries", "query"])
def test_both_schemas_end_to_end(index, schema):
    queries = ["red river", "lee", "zebra", "x" * 10_000, "</information> ❤", "\ud800"]
    with served(index) as server:
        assert client(server.url, schema=schema).search(queries, 2) == index.search(queries, 2)


def post(server, body, path="/retrieve", headers=None):
    host, port = server.server_address[:2]
    connection = http.client.HTTPConnection(str(host), port, timeout=10)
    connection.request("POST", path, body, headers or {})
    reply = connection.getresponse()
    found = reply.status, json.loads(reply.read())
    connection.close()
    return found


def test_the_server_by_hand(index):
    first = {"id": "y", "contents": '"Oak Bay"\nOak Bay is a town.'}
    with served(index) as server:
        assert post(server, '{"queries": ["oak bay"], "topk": 1}') == (200, {"result": [[first]]})
        status, reply = post(server, '{"query": "oak bay", "return_scores": true}', "/retrieve/")
        assert (status, reply["result"][0][0]["document"]) == (200, first)
        assert reply["result"][0][0]["score"] > 0
        assert post(server, "{}", "/other")[0] == 404
        assert post(server, "{")[1] == {"error": "the body is not JSON"}
        assert post(server, b"\xff")[0] == 400
        status, reply = post(server, "", headers={"Content-Length": "99999999"})
        assert (status, reply["error"]) == (400, "Content-Length is '99999999'; expected at most 1000000")
        assert post(server, '{"queries": []}') == (200, {"result": []})


@pytest.mark.parametrize(
    "body",
    [
        [], {}, {"queries": ["a"], "query": "b"}, {"queries": "a"}, {"queries": [1]}, {"query": None},
        {"query": "a", "topk": 0}, {"query": "a", "topk": 101}, {"query": "a", "topk": True},
        {"query": "a", "topk": "3"}, {"queries": ["a"] * 1_025},
    ],
)  # fmt: skip
def test_bad_requests(index, body):
    with pytest.raises(BadRequest, match="expected"):
        answer(index, body)


def test_the_script_serves_a_corpus(directory, tmp_path):
    command = [sys.executable, "launch/retriever.py", f"--corpus={directory / 'corpus.jsonl'}", "--port=0"]
    process = subprocess.Popen(
        [*command, f"--cache={tmp_path / 'cache'}"], cwd=PROJECT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )  # fmt: skip
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line.startswith("retriever: 4 passages at http://127.0.0.1:")
        found = client(line.split()[-1]).search(["oak bay"], 3)
        assert [hit.passage.id for hit in found[0]] == ["y"]
    finally:
        process.terminate()
        process.wait(timeout=30)


def test_the_script_says_what_is_wrong(tmp_path):
    command = [sys.executable, "launch/retriever.py", f"--corpus={tmp_path / 'none.jsonl'}"]
    ended = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(PROJECT)}
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("error: [Errno 2] No such file or directory")


def test_many_threads(index):
    with served(index) as server:
        retriever, wrong = client(server.url, remembered=0), []

        def ask():
            for _ in range(5):
                if retriever.search(["red river"], 2) != index.search(["red river"], 2):
                    wrong.append(time.monotonic())

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
