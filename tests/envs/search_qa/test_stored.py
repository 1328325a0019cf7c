"""Corpora with their index in files: built once, whole or not at all, shared; by either engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from pivotopd_jax.envs.mapped import MappedRecords
from pivotopd_jax.envs.row_files import DataError
from pivotopd_jax.envs.search_qa import stored
from pivotopd_jax.envs.search_qa.passages import Passage, make_passage
from pivotopd_jax.envs.search_qa.retrieval import Bm25
from pivotopd_jax.envs.search_qa.stored import build, load_bm25, open_index, stored_passages
from pivotopd_jax.envs.search_qa.tantivy_bm25 import TantivyBm25

LOADS = """
import sys
from pathlib import Path
from pivotopd_jax.envs.search_qa import stored
stored.MAX_PASSAGES = int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
print(stored.load_bm25(Path(sys.argv[1]), Path(sys.argv[2])).search(["river of ann", "lee"], 3))
"""


@pytest.fixture(params=[("bm25s", 100_000), ("tantivy", 3)], ids=lambda param: param[0])
def engine(request, monkeypatch) -> str:
    """Each engine in turn: the hand-made corpus has four passages."""
    monkeypatch.setattr(stored, "MAX_PASSAGES", request.param[1])
    stored._load.cache_clear()
    return request.param[0]


def ids(index, query, k=3):
    return [hit.passage.id for hit in index.search([query], k)[0]]


def test_built_once_and_mapped(directory, tmp_path, passages, engine, monkeypatch):
    cache = tmp_path / "cache"
    index = load_bm25(directory / "corpus.jsonl", cache)
    assert isinstance(index, {"bm25s": Bm25, "tantivy": TantivyBm25}[engine])
    assert ids(index, "who directed red river") == ids(Bm25(passages), "who directed red river") == ["f", "x"]
    assert isinstance(index._passages, MappedRecords)
    assert list(index._passages) == list(passages)
    assert (index._passages[1:3], len(index), index._passages[-1]) == (list(passages[1:3]), 4, passages[-1])
    assert [path.stat().st_mode & 0o777 for path in cache.iterdir()] == [0o755]
    monkeypatch.setattr(stored, "build", None)
    stored._load.cache_clear()
    assert ids(load_bm25(directory / "corpus.jsonl", cache), "oak bay") == ["y"]
    assert load_bm25(directory / "corpus.jsonl", cache) is load_bm25(directory / "corpus.jsonl", cache)


def test_scores_are_mapped(directory, tmp_path):
    index = load_bm25(directory / "corpus.jsonl", tmp_path / "cache")
    assert isinstance(index, Bm25)
    assert isinstance(index._index.scores["data"], np.memmap)


@pytest.mark.parametrize(("passages", "kind"), [(3, Bm25), (4, TantivyBm25)])
def test_the_number_of_passages_decides(tmp_path, monkeypatch, passages, kind):
    monkeypatch.setattr(stored, "MAX_PASSAGES", 3)
    corpus = tmp_path / "c.jsonl"
    corpus.write_text("".join(json.dumps({"id": str(i), "contents": f"fox {i:03}"}) + "\n" for i in range(passages)))
    index = load_bm25(corpus, tmp_path / "cache")
    assert (type(index), len(index), ids(index, "fox 002 002")) == (kind, passages, ["2", "0", "1"])


def test_a_changed_corpus_has_another_index(directory, tmp_path, engine):
    corpus, cache = directory / "corpus.jsonl", tmp_path / "cache"
    assert ids(load_bm25(corpus, cache), "zebra") == []
    corpus.write_text('{"id": "z", "contents": "zebra"}')
    assert ids(load_bm25(corpus, cache), "zebra") == ["z"]
    assert len(list(cache.iterdir())) == 2


def test_the_first_of_several_builders_wins(tmp_path, passages, engine):
    target = tmp_path / "cache" / "i"
    build(target, passages)
    build(target, passages[:2])
    assert [path.name for path in target.parent.iterdir()] == ["i"]
    assert len(stored_passages(target)) == 4


def test_passages_are_gone_through_once_and_not_held(tmp_path, monkeypatch):
    """Of a corpus that is streamed a batch and the one before it are held, besides the first that were counted."""
    monkeypatch.setattr(stored, "MAX_PASSAGES", 10)
    alive, most = set(), 0

    class Counted(str):
        def __init__(self, _):
            nonlocal most
            alive.add(id(self))
            most = max(most, len(alive))

        def __del__(self):
            alive.discard(id(self))

    build(tmp_path / "i", (Passage(str(i), Counted(f"fox {i % 7} hen")) for i in range(5_000)))
    assert len(stored_passages(tmp_path / "i")) == 5_000
    assert 1_000 <= most <= 2_050


def test_a_failed_build_leaves_nothing(directory, tmp_path, engine, monkeypatch):
    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(stored, "write_records", fail)
    with pytest.raises(OSError, match="no space left"):
        load_bm25(directory / "corpus.jsonl", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_corpus_that_breaks_off_leaves_nothing(directory, tmp_path, engine):
    corpus = directory / "corpus.jsonl"
    whole = corpus.read_text()
    corpus.write_text(whole + '{"id": "e", "conte')
    with pytest.raises(DataError, match="line 6 is not JSON"):
        load_bm25(corpus, tmp_path / "cache")
    corpus.write_text(whole + whole.splitlines()[0])
    with pytest.raises(DataError, match="line 6: the id 'f' was there before"):
        load_bm25(corpus, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_killed_build_is_begun_again(tmp_path):
    """What it leaves is never taken for an index."""
    cache = tmp_path / "cache"
    script = (
        "import sys; from pathlib import Path; from pivotopd_jax.envs.search_qa import stored as s\n"
        "def passages():\n"
        "    for n in range(9):\n"
        "        yield s.Passage(str(n), f'fox hen {n:03}')\n"
        "    print('amid', flush=True); sys.stdin.read()\n"
        "s.MAX_PASSAGES = 3; s.build(Path(sys.argv[1]), passages())"
    )
    child = subprocess.Popen([sys.executable, "-c", script, str(cache / "i")], stdin=-1, stdout=-1)
    assert child.stdout
    assert child.stdout.readline() == b"amid\n"
    assert len(list(cache.iterdir())) == 1
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not (cache / "i").exists()
    build(cache / "i", [Passage("1", "fox")])
    assert len(stored_passages(cache / "i")) == 1


def test_other_processes_find_the_same(directory, tmp_path, engine):
    """Two at once, of which one builds; then this one, of which none does."""
    corpus, cache = directory / "corpus.jsonl", tmp_path / "cache"
    command = [sys.executable, "-c", LOADS, str(corpus), str(cache), str(stored.MAX_PASSAGES)]
    children = [subprocess.Popen(command, stdin=-1, stdout=-1, text=True) for _ in range(2)]
    for child in children:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
    shown = {child.communicate("go\n")[0].strip() for child in children}
    assert shown == {str(load_bm25(corpus, cache).search(["river of ann", "lee"], 3))}
    assert [len(path.name) for path in cache.iterdir()] == [32]


def test_any_thread_may_search(tmp_path, passages, engine):
    build(tmp_path / "i", [Passage(str(i), f"fox {i % 5:03} hen") for i in range(400)])
    index = open_index(tmp_path / "i")
    expected = [ids(index, f"{i % 5:03}") for i in range(40)]
    index._best.cache_clear()
    found: dict[int, list[list[str]]] = {}

    def search(number):
        found[number] = [ids(index, f"{i % 5:03}") for i in range(40)]

    threads = [threading.Thread(target=search, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), expected)


def test_the_real_corpus(search_qa_data, cache):
    index = load_bm25(search_qa_data / "corpus.jsonl.gz", cache)
    assert len(index) == 9_347
    hit = index.search(["Demon Dice"], 3)[0][0].passage
    assert (hit.id, hit.title) == ("0", "Demon Dice")
    assert hit.text.startswith("Demon Dice, originally published as Chaos Progenitus, is a collectible dice game")


def test_text_survives_storage(tmp_path, engine):
    odd = [make_passage("1", 'Say "hi"', "é 木 \u2028 \ud800 </information>")]
    odd += [Passage(str(i), f"plain \ud800 {i}") for i in (5, 3, 4)]
    build(tmp_path / "i", odd)
    assert list(stored_passages(tmp_path / "i")) == odd
